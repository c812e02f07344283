"""Emit convolutions by bilinear algorithms, in the form that ONNX Runtime 1.31 computes fastest on a CPU.

The runtime keeps images in blocks of channels between convolutions. So data are transformed by convolutions
of each channel by itself, one for each point, and all points are multiplied by one grouped convolution. The
results are transformed back by a matrix product for each axis, behind which one axis is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from superopt.domains import Array
from superopt.ir.graph import Node, Value
from superopt.ir.types import ElementType
from superopt.onnx_io.emit.recipes import Emission, OnnxAttribute, Operand, Recipe, Writer, known
from superopt.onnx_io.lift.cuts import SLICE_TAKES_OPERANDS
from superopt.onnx_io.protos import dtype_of
from superopt.ops.bilinear import BilinearConv, FilterTransform
from superopt.ops.filter_algorithms import Matrix, Tiling

Pair: TypeAlias = "tuple[int, int]"

EXPAND = 8
"""The operator set since which there is Expand."""

SPLIT_TAKES_OPERANDS = 13
"""The operator set since which Split has sizes as an operand."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Rows (axis 2) or columns (axis 3) of an image in tiles. Of an axis that is not ``transformed``, every
    output is a tile."""

    number: int
    tiling: Tiling
    transformed: bool

    @property
    def points(self) -> int:
        """Tensors that the transform of the data gives."""
        return self.tiling.points if self.transformed else 1

    def pair(self, along: int, across: int) -> Pair:
        """Numbers for rows and columns: ``along`` this axis and ``across`` it."""
        return (along, across) if self.number == 2 else (across, along)

    @property
    def margins(self) -> tuple[int, int, int, int]:
        """The padding along this axis, with the zeros that complete the last tile."""
        return (*self.pair(self.tiling.before, 0), *self.pair(self.tiling.after, 0))

    @property
    def unit(self) -> Array:
        """Numbers at the points that are transformed back to ones."""
        result = _floats(self.tiling.result) if self.transformed else np.ones((1, 1))
        (ones,) = np.nonzero((result == 1).all(axis=1))
        if len(ones):
            return np.eye(len(result))[ones[0]]
        return np.linalg.lstsq(result.T, np.ones(result.shape[1]), rcond=None)[0]


@dataclass(frozen=True, slots=True)
class Form:
    """The sizes of a convolution; -1 ``samples`` are not known."""

    samples: int
    channels: int
    outputs: int
    groups: int
    rows: Axis
    columns: Axis
    element: ElementType

    @staticmethod
    def of(emission: Emission, node: Node) -> Form:
        """The sizes of a node; raises UnsupportedError where they are not known."""
        operator = node.operator
        assert isinstance(operator, BilinearConv)
        data, weight = (emission.type(value) for value in node.inputs)
        samples = data.shape[0] if isinstance(data.shape[0], int) else -1
        channels, height, width = (known(operator.name, size) for size in data.shape[1:])
        outputs, per_group, *extents = (known(operator.name, size) for size in weight.shape)
        shape = (samples, channels, height, width)
        rows, columns = operator.tilings(shape, (outputs, per_group, extents[0], extents[1]))
        return Form(
            samples=samples,
            channels=channels,
            outputs=outputs // operator.points,
            groups=channels // per_group,
            rows=Axis(2, rows, bool(operator.rows)),
            columns=Axis(3, columns, bool(operator.columns)),
            element=data.element,
        )

    @property
    def transformed(self) -> tuple[Axis, ...]:
        """The axes that have an algorithm."""
        return tuple(axis for axis in (self.rows, self.columns) if axis.transformed)

    @property
    def points(self) -> int:
        """Multiplications of a tile."""
        return self.rows.points * self.columns.points

    @property
    def unit(self) -> Array:
        """Numbers at the points, those of the columns outermost, that are transformed back to ones."""
        return np.kron(self.columns.unit, self.rows.unit)

    @property
    def products(self) -> dict[str, OnnxAttribute]:
        """The convolution at one point."""
        kernel = [1 if axis.transformed else axis.tiling.reads for axis in (self.rows, self.columns)]
        margins = [(0,) * 4 if axis.transformed else axis.margins for axis in (self.rows, self.columns)]
        pads = tuple(map(sum, zip(*margins, strict=True)))
        return {"kernel_shape": kernel, "pads": pads, "group": self.groups}

    @property
    def is_apart(self) -> bool:
        """Whether each point has its own convolution: where joining their results moves less than joining
        their data."""
        return len(self.transformed) == 1 and self.outputs < self.channels


@dataclass(frozen=True, slots=True)
class _Nodes:
    """Writes nodes with one output."""

    writer: Writer
    element: ElementType

    def node(
        self,
        op_type: str,
        operands: Sequence[str],
        attributes: dict[str, OnnxAttribute] | None = None,
        output: str | None = None,
    ) -> str:
        result = self.writer.temporary(op_type.lower()) if output is None else output
        self.writer.node(op_type, operands, [result], attributes)
        return result

    def numbers(self, content: Array) -> str:
        return self.writer.constant(content.astype(dtype_of(self.element)), "matrix")

    def sizes(self, numbers: Sequence[int]) -> str:
        return self.writer.constant(np.array(numbers, np.int64), "sizes")

    def reshaped(self, operand: str, shape: Sequence[int], output: str | None = None) -> str:
        return self.node("Reshape", [operand, self.sizes(shape)], output=output)

    def transposed(self, operand: str, axes: Sequence[int]) -> str:
        return self.node("Transpose", [operand], {"perm": axes})

    def joined(self, parts: Sequence[str]) -> str:
        return parts[0] if len(parts) == 1 else self.node("Concat", parts, {"axis": 1})

    def beginning(self, operand: str, axis: int, size: int) -> str:
        """The first elements along an axis."""
        if self.writer.opset < SLICE_TAKES_OPERANDS:
            return self.node("Slice", [operand], {"axes": [axis], "starts": [0], "ends": [size]})
        return self.node("Slice", [operand, *(self.sizes([number]) for number in (0, size, axis))])

    def for_each_sample(self, matrix: str, operand: str) -> str:
        """The matrix, repeated for each sample of the operand. ONNX Runtime does that itself, but for 0
        samples it fails."""
        samples = self.beginning(self.node("Shape", [operand]), 0, 1)
        shape = self.node("Concat", [samples, self.sizes((1, 1))], {"axis": 0})
        return self.node("Expand", [matrix, shape])

    def divided(self, operand: str, parts: int, size: int) -> list[str]:
        """Parts of equal size along the first axis."""
        outputs = [self.writer.temporary("part") for _ in range(parts)]
        if self.writer.opset < SPLIT_TAKES_OPERANDS:
            self.writer.node("Split", [operand], outputs, {"axis": 0, "split": (size,) * parts})
        else:
            self.writer.node("Split", [operand, self.sizes((size,) * parts)], outputs, {"axis": 0})
        return outputs


def bilinear_conv(emission: Emission, node: Node) -> Recipe:
    """A bilinear convolution without bias."""
    return bilinear_convolution(emission, node, node.values, None)


def bilinear_convolution(
    emission: Emission, node: Node, defines: tuple[Value, ...], bias: Value | None
) -> Recipe:
    """A bilinear convolution; the bias is added at points where it is transformed back to itself."""
    form = Form.of(emission, node)

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        nodes = _Nodes(writer, form.element)
        multiply = _products_apart if form.is_apart else _products
        products = multiply(nodes, form, names[0], names[1], names[2] if bias is not None else None)
        _image(nodes, form, products, outputs[0])

    operands = (*node.inputs, *(() if bias is None else (bias,)))
    return Recipe(defines, tuple(Operand(value) for value in operands), write)


def _at_points(nodes: _Nodes, form: Form, image: str) -> list[str]:
    """The transform of the data: tensors that together have the channels of the first point of the columns
    before those of the second."""
    parts, channels = [image], form.channels
    for axis in form.transformed:
        joined, tiling = nodes.joined(parts), axis.tiling
        attributes: dict[str, OnnxAttribute] = {
            "group": channels,
            "kernel_shape": axis.pair(tiling.reads, 1),
            "strides": axis.pair(tiling.step, 1),
            "pads": axis.margins,
        }
        kernels = [
            np.tile(row.reshape(1, 1, *axis.pair(tiling.reads, 1)), (channels, 1, 1, 1))
            for row in _floats(tiling.left)
        ]
        parts = [nodes.node("Conv", [joined, nodes.numbers(kernel)], attributes) for kernel in kernels]
        channels *= axis.points
    return parts


def _products(nodes: _Nodes, form: Form, image: str, weight: str, bias: str | None) -> str:
    """One convolution with the groups of all points."""
    operands = [nodes.joined(_at_points(nodes, form, image)), weight]
    if bias is not None:
        column = nodes.numbers(form.unit[:, np.newaxis])
        operands.append(nodes.reshaped(nodes.node("Mul", [column, bias]), [-1]))
    return nodes.node("Conv", operands, {**form.products, "group": form.points * form.groups})


def _products_apart(nodes: _Nodes, form: Form, image: str, weight: str, bias: str | None) -> str:
    """A convolution for each point."""
    weights = nodes.divided(weight, form.points, form.outputs)
    results: list[str] = []
    for part, kernel, factor in zip(_at_points(nodes, form, image), weights, form.unit, strict=True):
        operands = [part, kernel]
        if bias is not None and factor != 0:
            operands.append(
                bias if factor == 1 else nodes.node("Mul", [bias, nodes.numbers(np.asarray(factor))])
            )
        results.append(nodes.node("Conv", operands, form.products))
    return nodes.joined(results)


def _image(nodes: _Nodes, form: Form, products: str, output: str) -> None:
    """The transform back and the interleaving of tiles, of columns and then of rows. Transposes move one axis
    between others larger than 1, which the runtime does by copying blocks."""
    height, width = form.rows.tiling.tiles, form.columns.tiling.tiles
    maps = form.outputs * form.rows.points
    if form.columns.transformed:
        products = _matrix_product(nodes, form, form.columns, products, maps * height * width)
        if form.columns.tiling.step > 1:
            products = nodes.transposed(products, (0, 2, 1))
        width = form.columns.tiling.outputs
        products = _cut(nodes, form.columns, products, (form.samples, maps, height))
    if form.rows.transformed:
        products = _matrix_product(nodes, form, form.rows, products, form.outputs * height * width)
        step = form.rows.tiling.step
        if step > 1 and width > 1:
            separate = nodes.reshaped(products, (form.samples, step, form.outputs * height, width))
            products = nodes.transposed(separate, (0, 2, 1, 3))
        elif step > 1:
            products = nodes.transposed(products, (0, 2, 1))
        height = form.rows.tiling.outputs
        products = _cut(nodes, form.rows, products, (form.samples, form.outputs), (width,))
    nodes.reshaped(products, (form.samples, form.outputs, height, width), output)


def _matrix_product(nodes: _Nodes, form: Form, axis: Axis, products: str, size: int) -> str:
    """[n, points size] -> [n, outputs of a tile, size]."""
    flat = nodes.reshaped(products, (form.samples, axis.points, size))
    matrix = nodes.numbers(_floats(axis.tiling.result).T)
    if form.samples == -1 and nodes.writer.opset >= EXPAND:
        matrix = nodes.for_each_sample(matrix, flat)
    return nodes.node("MatMul", [matrix, flat])


def _cut(nodes: _Nodes, axis: Axis, image: str, before: tuple[int, ...], behind: tuple[int, ...] = ()) -> str:
    """Without the outputs of the last tile that are too many."""
    tiling = axis.tiling
    computed = tiling.tiles * tiling.step
    if computed == tiling.outputs:
        return image
    separate = nodes.reshaped(image, (*before, computed, *behind))
    return nodes.beginning(separate, len(before), tiling.outputs)


def filter_transform(emission: Emission, node: Node) -> Recipe:
    """Matrix products from both sides, for kernels computed at run time."""
    operator = node.operator
    assert isinstance(operator, FilterTransform)
    type_ = emission.type(node.inputs[0])
    outputs, channels, height, width = (known(operator.name, size) for size in type_.shape)
    final = tuple(known(operator.name, size) for size in emission.type(node.value).shape)
    order = (*((2,) if operator.columns else ()), *((1,) if operator.rows else ()), 0)
    order = (*order, *(axis for axis in (1, 2) if axis not in order))

    def write(writer: Writer, names: tuple[str, ...], results: tuple[str, ...]) -> None:
        nodes = _Nodes(writer, type_.element)
        kernel = nodes.reshaped(names[0], (outputs * channels, height, width))
        if operator.rows:
            kernel = nodes.node("MatMul", [nodes.numbers(_floats(operator.rows[1])), kernel])
        if operator.columns:
            kernel = nodes.node("MatMul", [kernel, nodes.numbers(_floats(operator.columns[1]).T)])
        nodes.reshaped(nodes.transposed(kernel, order), final, results[0])

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def _floats(matrix: Matrix) -> Array:
    return np.array([[float(entry) for entry in row] for row in matrix])


__all__ = ["bilinear_conv", "bilinear_convolution", "filter_transform"]
