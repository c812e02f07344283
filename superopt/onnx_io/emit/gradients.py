"""Emit operators of gradients as standard ONNX nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from superopt.errors import UnsupportedError
from superopt.ir.dimensions import Dimension
from superopt.ir.graph import Node, Value
from superopt.ir.types import ElementType
from superopt.onnx_io.emit.elementwise import pointwise
from superopt.onnx_io.emit.layers import padding_attributes
from superopt.onnx_io.emit.recipes import Emission, OnnxAttribute, Operand, Recipe, Writer, known
from superopt.onnx_io.emit.reductions import reduce_axes
from superopt.onnx_io.emit.runtime_shapes import integers
from superopt.onnx_io.protos import ONNX_ELEMENTS, dtype_of
from superopt.ops.base import axis_of
from superopt.ops.gradients.pooling import AveragePoolGradient, LinearUpsampleGradient, MaxPoolGradient
from superopt.ops.gradients.transposes import ChannelSum, LookupGradient, MatmulWeightGradient, SumTo
from superopt.ops.shape import Broadcast

SCATTER_ADDS_SINCE = 16
"""The operator set since which ScatterND and ScatterElements can add."""


def sum_to(emission: Emission, node: Node) -> Recipe:
    """ReduceSum over the leading axes, and over those that are kept with size 1."""
    assert isinstance(node.operator, SumTo)
    whole = emission.type(node.inputs[0])
    missing = whole.rank - len(node.operator.shape)
    axes = node.operator.summed_axes(whole.shape)
    kept = [axis for axis in axes if axis >= missing]

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        (name,) = operands
        if not axes:
            writer.node("Identity", [name], outputs)
        if kept:
            target = writer.temporary("summed") if missing else outputs[0]
            reduce_axes(writer, "ReduceSum", name, target, *kept)
            name = target
        if missing:
            reduce_axes(writer, "ReduceSum", name, outputs[0], *range(missing), keep=0)

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def channel_sum(emission: Emission, node: Node) -> Recipe:
    """ReduceSum over all axes but one."""
    assert isinstance(node.operator, ChannelSum)
    rank = emission.rank(node.inputs[0])
    own = axis_of("channel_sum", node.operator.axis, rank)
    axes = [axis for axis in range(rank) if axis != own]

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        if axes:
            reduce_axes(writer, "ReduceSum", operands[0], outputs[0], *axes, keep=0)
        else:
            writer.node("Identity", operands, outputs)

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def matmul_weight_gradient(emission: Emission, node: Node) -> Recipe:
    """One Gemm of all rows."""
    assert isinstance(node.operator, MatmulWeightGradient)
    widths = [emission.type(value).shape[-1] for value in node.inputs]
    is_flat = emission.rank(node.inputs[0]) == 2

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        rows = (
            operands if is_flat else [_as_rows(writer, *pair) for pair in zip(operands, widths, strict=True)]
        )
        writer.node("Gemm", rows, outputs, {"transA": 1})

    if not is_flat:
        for width in widths:
            known("matmul_weight_gradient", width)
    return Recipe(node.values, tuple(map(Operand, node.inputs)), write)


def _as_rows(writer: Writer, operand: str, width: Dimension) -> str:
    """[..., d] as [rows, d]."""
    rows = writer.temporary("rows")
    writer.node("Reshape", [operand, integers(writer, [-1, known("rows", width)])], [rows])
    return rows


def lookup_gradient(emission: Emission, node: Node) -> Recipe:
    """ScatterElements that adds to zeros, and reads int64 indices only."""
    scatter = _RowScatter.of(emission, node)
    zero = np.zeros(1, dtype_of(emission.type(node.value).element))

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        table = writer.temporary("table")
        shape = integers(writer, [scatter.size, scatter.width])
        writer.node("Expand", [writer.constant(zero, "zero"), shape], [table])
        scatter.write(writer, table, operands, outputs)

    return Recipe(node.values, tuple(map(Operand, node.inputs)), write)


def addition(emission: Emission, node: Node) -> Recipe:
    """Add, or ScatterElements that adds rows to the other operand, which need not be read as a whole."""
    found = _rows_and_table(emission, node)
    if found is None:
        return pointwise(emission, node)
    rows, table = found
    scatter = _RowScatter.of(emission, rows)

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        scatter.write(writer, operands[0], operands[1:], outputs)

    return Recipe(node.values, (Operand(table), *map(Operand, rows.inputs)), write)


def _rows_and_table(emission: Emission, node: Node) -> tuple[Node, Value] | None:
    """The sums of rows that a sum alone reads, and what they are added to."""
    for sums, table in (node.inputs, node.inputs[::-1]):
        rows = emission.producer(sums, LookupGradient)
        if rows is not None and not isinstance(emission.graph[table.node].operator, Broadcast):
            return rows, table
    return None


@dataclass(frozen=True, slots=True)
class _RowScatter:
    """How rows are added to a table of ``size`` rows of ``width`` elements: by ScatterElements. ScatterND of
    ONNX Runtime 1.31 loses terms where several threads add rows of one index."""

    size: int
    width: int
    indices: ElementType

    @staticmethod
    def of(emission: Emission, node: Node) -> _RowScatter:
        operator = node.operator
        assert isinstance(operator, LookupGradient)
        _require_adding_scatter(emission, operator.name)
        indices, cotangent = (emission.type(value) for value in node.inputs)
        if indices.element.is_float:
            raise UnsupportedError("lookup_gradient: expected whole numbers as indices")
        size, width = (known(operator.name, one) for one in (operator.size, cotangent.shape[-1]))
        return _RowScatter(size, width, indices.element)

    def write(self, writer: Writer, table: str, operands: Sequence[str], outputs: tuple[str, ...]) -> None:
        """``operands`` are the indices and the rows."""
        source, column = operands[0], writer.temporary("column")
        if self.indices is not ElementType.INT64:
            source = writer.temporary("indices")
            writer.node("Cast", [operands[0]], [source], {"to": ONNX_ELEMENTS[ElementType.INT64]})
        writer.node("Reshape", [source, integers(writer, [-1, 1])], [column])
        rows, places = _as_rows(writer, operands[1], self.width), writer.temporary("places")
        writer.node("Expand", [column, integers(writer, [1, self.width])], [places])
        writer.node("ScatterElements", [table, places, rows], outputs, {"axis": 0, "reduction": "add"})


def maxpool_gradient(emission: Emission, node: Node) -> Recipe:
    """MaxPool with the places of the maxima, and ScatterElements that adds there."""
    operator = node.operator
    assert isinstance(operator, MaxPoolGradient)
    _require_adding_scatter(emission, operator.name)
    zero = np.zeros(1, dtype_of(emission.type(node.value).element))
    attributes: dict[str, OnnxAttribute] = {
        "kernel_shape": operator.kernel,
        "strides": operator.stride,
        **padding_attributes(operator.padding, operator.kernel, (1, 1)),
    }

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        hints = ("maxima", "places", "flat", "values", "shape", "size", "zeros", "sums")
        maxima, places, flat, values, shape, size, zeros, sums = (writer.temporary(hint) for hint in hints)
        everything = integers(writer, [-1])
        writer.node("MaxPool", [operands[0]], [maxima, places], attributes)
        writer.node("Reshape", [places, everything], [flat])
        writer.node("Reshape", [operands[1], everything], [values])
        writer.node("Shape", [operands[0]], [shape])
        writer.node("ReduceProd", [shape], [size], {"keepdims": 1})
        writer.node("Expand", [writer.constant(zero, "zero"), size], [zeros])
        writer.node("ScatterElements", [zeros, flat, values], [sums], {"reduction": "add"})
        writer.node("Reshape", [sums, shape], outputs)

    return Recipe(node.values, tuple(map(Operand, node.inputs)), write)


def average_pool_gradient(emission: Emission, node: Node) -> Recipe:
    """ConvTranspose of each channel's shares with a kernel of ones."""
    operator = node.operator
    assert isinstance(operator, AveragePoolGradient)
    dtype = dtype_of(emission.type(node.value).element)
    channels, *image = (known(operator.name, size) for size in operator.shape[1:])
    margins = operator.margins(image[0], image[1])
    counts = [known(operator.name, size) for size in emission.type(node.inputs[0]).shape[2:]]
    trailing = [
        (count - 1) * stride + kernel - margin - size
        for count, stride, kernel, margin, size in zip(
            counts, operator.stride, operator.kernel, margins[:2], image, strict=True
        )
    ]
    attributes: dict[str, OnnxAttribute] = {
        "group": channels,
        "kernel_shape": operator.kernel,
        "output_padding": tuple(max(-margin, 0) for margin in trailing),
        "pads": (*margins[:2], *(max(margin, 0) for margin in trailing)),
        "strides": operator.stride,
    }
    factors = (1 / operator.counts(image[0], image[1])).astype(dtype)

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        shares = writer.temporary("shares")
        ones = writer.constant(np.ones((channels, 1, *operator.kernel), dtype), "ones")
        writer.node("Mul", [operands[0], writer.constant(factors, "factors")], [shares])
        writer.node("ConvTranspose", [shares, ones], outputs, attributes)

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def upsample_linear_gradient(emission: Emission, node: Node) -> Recipe:
    """Products with the transposed matrices of interpolation weights."""
    operator = node.operator
    assert isinstance(operator, LinearUpsampleGradient)
    type_ = emission.type(node.value)
    height, width = (known(operator.name, size) for size in type_.shape[2:])
    left, right = (
        (matrix / (2 * stride)).astype(dtype_of(type_.element))
        for matrix, stride in zip(operator.matrices(height, width), operator.stride, strict=True)
    )

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        rows = writer.temporary("rows")
        writer.node("MatMul", [writer.constant(left, "weights"), operands[0]], [rows])
        writer.node("MatMul", [rows, writer.constant(right, "weights")], outputs)

    return Recipe(node.values, tuple(map(Operand, node.inputs)), write)


def _require_adding_scatter(emission: Emission, name: str) -> None:
    if emission.opset < SCATTER_ADDS_SINCE:
        raise UnsupportedError(f"{name}: operator set {emission.opset} has no Scatter that adds")
