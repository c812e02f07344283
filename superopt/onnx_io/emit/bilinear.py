"""Emit convolutions by bilinear algorithms, in the form that ONNX Runtime 1.31 computes fastest on a CPU.

The runtime keeps images in blocks of channels between convolutions. So data are transformed by convolutions
of each channel by itself, one for each point, and all points are multiplied by one grouped convolution. The
results are transformed back by a matrix product for each axis, behind which one axis is moved.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from superopt.domains import Array
from superopt.ir.dimensions import Dimension
from superopt.ir.graph import Node, Value
from superopt.ir.types import ElementType
from superopt.onnx_io.emit.recipes import Emission, OnnxAttribute, Operand, Recipe, Writer, known
from superopt.onnx_io.emit.tensor_nodes import Size, TensorNodes
from superopt.onnx_io.lifting.cuts import SLICE_TAKES_OPERANDS
from superopt.onnx_io.protos import dtype_of
from superopt.ops.bilinear.convolution import BilinearConv, FilterTransform
from superopt.ops.bilinear.filter_algorithms import Matrix, Tiling

Pair: TypeAlias = "tuple[int, int]"

EXPAND = 8
"""The operator set since which there is Expand."""

STRIP_BYTES = 2_000_000
"""Bytes of transformed data and products that a strip of rows computes, where images are computed in strips.
This and the next number were measured with caches of 1 MiB for each core and 32 MiB for all."""

LEAST_BYTES_IN_STRIPS = 10_000_000
"""Bytes of all transformed data and products, from which images are computed in strips."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Rows (axis 2) or columns (axis 3) of an image in tiles. Of an axis that is not ``transformed``, every
    output is a tile. If its size is ``open``, its tiling is of a size whose last tile has one output: as many
    zeros behind the image complete the last tile of every size, and give no tile more."""

    number: int
    tiling: Tiling
    transformed: bool
    is_open: bool = False

    @staticmethod
    def of(number: int, tiling: Tiling, size: Dimension, *, transformed: bool) -> Axis:
        """The axis of an image of that size."""
        if isinstance(size, int):
            return Axis(number, replace(tiling, size=size), transformed)
        outputs = tiling.reads * tiling.step + 1
        stand_in = outputs + tiling.reads - tiling.step - tiling.before - tiling.behind
        return Axis(number, replace(tiling, size=stand_in), transformed, is_open=True)

    def extent(self, nodes: TensorNodes, image: str) -> tuple[Size, Size]:
        """The numbers of tiles and of outputs."""
        tiling = self.tiling
        if not self.is_open:
            return tiling.tiles, tiling.outputs
        outputs = nodes.plus(nodes.size_of(image, self.number), tiling.outputs - tiling.size)
        return nodes.over(nodes.plus(outputs, tiling.step - 1), tiling.step), outputs

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

    def strip(self, first: int, end: int) -> tuple[Axis, int, int]:
        """Some of the tiles as an axis of its own, and the part of the image that it is."""
        tiling = self.tiling
        shared = tiling.reads - tiling.step
        begins = first * tiling.step - tiling.before
        ends = min(end * tiling.step, tiling.outputs) + shared - tiling.before
        low, high = max(begins, 0), min(ends, tiling.size)
        return (
            replace(self, tiling=replace(tiling, size=high - low, before=low - begins, behind=ends - high)),
            low,
            high,
        )

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
        samples, channels, height, width = data.shape
        if not writes_open_images(emission.opset):
            height, width = (known(operator.name, size) for size in (height, width))
        channels = known(operator.name, channels)
        outputs, per_group, *extents = (known(operator.name, size) for size in weight.shape)
        rows, columns = operator.tilings((1, channels, 1, 1), (outputs, per_group, extents[0], extents[1]))
        return Form(
            samples=samples if isinstance(samples, int) else -1,
            channels=channels,
            outputs=outputs // operator.points,
            groups=channels // per_group,
            rows=Axis.of(2, rows, height, transformed=bool(operator.rows)),
            columns=Axis.of(3, columns, width, transformed=bool(operator.columns)),
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
        margins = [(0,) * 4 if axis.transformed else axis.margins for axis in (self.rows, self.columns)]
        pads = tuple(map(sum, zip(*margins, strict=True)))
        return {"kernel_shape": self._taps, "pads": pads, "group": self.groups}

    def strips(self) -> list[tuple[Form, int, int]]:
        """The convolution of some rows of tiles after others, each with the rows of the image that it needs.
        What a strip computes stays in the nearest cache, but each reads all weights again, and is no smaller
        than these. One strip where all fits into the next cache, the weights are most of it, or sizes are
        open."""
        tiles, computed, weights = self.rows.tiling.tiles, self._computed, self._weights
        count = 1
        is_open = self.rows.is_open or self.columns.is_open
        if not is_open and computed > max(LEAST_BYTES_IN_STRIPS, 2 * weights):
            count = min(tiles, round(computed / max(STRIP_BYTES, weights)))
        bounds = [tiles * number // count for number in range(count + 1)]
        parts = [self.rows.strip(first, end) for first, end in itertools.pairwise(bounds)]
        if any(high <= low for _, low, high in parts):
            return [(self, 0, self.rows.tiling.size)]
        return [(replace(self, rows=rows), low, high) for rows, low, high in parts]

    @property
    def _computed(self) -> int:
        """Bytes of the transformed data and of the products of one sample."""
        maps = self.points * self.rows.tiling.tiles * self.columns.tiling.tiles
        return (self.channels + self.outputs) * maps * self._element_bytes

    @property
    def _weights(self) -> int:
        """Bytes of the transformed kernel."""
        taps = math.prod(self._taps)
        return self.points * self.outputs * self.channels // self.groups * taps * self._element_bytes

    @property
    def _taps(self) -> Pair:
        """Extents of the kernel that is left at a point."""
        height, width = (1 if axis.transformed else axis.tiling.reads for axis in (self.rows, self.columns))
        return height, width

    @property
    def _element_bytes(self) -> int:
        return dtype_of(self.element).itemsize

    @property
    def is_apart(self) -> bool:
        """Whether each point has its own convolution: where joining their results moves less than joining
        their data."""
        return len(self.transformed) == 1 and self.outputs < self.channels


def writes_open_images(opset: int) -> bool:
    """Whether a bilinear convolution can be written in the operator set for images of sizes that are not
    known."""
    return opset >= SLICE_TAKES_OPERANDS


def bilinear_conv(emission: Emission, node: Node) -> Recipe:
    """A bilinear convolution without bias."""
    return bilinear_convolution(emission, node, node.values, None)


def bilinear_convolution(
    emission: Emission, node: Node, defines: tuple[Value, ...], bias: Value | None
) -> Recipe:
    """A bilinear convolution; the bias is added at points where it is transformed back to itself."""
    form = Form.of(emission, node)

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        nodes = TensorNodes(writer, form.element)
        image, weight, *biases = names
        prepare = _Apart if form.is_apart else _Joined
        products = prepare(nodes, form, weight, biases)
        strips = form.strips()
        if len(strips) == 1:
            _image(nodes, form, image, products.of(form, image), outputs[0])
            return
        done: list[str] = []
        for strip, low, high in strips:
            rows = nodes.piece(image, 2, low, high)
            done.append(writer.temporary("strip"))
            _image(nodes, strip, rows, products.of(strip, rows), done[-1])
        nodes.node("Concat", done, {"axis": 2}, outputs[0])

    operands = (*node.inputs, *(() if bias is None else (bias,)))
    return Recipe(defines, tuple(Operand(value) for value in operands), write)


def _at_points(nodes: TensorNodes, form: Form, image: str) -> list[str]:
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


class _Joined:
    """One convolution with the groups of all points."""

    def __init__(self, nodes: TensorNodes, form: Form, weight: str, biases: Sequence[str]) -> None:
        self._nodes = nodes
        self._operands = [weight]
        for bias in biases:
            column = nodes.numbers(form.unit[:, np.newaxis])
            self._operands.append(nodes.reshaped(nodes.node("Mul", [column, bias]), [-1]))

    def of(self, form: Form, image: str) -> str:
        """The products at all points."""
        joined = self._nodes.joined(_at_points(self._nodes, form, image))
        attributes = {**form.products, "group": form.points * form.groups}
        return self._nodes.node("Conv", [joined, *self._operands], attributes)


class _Apart:
    """A convolution for each point."""

    def __init__(self, nodes: TensorNodes, form: Form, weight: str, biases: Sequence[str]) -> None:
        self._nodes = nodes
        self._operands = [[part] for part in nodes.divided(weight, form.points, form.outputs)]
        for bias in biases:
            for operands, factor in zip(self._operands, form.unit, strict=True):
                if factor == 1:
                    operands.append(bias)
                elif factor != 0:
                    operands.append(nodes.node("Mul", [bias, nodes.numbers(np.asarray(factor))]))

    def of(self, form: Form, image: str) -> str:
        """The products at all points."""
        parts = _at_points(self._nodes, form, image)
        results = [
            self._nodes.node("Conv", [part, *operands], form.products)
            for part, operands in zip(parts, self._operands, strict=True)
        ]
        return self._nodes.joined(results)


def _image(nodes: TensorNodes, form: Form, image: str, products: str, output: str) -> None:
    """The transform back and the interleaving of tiles, of columns and then of rows. Transposes move one axis
    between others larger than 1, which the runtime does by copying blocks."""
    (height, rows), (width, columns) = (axis.extent(nodes, image) for axis in (form.rows, form.columns))
    maps = form.outputs * form.rows.points
    if form.columns.transformed:
        step = form.columns.tiling.step
        products = _matrix_product(nodes, form, form.columns, products, nodes.product(maps, height, width))
        if step > 1:
            products = nodes.transposed(products, (0, 2, 1))
        computed, width = nodes.product(width, step), columns
        products = _cut(nodes, products, (form.samples, maps, height), computed, width)
    if form.rows.transformed:
        step = form.rows.tiling.step
        size = nodes.product(form.outputs, height, width)
        products = _matrix_product(nodes, form, form.rows, products, size)
        if step > 1 and width != 1:
            lines = nodes.product(form.outputs, height)
            separate = nodes.reshaped(products, (form.samples, step, lines, width))
            products = nodes.transposed(separate, (0, 2, 1, 3))
        elif step > 1:
            products = nodes.transposed(products, (0, 2, 1))
        computed, height = nodes.product(height, step), rows
        products = _cut(nodes, products, (form.samples, form.outputs), computed, height, (width,))
    nodes.reshaped(products, (form.samples, form.outputs, height, width), output)


def _matrix_product(nodes: TensorNodes, form: Form, axis: Axis, products: str, size: Size) -> str:
    """[n, points size] -> [n, outputs of a tile, size]."""
    flat = nodes.reshaped(products, (form.samples, axis.points, size))
    matrix = nodes.numbers(_floats(axis.tiling.result).T)
    if form.samples == -1 and nodes.writer.opset >= EXPAND:
        matrix = nodes.for_each_sample(matrix, flat)
    return nodes.node("MatMul", [matrix, flat])


def _cut(
    nodes: TensorNodes,
    image: str,
    before: tuple[Size, ...],
    computed: Size,
    outputs: Size,
    behind: tuple[Size, ...] = (),
) -> str:
    """Without the outputs of the last tile that are too many."""
    if computed == outputs:
        return image
    separate = nodes.reshaped(image, (*before, computed, *behind))
    return nodes.beginning(separate, len(before), outputs)


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
        nodes = TensorNodes(writer, type_.element)
        kernel = nodes.reshaped(names[0], (outputs * channels, height, width))
        if operator.rows:
            kernel = nodes.node("MatMul", [nodes.numbers(_floats(operator.rows[1])), kernel])
        if operator.columns:
            kernel = nodes.node("MatMul", [kernel, nodes.numbers(_floats(operator.columns[1]).T)])
        nodes.reshaped(nodes.transposed(kernel, order), final, results[0])

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def _floats(matrix: Matrix) -> Array:
    return np.array([[float(entry) for entry in row] for row in matrix])


__all__ = ["bilinear_conv", "bilinear_convolution", "filter_transform", "writes_open_images"]
