"""Sizes of a convolution by a bilinear algorithm as it is written in ONNX."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from superopt.domains import Array
from superopt.ir.dimensions import Dimension, floor_divide
from superopt.ir.graph import Node
from superopt.ir.types import ElementType
from superopt.onnx_io.emit.bilinear_phases import Phases
from superopt.onnx_io.emit.recipes import Emission, OnnxAttribute, known
from superopt.onnx_io.lifting.cuts import SLICE_TAKES_OPERANDS
from superopt.onnx_io.protos import dtype_of
from superopt.ops.bilinear.convolution import BilinearConv
from superopt.ops.bilinear.filter_algorithms import Matrix, Tiling

Pair: TypeAlias = "tuple[int, int]"

STRIP_BYTES = 2_000_000
"""Bytes of transformed data and products that a strip of rows computes, where images are computed in strips.
This and the next number were measured with caches of 1 MiB for each core and 32 MiB for all."""

LEAST_BYTES_IN_STRIPS = 10_000_000
"""Bytes of all transformed data and products, from which images are computed in strips."""


def writes_open_images(opset: int) -> bool:
    """Whether a bilinear convolution can be written in the operator set for images of sizes that are not
    known."""
    return opset >= SLICE_TAKES_OPERANDS


@dataclass(frozen=True, slots=True)
class Axis:
    """Rows (axis 2) or columns (axis 3) of an image in tiles. Of an axis that is not ``transformed``, every
    output is a tile. An axis that ``is_open`` is of unknown size; its tiling is of a size whose last tile has
    one output: as many zeros behind the image complete the last tile of every size, and give no tile more."""

    number: int
    tiling: Tiling
    transformed: bool
    is_open: bool = False

    @staticmethod
    def of(number: int, tiling: Tiling, size: Dimension, *, transformed: bool) -> Axis:
        """The axis of an image of that size."""
        if isinstance(size, int):
            return Axis(number, replace(tiling, size=size), transformed)
        outputs = (tiling.extent + tiling.before + tiling.behind) * tiling.step + 1
        stand_in = outputs + tiling.extent - 1 - tiling.before - tiling.behind
        return Axis(number, replace(tiling, size=stand_in), transformed, is_open=True)

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

    def tiles_of(self, outputs: Dimension) -> Dimension:
        """The number of tiles of so many outputs."""
        return floor_divide(outputs + (self.tiling.step - 1), self.tiling.step)

    def strip(self, first: int, end: int) -> tuple[Axis, int, int]:
        """Some of the tiles as an axis of its own, and the part of the image that it is."""
        tiling = self.tiling
        shared = tiling.extent - 1
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
        result = floats(self.tiling.result) if self.transformed else np.ones((1, 1))
        (ones,) = np.nonzero((result == 1).all(axis=1))
        if len(ones):
            return np.eye(len(result))[ones[0]]
        return np.linalg.lstsq(result.T, np.ones(result.shape[1]), rcond=None)[0]


@dataclass(frozen=True, slots=True)
class Form:
    """The sizes of a convolution; -1 ``samples`` are not known. With ``phases``, they are those of the image
    of all phases. ``result`` are the samples, height and width of its result."""

    samples: int
    channels: int
    outputs: int
    groups: int
    rows: Axis
    columns: Axis
    element: ElementType
    result: tuple[Dimension, Dimension, Dimension]
    phases: Phases | None = None

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
        kernel = (outputs, per_group, *extents)
        phases = Phases.of(operator, (height, width), kernel)
        result = emission.type(node.value).shape[2:]
        if phases is None:
            rows, columns = operator.tilings((1, channels, 1, 1), kernel)
            transformed = (bool(operator.rows), bool(operator.columns))
        else:
            (height, width), (rows, columns) = phases.sizes, phases.tilings(operator)
            transformed, result = phases.transformed(operator), phases.computed
            samples = samples * phases.count
        return Form(
            samples=samples if isinstance(samples, int) else -1,
            channels=channels,
            outputs=outputs // operator.points,
            groups=channels // per_group,
            rows=Axis.of(2, rows, height, transformed=transformed[0]),
            columns=Axis.of(3, columns, width, transformed=transformed[1]),
            element=data.element,
            result=(samples, result[0], result[1]),
            phases=phases,
        )

    @property
    def is_open(self) -> bool:
        """Whether the height or width of images is not known."""
        return self.rows.is_open or self.columns.is_open

    @property
    def transformed(self) -> tuple[Axis, ...]:
        """The axes that have an algorithm."""
        return tuple(axis for axis in (self.rows, self.columns) if axis.transformed)

    @property
    def partial(self) -> tuple[Axis, ...]:
        """The axes whose last tile may have outputs that are too many."""
        return tuple(a for a in self.transformed if a.tiling.tiles * a.tiling.step != a.tiling.outputs)

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
        dilations = tuple(axis.tiling.apart for axis in (self.rows, self.columns))
        return {"kernel_shape": self.taps, "dilations": dilations, "pads": pads, "group": self.groups}

    def strips(self) -> list[tuple[Form, int, int]]:
        """The convolution of some rows of tiles after others, each with the rows of the image that it needs.
        What a strip computes stays in the nearest cache, but each reads all weights again, and is no smaller
        than these. One strip where all fits into the next cache, the weights are most of it, or sizes are
        open."""
        tiles, computed, weights = self.rows.tiling.tiles, self._computed, self._weights
        count = 1
        if not self.is_open and computed > max(LEAST_BYTES_IN_STRIPS, 2 * weights):
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
        taps = math.prod(self.taps)
        return self.points * self.outputs * self.channels // self.groups * taps * self._element_bytes

    @property
    def taps(self) -> Pair:
        """Extents of the kernel that is left at a point."""
        axes = (self.rows, self.columns)
        height, width = (axis.tiling.parts if axis.transformed else axis.tiling.extent for axis in axes)
        return height, width

    @property
    def _element_bytes(self) -> int:
        return dtype_of(self.element).itemsize

    @property
    def is_apart(self) -> bool:
        """Whether each point has its own convolution: where joining their results moves less than joining
        their data."""
        return len(self.transformed) == 1 and self.outputs < self.channels


def floats(matrix: Matrix) -> Array:
    """The matrix of an algorithm as float64."""
    return np.array([[float(entry) for entry in row] for row in matrix])


__all__ = ["Axis", "Form", "floats", "writes_open_images"]
