"""Dropout as a product with a mask that is a function of seed, step, layer and element (``random_masks``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import onnx
from onnx import numpy_helper

from superopt.domains import Array
from superopt.errors import InvalidModelError
from superopt.ir.types import TensorType, ValueType
from superopt.onnx_io.files.external import is_external
from superopt.onnx_io.node_building import NodeBuilder, node_label
from superopt.onnx_io.protos import ONNX_ELEMENTS, constant_tensor, dtype_of
from superopt.onnx_io.training.random_masks import WORDS, MaskWriter

DEFAULT_RATIO = 0.5


def ratio_of(node: onnx.NodeProto, constant: Callable[[str], Array | None]) -> float:
    """The probability with which a Dropout node (operator set 12 or newer) drops an element. Raises
    InvalidModelError unless it is a constant in [0, 1)."""
    if len(node.input) < 2 or not node.input[1]:
        return DEFAULT_RATIO
    content = constant(node.input[1])
    if content is None:
        raise InvalidModelError(
            f"{node_label(node)}: expected a constant ratio, got {node.input[1]!r}, which is computed"
        )
    ratio = float(content.reshape(()))
    if not 0 <= ratio < 1:
        raise InvalidModelError(f"{node_label(node)}: expected a ratio in [0, 1), got {ratio}")
    return ratio


@dataclass(frozen=True, slots=True)
class Samples:
    """Where a batch lies in the global batch: the names of two int64 scalars, ``first``, the number of
    samples before it, and ``count``, the number of samples in it, at least 1."""

    first: str
    count: str

    @classmethod
    def of_input(cls, builder: NodeBuilder, first: str, data: str) -> Samples:
        """The place of a batch whose samples lie along the first axis of ``data``."""
        shape = builder.add("Shape", [data], "mask_samples")
        axis = builder.constant("mask_0", np.array(0, np.int64))
        count = builder.add("Gather", [shape, axis], "mask_samples")
        one = builder.constant("mask_1", np.array(1, np.int64))
        return cls(first, builder.add("Max", [count, one], "mask_samples"))


class DropoutWriter:
    """Writes Dropout nodes as plain nodes into ``builder``. ``types`` are those of the graph's tensors."""

    def __init__(self, builder: NodeBuilder, masks: MaskWriter, types: Mapping[str, ValueType]) -> None:
        self._builder = builder
        self._masks = masks
        self._types = types

    def write(self, node: onnx.NodeProto, layer: int, ratio: float, samples: Samples | None) -> None:
        """Writes the product and, where the node has that output, the mask. The samples of a batch lie one
        after another in the tensor. Raises InvalidModelError where the element type is unknown."""
        build, (data, output) = self._builder, (node.input[0], node.output[0])
        element = self._types.get(data)
        if not isinstance(element, TensorType) or not element.element.is_float:
            raise InvalidModelError(f"{node_label(node)}: expected a floating-point tensor, got {element}")
        keeps = 1 - Fraction(ratio)
        threshold = min(round(keeps * WORDS), WORDS - 1)
        first = None if samples is None else self._first_element(data, samples, output)
        kept = self._masks.keep(layer, data, threshold, first, output)
        factor = build.constant("mask_scale", np.array(float(1 / keeps), dtype_of(element.element)))
        ones = build.add("Cast", [kept], f"{output}.mask", {"to": ONNX_ELEMENTS[element.element]})
        mask = build.add("Mul", [ones, factor], f"{output}.mask")
        build.write("Mul", [data, mask], output)
        if len(node.output) > 1 and node.output[1]:
            build.write("Identity", [kept], node.output[1])

    def _first_element(self, data: str, samples: Samples, name: str) -> str:
        """The global index of the first element of a tensor."""
        build = self._builder
        size = build.add("Size", [data], f"{name}.size")
        each = build.add("Div", [size, samples.count], f"{name}.each")
        return build.add("Mul", [samples.first, each], f"{name}.first")


def write_identity(builder: NodeBuilder, node: onnx.NodeProto) -> None:
    """Writes a Dropout node that keeps everything."""
    builder.write("Identity", [node.input[0]], node.output[0])
    if len(node.output) > 1 and node.output[1]:
        shape = builder.add("Shape", [node.input[0]], f"{node.output[0]}.shape")
        true = builder.constant("mask_true", np.ones((), np.bool_))
        builder.write("Expand", [true, shape], node.output[1])


def stored_constants(graph: onnx.GraphProto) -> Callable[[str], Array | None]:
    """The contents of initialisers, overridable ones too, and of Constant nodes; None if external."""
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and (tensor := constant_tensor(node)) is not None:
            tensors[node.output[0]] = tensor

    def content(name: str) -> Array | None:
        tensor = tensors.get(name)
        return None if tensor is None or is_external(tensor) else numpy_helper.to_array(tensor)

    return content
