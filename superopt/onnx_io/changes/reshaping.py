"""Constant shapes for Reshape nodes whose computed sizes follow from the tensor that they reshape.

``Reshape(x, [Shape(x)[0], Shape(x)[1], 16, 64])`` is ``Reshape(x, [0, 0, 16, 64])``: 0 copies a size, and one
size may be -1, which follows from the number of elements. Sizes are assumed not to be 0, as everywhere. The
nodes that computed them are then often unused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from superopt.domains import Array
from superopt.ir.bounds import is_not_negative
from superopt.ir.dimensions import Dimension, product
from superopt.ir.types import TensorType
from superopt.onnx_io.protos import STANDARD_DOMAINS, names_within
from superopt.onnx_io.sizes.inference import InferredTypes
from superopt.onnx_io.sizes.rules import reshaped
from superopt.onnx_io.sizes.shape_data import dimensions, is_symbolic


@dataclass(frozen=True, slots=True)
class ConstantShapes:
    """The nodes of a graph, some of them with a new constant as their shape; the constants by name."""

    nodes: Sequence[onnx.NodeProto]
    constants: Mapping[str, Array]


def with_constant_shapes(graph: onnx.GraphProto, inferred: InferredTypes) -> ConstantShapes | None:
    """The nodes with such shapes; None where there are none."""
    wanted = {
        index: numbers
        for index, node in enumerate(graph.node)
        if (numbers := _constant_shape(node, inferred)) is not None
    }
    if not wanted:
        return None
    taken = set(names_within(graph))
    names: dict[tuple[int, ...], str] = {}
    for numbers in wanted.values():
        if numbers not in names:
            names[numbers] = _fresh(f"superopt/sizes/{','.join(map(str, numbers))}", taken)
    nodes = [
        _with_shape(node, names[wanted[index]]) if index in wanted else node
        for index, node in enumerate(graph.node)
    ]
    return ConstantShapes(nodes, {name: np.array(numbers, np.int64) for numbers, name in names.items()})


def _constant_shape(node: onnx.NodeProto, inferred: InferredTypes) -> tuple[int, ...] | None:
    if node.op_type != "Reshape" or node.domain not in STANDARD_DOMAINS or len(node.input) < 2:
        return None
    own, content = inferred.types.get(node.input[0]), inferred.contents.get(node.input[1])
    if not isinstance(own, TensorType) or content is None or not is_symbolic(content):
        return None
    if any(attribute.name == "allowzero" and attribute.i for attribute in node.attribute):
        return None
    shape = reshaped(own.shape, dimensions(content), copies_zero=True)
    sizes = [size for size in shape if size is not None]
    if len(sizes) < len(shape) or not all(map(is_not_negative, sizes)):
        return None
    return None if product(sizes) != own.elements else _written(own.shape, sizes)


def _written(own: Sequence[Dimension], sizes: Sequence[Dimension]) -> tuple[int, ...] | None:
    numbers = [
        size if isinstance(size, int) else 0 if axis < len(own) and own[axis] == size else -1
        for axis, size in enumerate(sizes)
    ]
    return tuple(numbers) if numbers.count(-1) <= 1 else None


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _with_shape(node: onnx.NodeProto, name: str) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[1] = name
    return copy


__all__ = ["ConstantShapes", "with_constant_shapes"]
