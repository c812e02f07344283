"""Convolution by a bilinear algorithm: fewer multiplications per tile than the definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, TypeVar, cast

import numpy as np

from superopt.domains import Domain
from superopt.domains.arrays import padded
from superopt.errors import UnfitTypesError
from superopt.ir.dimensions import Dimension, floor_divide
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import (
    Operator,
    Work,
    equal_dimensions,
    moved_bytes,
    register,
    require_float,
    require_rank,
    tensors,
)
from superopt.ops.bilinear.filter_algorithms import (
    KARATSUBA,
    FilterAlgorithm,
    Matrices,
    Matrix,
    Tiling,
    by_definition,
    entries,
    extent_of,
    is_given,
    parts_of,
)
from superopt.ops.images.convolution import Conv
from superopt.ops.images.windows import Padding, Window, explicit_padding, windows
from superopt.ops.roles import Product
from superopt.ops.sharded.splits import Splits, undivided

A = TypeVar("A")
_TYPICAL: Mapping[str, tuple[object, ...]] = {
    "rows": (KARATSUBA, ()),
    "columns": ((), KARATSUBA),
    "zeros": ((0, 0), (1, 0), (0, 1)),
    "dilation": ((1, 1), (1, 2), (2, 1)),
}


@register
@dataclass(frozen=True, slots=True)
class FilterTransform(Operator):
    """The kernel of a convolution at the points of its algorithms along ``rows`` and ``columns``: one kernel
    below the other for each point, first those of the first point along the columns. A kernel of several
    times the taps of an algorithm has as many parts; ``zeros`` are taps behind it, along rows and columns,
    that complete the last part. The term has a type only if the algorithms compute a filter of the extent of
    the kernel or its parts, coefficient by coefficient."""

    name: ClassVar[str] = "filter_transform"
    inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    positions: ClassVar[int | None] = 4
    ranks: ClassVar[tuple[int, ...]] = (4,)
    parameters: ClassVar[int | None] = 0
    kernel_input: ClassVar[int | None] = 0
    from_rules: ClassVar[bool] = True
    typical: ClassVar[Mapping[str, tuple[object, ...]]] = _TYPICAL
    rows: FilterAlgorithm = ()
    columns: FilterAlgorithm = ()
    zeros: tuple[int, int] = (0, 0)

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """[o, c, kh, kw] -> [points o, c, parts or kh, parts or kw]."""
        (weight,) = tensors(self.name, 1, types)
        require_rank(self.name, weight, 4)
        require_float(self.name, weight)
        outputs, channels, *extents = weight.shape
        for axis, where, algorithm, zeros in _along(self):
            extents[axis] = parts_of(where, extents[axis], algorithm, zeros)
            outputs = outputs * len(algorithm[1])
        return (weight.with_shape((outputs, channels, *extents)),)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The matrices of the weights, applied to each part along the last two axes."""
        (weight,) = arrays
        weight = domain.rearrange(lambda part: padded(part, (0, 0, *self.zeros)), weight)
        outputs, channels, *extents = domain.shape(weight)
        matrices = [algorithm[1] if algorithm else () for algorithm in (self.rows, self.columns)]
        taps = [len(matrix[0]) if matrix else 1 for matrix in matrices]
        parts = [extent // each for extent, each in zip(extents, taps, strict=True)]
        weight = domain.reshape(weight, (outputs, channels, parts[0], taps[0], parts[1], taps[1]))
        weight = _applied(domain, matrices[0], domain.transpose(weight, (0, 1, 2, 4, 3, 5)), matrices[1])
        points = [len(matrix) if matrix else 1 for matrix in matrices]
        weight = domain.transpose(weight, (5, 4, 0, 1, 2, 3))
        return (domain.reshape(weight, (points[0] * points[1] * outputs, channels, *parts)),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """None: it is computed once, before the run."""
        return undivided(inputs, outputs)


@register
@dataclass(frozen=True, slots=True)
class BilinearConv(Operator):
    """``conv`` with stride 1, tile by tile: ``rows`` and ``columns`` are the algorithms along the two axes,
    the second input is the kernel after ``filter_transform`` by the same and as many ``zeros``. Products at a
    point are summed over the channels and the parts of the kernel. With a ``dilation`` of d, every d-th row
    and column is an image of its own. The term has a type only if the algorithms compute a filter,
    coefficient by coefficient. (Winograd 1980, Arithmetic Complexity of Computations; Lavin and Gray 2016,
    Fast Algorithms for Convolutional Neural Networks.)"""

    name: ClassVar[str] = "bilinear_conv"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,), (1,))
    inputs: ClassVar[int] = 2
    polynomial: ClassVar[bool] = True
    positions: ClassVar[int | None] = 4
    ranks: ClassVar[tuple[int, ...]] = (4,)
    product: ClassVar[Product | None] = Product.CONVOLUTION
    parameters: ClassVar[int | None] = 1
    windowed: ClassVar[bool] = True
    rounds_more: ClassVar[bool] = True
    from_rules: ClassVar[bool] = True
    typical: ClassVar[Mapping[str, tuple[object, ...]]] = _TYPICAL
    rows: FilterAlgorithm = ()
    columns: FilterAlgorithm = ()
    padding: Padding = "valid"
    zeros: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)

    @property
    def points(self) -> int:
        """Multiplications of a tile, without those of an axis that has no algorithm."""
        return len(self.rows[0] if self.rows else (1,)) * len(self.columns[0] if self.columns else (1,))

    @property
    def definition(self) -> Conv:
        """The convolution that it computes."""
        return Conv(padding=self.padding, dilation=self.dilation)

    def kernel(self, weight: TensorType) -> TensorType:
        """The type of the kernel before its transform."""
        outputs, channels, *extents = weight.shape
        for axis, where, algorithm, zeros in _along(self):
            extents[axis] = extent_of(where, extents[axis], algorithm, zeros)
        each = floor_divide(outputs, self.points)
        equal_dimensions(f"{self.name}, outputs at all points", outputs, each * self.points)
        return weight.with_shape((each, channels, *extents))

    def window(self, *inputs: TensorType) -> Window:
        """A window of the size of the kernel."""
        data, weight = inputs
        return self.definition.window(data, self.kernel(weight))

    def groups(self, data: TensorType, weight: TensorType) -> Dimension:
        """Channels of the input divided by those of the weight; raises unless that divides the outputs."""
        return self.definition.groups(data, self.kernel(weight))

    def grouped(self, *inputs: TensorType) -> tuple[Dimension, Dimension, Dimension] | None:
        """The three sizes that the groups must divide."""
        if len(inputs) != 2 or any(type_.rank != 4 for type_ in inputs):
            return None
        data, weight = inputs
        return data.shape[1], weight.shape[1], floor_divide(weight.shape[0], self.points)

    def unseen(self, *inputs: TensorType) -> frozenset[tuple[object, ...]]:
        """That windows are odd with symmetric padding; that groups divide the outputs."""
        data, weight = inputs
        return self.definition.unseen(data, self.kernel(weight))

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([n, c, h, w], [points o, c / g, parts or kh, parts or kw]) -> [n, o, h', w']."""
        data, weight = tensors(self.name, 2, types)
        require_rank(f"{self.name}, second input", weight, 4)
        return self.definition.infer_whole(data, self.kernel(weight))

    def extents(self, weight: tuple[int, ...]) -> tuple[int, int]:
        """The rows and columns of the kernel, for the shape of the transformed one."""
        extents = list(weight[2:])
        for axis, _, algorithm, zeros in _along(self):
            extents[axis] = extents[axis] * len(algorithm[1][0]) - zeros
        return extents[0], extents[1]

    def margins(self, data: tuple[int, ...], weight: tuple[int, ...]) -> tuple[int, int, int, int]:
        """The padding as (top, left, bottom, right), for the shapes of the inputs."""
        sizes = (data[2], data[3])
        return explicit_padding(sizes, self.extents(weight), (1, 1), self.dilation, self.padding)

    def tilings(self, data: tuple[int, ...], weight: tuple[int, ...]) -> tuple[Tiling, Tiling]:
        """How tiles lie along rows and columns, for the shapes of the inputs without a dilation."""
        rows, columns = (
            algorithm or by_definition(extent)
            for algorithm, extent in zip((self.rows, self.columns), weight[2:], strict=True)
        )
        (height, width), (top, left, bottom, right) = self.extents(weight), self.margins(data, weight)
        return (
            Tiling(rows, height, data[2], top, bottom),
            Tiling(columns, width, data[3], left, right),
        )

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Transforms tiles, multiplies them with the kernels at each point, sums over channels, transforms
        back."""
        data, weight = arrays
        if self.dilation != (1, 1):
            return (self._of_phases(domain, data, weight),)
        n, *_ = domain.shape(data)
        rows, columns = self.tilings(domain.shape(data), domain.shape(weight))
        outputs = domain.shape(weight)[0] // self.points
        tiles = _applied(domain, rows.left, _tiles(domain, data, rows, columns), columns.left)
        products = _pointwise(
            domain, _of_parts(domain, tiles, rows, columns), self._at_points(domain, weight)
        )
        shape = (n, outputs, rows.tiles, columns.tiles, rows.points, columns.points)
        back = _applied(
            domain, _turned(rows.result), domain.reshape(products, shape), _turned(columns.result)
        )
        image = domain.reshape(
            domain.transpose(back, (0, 1, 2, 4, 3, 5)),
            (n, outputs, rows.tiles * rows.step, columns.tiles * columns.step),
        )
        return (domain.slice(domain.slice(image, 2, 0, rows.outputs), 3, 0, columns.outputs),)

    def _of_phases(self, domain: Domain[A], data: A, weight: A) -> A:
        """Convolves every d-th row and column by itself, for a dilation of d, as samples of a batch."""
        n, channels, *sizes = domain.shape(data)
        margins, dilation = self.margins(domain.shape(data), domain.shape(weight)), self.dilation
        totals = [size + margins[axis] + margins[axis + 2] for axis, size in enumerate(sizes)]
        missing = [-total % step for total, step in zip(totals, dilation, strict=True)]
        widths = (*margins[:2], margins[2] + missing[0], margins[3] + missing[1])
        data = domain.rearrange(lambda part: padded(part, widths), data)
        height, width = ((t + more) // d for t, more, d in zip(totals, missing, dilation, strict=True))
        data = domain.reshape(data, (n, channels, height, dilation[0], width, dilation[1]))
        data = domain.transpose(data, (0, 3, 5, 1, 2, 4))
        data = domain.reshape(data, (n * dilation[0] * dilation[1], channels, height, width))
        (image,) = replace(self, padding="valid", dilation=(1, 1)).evaluate(domain, data, weight)
        _, outputs, height, width = domain.shape(image)
        image = domain.reshape(image, (n, *dilation, outputs, height, width))
        image = domain.transpose(image, (0, 3, 4, 1, 5, 2))
        image = domain.reshape(image, (n, outputs, height * dilation[0], width * dilation[1]))
        kept = [image_size - more for image_size, more in zip(domain.shape(image)[2:], missing, strict=True)]
        return domain.slice(domain.slice(image, 2, 0, kept[0]), 3, 0, kept[1])

    def _at_points(self, domain: Domain[A], weight: A) -> A:
        """The transformed kernel as [o, c / g, parts, points]; an axis without an algorithm has a single part
        and a point for each tap."""
        total, channels, height, width = domain.shape(weight)
        down, across = len(self.rows[0]) if self.rows else 1, len(self.columns[0]) if self.columns else 1
        outputs = total // (down * across)
        weight = domain.reshape(weight, (across, down, outputs, channels, height, width))
        rows, columns = (4, 1) if self.rows else (1, 4), (5, 0) if self.columns else (0, 5)
        weight = domain.transpose(weight, (2, 3, rows[0], columns[0], rows[1], columns[1]))
        parts = (height if self.rows else 1) * (width if self.columns else 1)
        return domain.reshape(weight, (outputs, channels, parts, across * down * height * width // parts))

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Samples, as for the convolution; the points share their outputs."""
        data, weight = inputs
        whole = self.definition.splits((data, self.kernel(weight)), outputs)
        return Splits(whole.dimensions[:1], ((0, None, None, None), (None,) * 4), ((0, None, None, None),))

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """Two operations per multiplication of a tile, and per entry of the transforms of data and
        results."""
        data, weight = inputs
        image = outputs[0]
        products, step = weight.shape[2] * weight.shape[3] * self.points, 1
        transforms: Dimension = 0
        for algorithm in (self.rows, self.columns):
            if algorithm:
                left, _, result = algorithm
                step *= len(result[0])
                used = data.elements * entries(left) + image.elements * entries(result)
                transforms += floor_divide(2 * used, len(result[0]))
        summed = floor_divide(2 * image.elements * weight.shape[1] * products, step)
        return Work(summed + transforms, moved_bytes(inputs, outputs))


def _along(operator: FilterTransform | BilinearConv) -> Iterator[tuple[int, str, Matrices, int]]:
    """The axes that have an algorithm: 0 for rows and 1 for columns, their names in messages, the algorithms
    and the zeros. Raises IllTypedError for zeros along another axis, and where they are no two numbers."""
    zeros = operator.zeros
    if not isinstance(cast("object", zeros), tuple) or tuple(map(type, zeros)) != (int, int):
        raise UnfitTypesError(f"{operator.name}: expected zeros to be two numbers, got {zeros}")
    for axis, algorithm in enumerate((operator.rows, operator.columns)):
        where = f"{operator.name}, {'columns' if axis else 'rows'}"
        if is_given(algorithm):
            yield axis, where, algorithm, zeros[axis]
        elif zeros[axis]:
            raise UnfitTypesError(f"{where}: expected no zeros without an algorithm, got {zeros[axis]}")


def _tiles(domain: Domain[A], data: A, rows: Tiling, columns: Tiling) -> A:
    """[n, c, h, w] -> [n, c, tiles down, tiles across, rows of a tile, columns of a tile]."""
    margins = (rows.before, columns.before, rows.after, columns.after)
    image = domain.rearrange(lambda part: padded(part, margins), data)
    reads, steps = (rows.reads, columns.reads), (rows.step, columns.step)
    return windows(domain, image, reads, steps, (1, 1), (0, 0, 0, 0), repeat_edge=False)


def _of_parts(domain: Domain[A], tiles: A, rows: Tiling, columns: Tiling) -> A:
    """The transformed tiles that each part of the kernel is multiplied with: [n, c, read tiles down, read
    tiles across, points down, points across] -> [n, c, points, tiles, parts]."""
    n, channels, _, _, down, across = domain.shape(tiles)
    parts, apart = (rows.parts, columns.parts), (rows.apart, columns.apart)
    moved = domain.transpose(tiles, (0, 1, 4, 5, 2, 3))
    found = windows(domain, moved, parts, (1, 1), apart, (0, 0, 0, 0), repeat_edge=False)
    shape = (n, channels, down * across, rows.tiles * columns.tiles, parts[0] * parts[1])
    return domain.reshape(found, shape)


def _pointwise(domain: Domain[A], tiles: A, kernels: A) -> A:
    """Sums over the channels of a group and the parts of the kernel, at each point: [n, c, points, tiles,
    parts] and [o, c / g, parts, points] -> [n, g, o / g, tiles, points]."""
    n, channels, points, count, parts = domain.shape(tiles)
    outputs, per_group, *_ = domain.shape(kernels)
    groups, summed = channels // per_group, per_group * parts
    tiles = domain.reshape(tiles, (n, groups, per_group, points, count, parts))
    tiles = domain.reshape(domain.transpose(tiles, (0, 1, 3, 2, 5, 4)), (n, groups, points, summed, count))
    kernels = domain.reshape(kernels, (1, groups, outputs // groups, summed, points))
    products = domain.matmul(domain.transpose(kernels, (0, 1, 4, 2, 3)), tiles)
    return domain.transpose(products, (0, 1, 3, 4, 2))


def _applied(domain: Domain[A], left: Matrix, array: A, right: Matrix) -> A:
    """left array right^T over the last two axes, without the matrices that are empty."""
    ones = (1,) * (len(domain.shape(array)) - 2)
    if left:
        array = domain.matmul(_constant(domain, left, ones), array)
    return domain.matmul(array, _constant(domain, _turned(right), ones)) if right else array


def _constant(domain: Domain[A], matrix: Matrix, ones: tuple[int, ...]) -> A:
    exact = [[Fraction(entry) for entry in row] for row in matrix]
    numerators = np.array([[entry.numerator for entry in row] for row in exact], np.int64)
    denominators = np.array([[entry.denominator for entry in row] for row in exact], np.int64)
    return domain.reshape(domain.constant(numerators, denominators), (*ones, *numerators.shape))


def _turned(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


__all__ = ["BilinearConv", "FilterTransform"]
