"""Gradients of convolutions with respect to their image and their kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from superopt.domains import Domain
from superopt.ir.dimensions import Dimension, symbols_of
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
from superopt.ops.images.convolution import Conv
from superopt.ops.images.transposed import ConvTranspose
from superopt.ops.images.windows import Padding, cut_or_pad, explicit_padding, output_size, windows
from superopt.ops.matrix import concrete
from superopt.ops.sharded.splits import SplitKind, Splits, TaskDimension

A = TypeVar("A")


@dataclass(frozen=True)
class ConvGradient(Operator):
    """The gradient of a convolution with respect to one of its operands, from the other one and the
    cotangent. ``stride``, ``padding`` and ``dilation`` are those of the convolution."""

    inputs: ClassVar[int] = 2
    positions: ClassVar[int | None] = 4
    ranks: ClassVar[tuple[int, ...]] = (4,)
    polynomial: ClassVar[bool] = True
    implicit: ClassVar[tuple[str, ...]] = ("shape",)
    typical: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "stride": ((1, 1), (2, 1), (2, 3)),
        "padding": ("valid", "same_upper", (0, 1, 1, 0), (1, 0, 0, 2)),
        "dilation": ((1, 1), (1, 2)),
    }
    shape: tuple[Dimension, ...]
    stride: tuple[int, int]
    padding: Padding
    dilation: tuple[int, int]

    def task(self, outputs: tuple[TensorType, ...]) -> Operator:
        """The gradient of the part."""
        return replace(self, shape=outputs[0].shape)

    @property
    def convolution(self) -> Conv:
        """The convolution."""
        return Conv(self.stride, self.padding, self.dilation)

    def margins(self, image: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, int, int, int]:
        """The padding as (top, left, bottom, right)."""
        sizes, window = (image[0], image[1]), (kernel[0], kernel[1])
        return explicit_padding(sizes, window, self.stride, self.dilation, self.padding)

    def require_cotangent(self, data: TensorType, weight: TensorType, cotangent: TensorType) -> None:
        """Raises unless the convolution of the first two has the type of the third. A size that typing is yet
        to solve, a symbol of ``shape`` alone, is not compared."""
        require_rank(f"{self.name}, cotangent", cotangent, 4)
        same_element(self.name, data, weight, cotangent)
        require_float(self.name, cotangent)
        equal_dimensions(f"{self.name}, samples", data.shape[0], cotangent.shape[0])
        equal_dimensions(f"{self.name}, outputs", weight.shape[0], cotangent.shape[1])
        given = cotangent.symbols | (weight.symbols if self.shape == data.shape else data.symbols)
        if symbols_of(data.shape[1]) | symbols_of(weight.shape[1]) <= given:
            self.convolution.groups(data, weight)
        for axis in range(2):
            image, kernel = data.shape[axis + 2], weight.shape[axis + 2]
            if symbols_of(image) | symbols_of(kernel) <= given:
                size = output_size(
                    self.name, image, kernel, self.stride[axis], self.dilation[axis], self.padding, axis
                )
                equal_dimensions(f"{self.name}, cotangent", size, cotangent.shape[axis + 2])


@register
@dataclass(frozen=True, slots=True)
class ConvDataGradient(ConvGradient):
    """The gradient of a convolution with respect to its image, from (g, w)."""

    name: ClassVar[str] = "conv_data_gradient"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,), (1,))
    parameters: ClassVar[int | None] = 1
    kernel_input: ClassVar[int | None] = 1
    shape: tuple[Dimension, ...]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = "valid"
    dilation: tuple[int, int] = (1, 1)

    def grouped(self, *inputs: TensorType) -> tuple[Dimension, Dimension, Dimension] | None:
        """The three sizes that the groups must divide."""
        if len(inputs) != 2 or len(self.shape) != 4 or inputs[1].rank != 4:
            return None
        return self.shape[1], inputs[1].shape[1], inputs[1].shape[0]

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([n, o, h', w'], [o, c / groups, kh, kw]) -> [n, c, h, w]."""
        cotangent, weight = tensors(self.name, 2, types)
        require_rank(f"{self.name}, second input", weight, 4)
        require_rank(f"{self.name}, first input", cotangent, 4)
        data = cotangent.with_shape(self.shape)
        require_rank(f"{self.name}, image", data, 4)
        self.require_cotangent(data, weight, cotangent)
        return (data,)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Transposed convolutions, one per group, cut or padded to the size of the image."""
        cotangent, weight = arrays
        _, channels, *image = (concrete(self.name, size) for size in self.shape)
        size = (image[0], image[1])
        groups = channels // domain.shape(weight)[1]
        transposed = ConvTranspose(self.stride, "valid", self.dilation)
        parts = [
            transposed.evaluate(domain, part, kernel)[0]
            for part, kernel in zip(
                _pieces(domain, cotangent, 1, groups), _pieces(domain, weight, 0, groups), strict=True
            )
        ]
        top, left, _, _ = self.margins(size, domain.shape(weight)[2:])
        return (cut_or_pad(domain, domain.concatenate(parts, 1), (top, left), size),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Samples, and groups; without groups, channels, and outputs, over which it sums."""
        cotangent, weight = inputs
        samples = TaskDimension(cotangent.shape[0], SplitKind.SAMPLE)
        groups = self.convolution.groups(outputs[0], weight)
        if groups != 1:
            return Splits(
                (samples, TaskDimension(groups, SplitKind.PARAMETER)),
                ((0, 1, None, None), (1, None, None, None)),
                ((0, 1, None, None),),
            )
        channels = TaskDimension(weight.shape[1], SplitKind.PARAMETER)
        return Splits(
            (samples, channels, TaskDimension(weight.shape[0], SplitKind.REDUCTION)),
            ((0, 2, None, None), (2, 1, None, None)),
            ((0, 1, None, None),),
        )

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """Two operations per element of the cotangent and weight of its channel."""
        cotangent, weight = inputs
        per_element = weight.shape[1] * weight.shape[2] * weight.shape[3]
        return Work(cotangent.elements * per_element * 2, moved_bytes(inputs, outputs))


@register
@dataclass(frozen=True, slots=True)
class ConvWeightGradient(ConvGradient):
    """The gradient of a convolution with respect to its kernel, from (x, g)."""

    name: ClassVar[str] = "conv_weight_gradient"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,), (1,))
    shape: tuple[Dimension, ...]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = "valid"
    dilation: tuple[int, int] = (1, 1)

    def grouped(self, *inputs: TensorType) -> tuple[Dimension, Dimension, Dimension] | None:
        """The three sizes that the groups must divide."""
        if len(inputs) != 2 or len(self.shape) != 4 or inputs[0].rank != 4:
            return None
        return inputs[0].shape[1], self.shape[1], self.shape[0]

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([n, c, h, w], [n, o, h', w']) -> [o, c / groups, kh, kw]."""
        data, cotangent = tensors(self.name, 2, types)
        require_rank(f"{self.name}, first input", data, 4)
        require_rank(f"{self.name}, second input", cotangent, 4)
        weight = data.with_shape(self.shape)
        require_rank(f"{self.name}, kernel", weight, 4)
        self.require_cotangent(data, weight, cotangent)
        return (weight,)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Products of windows with cotangents, one per group."""
        data, cotangent = arrays
        n, channels, height, width = domain.shape(data)
        outputs, per_group, *sizes = (concrete(self.name, size) for size in self.shape)
        kernel = (sizes[0], sizes[1])
        margins = self.margins((height, width), kernel)
        views = windows(domain, data, kernel, self.stride, self.dilation, margins, repeat_edge=False)
        positions = domain.shape(views)[2] * domain.shape(views)[3]
        groups = channels // per_group
        views = domain.reshape(views, (n, groups, per_group, positions, *kernel))
        views = domain.transpose(views, (1, 0, 3, 2, 4, 5))
        views = domain.reshape(views, (groups, n * positions, per_group * kernel[0] * kernel[1]))
        rows = domain.reshape(cotangent, (n, groups, outputs // groups, positions))
        rows = domain.reshape(
            domain.transpose(rows, (1, 2, 0, 3)), (groups, outputs // groups, n * positions)
        )
        return (domain.reshape(domain.matmul(rows, views), (outputs, per_group, *kernel)),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Groups, or channels and outputs without groups; samples, over which it sums."""
        data, cotangent = inputs
        samples = TaskDimension(data.shape[0], SplitKind.REDUCTION)
        groups = self.convolution.groups(data, outputs[0])
        if groups != 1:
            return Splits(
                (samples, TaskDimension(groups, SplitKind.PARAMETER)),
                ((0, 1, None, None), (0, 1, None, None)),
                ((1, None, None, None),),
            )
        return Splits(
            (
                samples,
                TaskDimension(data.shape[1], SplitKind.PARAMETER),
                TaskDimension(cotangent.shape[1], SplitKind.PARAMETER),
            ),
            ((0, 1, None, None), (0, 2, None, None)),
            ((2, 1, None, None),),
        )

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """Two operations per element of the cotangent and weight of its channel."""
        (weight,) = outputs
        per_element = weight.shape[1] * weight.shape[2] * weight.shape[3]
        return Work(inputs[1].elements * per_element * 2, moved_bytes(inputs, outputs))


def _pieces(domain: Domain[A], array: A, axis: int, count: int) -> list[A]:
    """Equal pieces along an axis."""
    size = domain.shape(array)[axis] // count
    return [domain.slice(array, axis, index * size, (index + 1) * size) for index in range(count)]
