"""Transposed convolution: every element of an image adds its multiple of a kernel to a larger image.

It is a convolution with the kernel flipped, which costs less where there are few outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from superopt.domains import Array, Domain
from superopt.domains.arrays import padded
from superopt.errors import UnfitTypesError
from superopt.ir.bounds import surely_below, surely_even
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
    same_element,
    tensors,
)
from superopt.ops.images.convolution import Conv, of_kernels
from superopt.ops.images.windows import Padding, odd_windows
from superopt.ops.matrix import concrete
from superopt.ops.sharded.splits import SplitKind, Splits, TaskDimension, axis_by_axis

A = TypeVar("A")


def flipped(domain: Domain[A], array: A) -> A:
    """The array with its last two axes in reverse order."""
    return domain.rearrange(lambda part: part[..., ::-1, ::-1], array)


@register
@dataclass(frozen=True, slots=True)
class Flip(Operator):
    """A kernel [o, c, kh, kw] with its rows and columns in reverse order."""

    name: ClassVar[str] = "flip"
    inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    spatial: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    positions: ClassVar[int | None] = 4
    ranks: ClassVar[tuple[int, ...]] = (4,)
    parameters: ClassVar[int | None] = 0
    kernel_input: ClassVar[int | None] = 0

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """t -> t."""
        (weight,) = tensors(self.name, 1, types)
        require_rank(self.name, weight, 4)
        return (weight,)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Input and output channels."""
        return of_kernels(axis_by_axis(inputs, outputs, (2, 3)))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Reversed."""
        return (flipped(domain, arrays[0]),)


@register
@dataclass(frozen=True, slots=True)
class ConvTranspose(Operator):
    """Transposed convolution of x[n, c, h, w] with w[c, o, kh, kw], not grouped: element (i, j) adds to the
    window at (stride i, stride j). ``padding`` cuts margins off the result: ``valid``, which cuts nothing,
    ``same``, which cuts what a convolution with an odd kernel pads, or (top, left, bottom, right)."""

    name: ClassVar[str] = "conv_transpose"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,), (1,))
    inputs: ClassVar[int] = 2
    positions: ClassVar[int | None] = 4
    ranks: ClassVar[tuple[int, ...]] = (4,)
    parameters: ClassVar[int | None] = 1
    kernel_input: ClassVar[int | None] = 1
    polynomial: ClassVar[bool] = True
    typical: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "stride": ((1, 1), (2, 1), (2, 3)),
        "padding": ("valid", "same", (0, 1, 1, 0), (1, 0, 0, 2)),
        "dilation": ((1, 1), (1, 2)),
    }
    stride: tuple[int, int] = (1, 1)
    padding: Padding = "valid"
    dilation: tuple[int, int] = (1, 1)

    def margins(self, kernel: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
        """What is cut off, as (top, left, bottom, right), for a kernel of these sizes. Raises
        IllTypedError."""
        if isinstance(self.padding, tuple):
            return self.padding
        if self.padding == "valid":
            return (0, 0, 0, 0)
        extents = self._extents(kernel)
        if self.padding != "same" or any(map(surely_even, extents)):
            raise UnfitTypesError(
                f"{self.name}: expected padding valid, same for an odd kernel, or (t, l, b, r), "
                f"got {self.padding} for kernel {kernel}"
            )
        half = tuple(floor_divide(extent, 2) for extent in extents)
        return half + half

    def _extents(self, kernel: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
        return tuple(d * (k - 1) + 1 for d, k in zip(self.dilation, kernel, strict=True))

    def _size(self, size: Dimension, kernel: Dimension, margins: Dimension, axis: int) -> Dimension:
        stride, dilation = self.stride[axis], self.dilation[axis]
        if any(surely_below(number, 1) for number in (size, kernel, stride, dilation)):
            raise UnfitTypesError(
                f"{self.name}: expected positive sizes, stride and dilation, "
                f"got {size}, {kernel}, {stride}, {dilation}"
            )
        if self.padding == "same":
            return (size - 1) * stride + 1
        result = (size - 1) * stride + dilation * (kernel - 1) + 1 - margins
        if surely_below(result, 1):
            raise UnfitTypesError(f"{self.name}: expected margins smaller than the result, got {margins}")
        return result

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([n, c, h, w], [c, o, kh, kw]) -> [n, o, h', w']."""
        data, weight = tensors(self.name, 2, types)
        same_element(self.name, data, weight)
        require_float(self.name, data)
        require_rank(f"{self.name}, first input", data, 4)
        require_rank(f"{self.name}, second input", weight, 4)
        equal_dimensions(f"{self.name}, channels", data.shape[1], weight.shape[0])
        margins = self.margins(weight.shape[2:])
        sizes = tuple(
            self._size(data.shape[axis + 2], weight.shape[axis + 2], margins[axis] + margins[axis + 2], axis)
            for axis in range(2)
        )
        return (data.with_shape((data.shape[0], weight.shape[1], *sizes)),)

    def unseen(self, *inputs: TensorType) -> frozenset[tuple[object, ...]]:
        """That symbolic margins leave something of the result, and that ``same`` windows are odd."""
        sizes = self.infer_whole(*inputs)[0].shape[2:]
        found = frozenset[tuple[object, ...]](
            ("below", 0, size) for size in sizes if not surely_below(0, size)
        )
        return found | odd_windows(self.padding, self._extents(inputs[1].shape[2:]))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The convolution of the elements, zeros between and around them, with the reversed kernel."""
        data, weight = arrays
        extents = [d * (k - 1) for d, k in zip(self.dilation, domain.shape(weight)[2:], strict=True)]
        kernel = domain.transpose(flipped(domain, weight), (1, 0, 2, 3))
        around = Conv((1, 1), (extents[0], extents[1], extents[0], extents[1]), self.dilation)
        (result,) = around.evaluate(domain, self._apart(domain, data), kernel)
        margins = [concrete(self.name, margin) for margin in self.margins(domain.shape(weight)[2:])]
        for axis in range(2):
            size = domain.shape(result)[axis + 2]
            result = domain.slice(result, axis + 2, margins[axis], size - margins[axis + 2])
        return (result,)

    def _apart(self, domain: Domain[A], data: A) -> A:
        """[n, c, (h - 1) stride + 1, ...]: zeros between the elements."""
        n, c, h, w = domain.shape(data)
        rows, columns = self.stride

        def zeros(height: int, width: int, array: A) -> A:
            def widened(part: Array) -> Array:
                return padded(part, (0, 0, height, width))

            return domain.rearrange(widened, array)

        wide = zeros(0, columns - 1, domain.reshape(data, (n, c, h * w, 1)))
        tall = zeros(rows - 1, 0, domain.reshape(wide, (n, c * h, 1, w * columns)))
        whole = domain.reshape(tall, (n, c, h * rows, w * columns))
        upper = domain.slice(whole, 2, 0, (h - 1) * rows + 1)
        return domain.slice(upper, 3, 0, (w - 1) * columns + 1)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Samples, output channels, and input channels, over which it sums."""
        data, weight = inputs
        return Splits(
            (
                TaskDimension(data.shape[0], SplitKind.SAMPLE),
                TaskDimension(weight.shape[1], SplitKind.PARAMETER),
                TaskDimension(data.shape[1], SplitKind.REDUCTION),
            ),
            ((0, 2, None, None), (2, 1, None, None)),
            ((0, 1, None, None),),
        )

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """Two operations per element of the image and weight of its channel."""
        data, weight = inputs
        per_element = weight.shape[1] * weight.shape[2] * weight.shape[3]
        return Work(data.elements * per_element * 2, moved_bytes(inputs, outputs))
