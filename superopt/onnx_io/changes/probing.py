"""Variants of a model for diagnosis: with additional outputs, or with perturbed weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from superopt.domains import Array
from superopt.onnx_io.files.external import is_external
from superopt.onnx_io.protos import STANDARD_DOMAINS, default_opset, tensors_in_model

_SATURATING = frozenset(("Sigmoid", "Tanh", "Softmax"))
"""Injective functions (softmax up to a shift) that rounding makes constant far from 0."""

_RESHAPING = frozenset(("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"))
_SINCE_ONE_AXIS = 13
"""The opset since which Softmax is along one axis instead of all axes from one on."""

MOST_SETTINGS = 16
"""Maximum elements of a tensor that may hold exponents, scales, sizes or bounds, which are not perturbed."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """A model output that is a saturating function of ``operand``; ``path`` are the operators in between.
    ``axes`` (first, last) are those of a softmax, None for an elementwise function."""

    operand: str
    path: tuple[str, ...]
    axes: tuple[int, int] | None

    def is_like(self, other: Saturation) -> bool:
        """Whether both are the same function, up to names."""
        return self.path == other.path and self.axes == other.axes

    def settled(self, array: Array) -> Array:
        """The part of the operand that determines the output, flattened: a softmax ignores a shift."""
        if self.axes is None or not array.size:
            return array.reshape(-1)
        first, last = (axis % array.ndim for axis in self.axes)
        mean = array.mean(axis=tuple(range(first, last + 1)), keepdims=True, dtype=np.float64)
        return (array - mean).reshape(-1)


def saturations(content: bytes) -> Mapping[str, Saturation]:
    """Outputs of a model that are results of a saturating function, at most reshaped."""
    model = onnx.ModelProto.FromString(content)
    graph = model.graph
    opset = default_opset(model.opset_import) or 1
    producer = {name: node for node in graph.node for name in node.output if name}
    declared = {value.name for value in graph.output}
    found: dict[str, Saturation] = {}
    for output in declared:
        node, path = producer.get(output), list[str]()
        while node is not None and node.domain in STANDARD_DOMAINS and node.op_type in _RESHAPING:
            path.append(node.op_type)
            node = producer.get(node.input[0])
        if node is None or node.domain not in STANDARD_DOMAINS or node.op_type not in _SATURATING:
            continue
        operand = node.input[0]
        if operand in producer and operand not in declared:
            found[output] = Saturation(operand, (*path, node.op_type), _axes(node, opset))
    return found


def conditions(content: bytes) -> Mapping[str, str]:
    """The condition of each If node of the main graph, by the name of the node (of an output, where it has
    none). Those that are stored constants are left out."""
    graph = onnx.ModelProto.FromString(content).graph
    constants = {tensor.name for tensor in graph.initializer}
    constants.update(name for node in graph.node if node.op_type == "Constant" for name in node.output)
    nodes = (node for node in graph.node if node.op_type == "If" and node.domain in STANDARD_DOMAINS)
    return {
        f"If {node.name or node.output[0]}": node.input[0] for node in nodes if node.input[0] not in constants
    }


def with_outputs(content: bytes, names: Iterable[str]) -> bytes:
    """The model with tensors as additional outputs, if they are not outputs yet."""
    model = onnx.ModelProto.FromString(content)
    declared = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in declared)
    return model.SerializeToString()


def perturbed(content: bytes, seed: int) -> bytes:
    """The model with every weight randomly moved up or down by one unit in the last place."""
    model = onnx.ModelProto.FromString(content)
    random = np.random.default_rng(seed)
    for tensor in tensors_in_model(model):
        if is_external(tensor) or tensor.data_type not in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16):
            continue
        array = numpy_helper.to_array(tensor)
        if array.size > MOST_SETTINGS:
            tensor.CopyFrom(numpy_helper.from_array(nudged(array, random), tensor.name))
    return model.SerializeToString()


def nudged(array: Array, random: np.random.Generator) -> Array:
    """The array with every finite nonzero number randomly moved up or down by one unit in the last place."""
    towards = np.where(random.random(array.shape) < 0.5, -np.inf, np.inf).astype(array.dtype)
    moved = np.isfinite(array) & (array != 0)
    return np.where(moved, np.nextafter(array, towards), array).astype(array.dtype)


def _axes(node: onnx.NodeProto, opset: int) -> tuple[int, int] | None:
    if node.op_type != "Softmax":
        return None
    one = opset >= _SINCE_ONE_AXIS
    axis = next((a.i for a in node.attribute if a.name == "axis"), -1 if one else 1)
    return (axis, axis) if one else (axis, -1)
