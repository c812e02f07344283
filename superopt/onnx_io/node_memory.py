"""Memory that nodes of an ONNX model share or need beside their results, in ONNX Runtime's kernels for CPUs.

Measured: a node between two large tensors of a model, and the peak resident size of its run, without an
arena and without the runtime's optimisations (``tests/onnx_io/test_node_memory.py``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import onnx

from superopt.ir.types import TensorType
from superopt.onnx_io.protos import STANDARD_DOMAINS, captured_names, dtype_of
from superopt.onnx_io.sizes.inference import infer_types

_VIEWS = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
"""Nodes whose result has the memory of their first operand."""

_IN_PLACE = frozenset(
    (
        *("Cast", "Celu", "Clip", "Elu", "HardSigmoid", "LeakyRelu", "LogSoftmax", "Relu", "Selu"),
        *(
            "ScatterElements",
            "ScatterND",
            "Sigmoid",
            "Softmax",
            "Softplus",
            "Softsign",
            "Tanh",
            "ThresholdedRelu",
        ),
    )
)
"""Nodes that write their result over their first operand where nothing else reads it."""

_RANDOM = frozenset(
    (
        *("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike"),
        *("RandomUniform", "RandomUniformLike"),
    )
)

_INLINED = frozenset(("HardSwish", "Mish"))
"""Nodes that the runtime replaces by several, with one tensor between them."""

_INDEX_BYTES = 8


@dataclass(frozen=True, slots=True)
class TensorSize:
    """Shape of a tensor and bytes of one element."""

    shape: tuple[int, ...]
    element_bytes: int

    @property
    def bytes(self) -> int:
        """All bytes."""
        return math.prod(self.shape) * self.element_bytes


def is_view(node: onnx.NodeProto, outputs: Collection[str]) -> bool:
    """Whether the result has the memory of the first operand; a graph output has memory of its own."""
    return _is_standard(node) and node.op_type in _VIEWS and node.output[0] not in outputs


def overwrites(node: onnx.NodeProto, outputs: Collection[str]) -> bool:
    """Whether the result is written over the first operand where that is possible."""
    return _is_standard(node) and node.op_type in _IN_PLACE and node.output[0] not in outputs


def is_repeatable(node: onnx.NodeProto) -> bool:
    """Whether running the node again gives the same results: a standard one without randomness or bodies."""
    return _is_standard(node) and node.op_type not in _RANDOM and not captured_names(node)


def workspace(node: onnx.NodeProto, sizes: Mapping[str, TensorSize]) -> int:
    """Bytes that the kernel allocates beside its results, as far as they grow with its operands: the selected
    halves of a Where, the indices of a ScatterElements, two transposed copies for a Softmax along an inner
    axis. Buffers that kernels use piece by piece (convolutions, matrix products) are below 1 MB, and are not
    counted."""
    if not _is_standard(node):
        return 0
    result = sizes[node.output[0]]
    match node.op_type:
        case "Where":
            condition = sizes[node.input[0]]
            branches = [sizes[name] for name in node.input[1:]]
            return sum(result.bytes for one in branches if result.shape in (condition.shape, one.shape))
        case "ScatterElements" | "ScatterND" | "GatherElements":
            return math.prod(sizes[node.input[1]].shape) * _INDEX_BYTES
        case "Softmax" | "LogSoftmax":
            rank = len(result.shape)
            axis = next((one.i for one in node.attribute if one.name == "axis"), -1)
            return 0 if axis % max(rank, 1) == rank - 1 else 2 * result.bytes
        case name if name in _INLINED:
            return result.bytes
        case _:
            return 0


def tensor_sizes(model: onnx.ModelProto) -> dict[str, TensorSize]:
    """Sizes of all tensors whose shape follows from the model alone."""
    found: dict[str, TensorSize] = {}
    for name, type_ in infer_types(model).types.items():
        if isinstance(type_, TensorType):
            shape = tuple(size for size in type_.shape if isinstance(size, int))
            if len(shape) == type_.rank:
                found[name] = TensorSize(shape, dtype_of(type_.element).itemsize)
    return found


def _is_standard(node: onnx.NodeProto) -> bool:
    return node.domain in STANDARD_DOMAINS
