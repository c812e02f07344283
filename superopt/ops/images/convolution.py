"""Two-dimensional convolutions: grouped convolution, kernel enlargement, constant kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, TypeVar

import numpy as np

from superopt.domains import Domain
from superopt.domains.arrays import padded
from superopt.errors import UnfitTypesError
from superopt.ir.bounds import surely_below, surely_even
from superopt.ir.dimensions import Dimension, floor_divide
from superopt.ir.types import ElementType, TensorType, ValueType
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
from superopt.ops.elementwise.activation import Activation, Relu, activate, activation_from_text
from superopt.ops.images.windows import Padding, Window, explicit_padding, odd_windows, output_size, windows
from superopt.ops.matrix import concrete
from superopt.ops.roles import Product
from superopt.ops.sharded.splits import SplitKind, Splits, TaskDimension, axis_by_axis

A = TypeVar("A")


@register
@dataclass(frozen=True, slots=True)
class Conv(Operator):
    """Grouped convolution of x[n, c, h, w] with w[o, c / groups, kh, kw]; the weight's shape determines the
    groups."""

    name: ClassVar[str] = "conv"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,), (1,))
    inputs: ClassVar[int] = 2
    positions: ClassVar[int | None] = 4
    ranks: ClassVar[tuple[int, ...]] = (4,)
    product: ClassVar[Product | None] = Product.CONVOLUTION
    parameters: ClassVar[int | None] = 1
    kernel_input: ClassVar[int | None] = 1
    windowed: ClassVar[bool] = True
    stride: tuple[int, int] = (1, 1)
    padding: Padding = "valid"
    dilation: tuple[int, int] = (1, 1)
    activation: Activation = "none"

    @classmethod
    def compares(cls, attributes: Mapping[str, object]) -> bool:
        """Depends on its activation, which may be any if left open."""
        activation = attributes.get("activation", "none")
        return not isinstance(activation, str) or activation == Relu.name

    def window(self, *inputs: TensorType) -> Window:
        """A window of the size of the weight."""
        rows, columns = inputs[1].shape[2:]
        return Window((rows, columns), self.stride, self.dilation, self.padding)

    def groups(self, data: TensorType, weight: TensorType) -> Dimension:
        """Channels of the input divided by those of the weight; raises unless that divides the outputs."""
        return _groups(self.name, data.shape[1], weight.shape[1], weight.shape[0])

    def grouped(self, *inputs: TensorType) -> tuple[Dimension, Dimension, Dimension] | None:
        """The three sizes that the groups must divide."""
        if len(inputs) != 2 or any(type_.rank != 4 for type_ in inputs):
            return None
        data, weight = inputs
        return data.shape[1], weight.shape[1], weight.shape[0]

    def unseen(self, *inputs: TensorType) -> frozenset[tuple[object, ...]]:
        """That windows are odd with symmetric padding; that groups divide the outputs."""
        data, weight = inputs
        extents = (d * (size - 1) + 1 for d, size in zip(self.dilation, weight.shape[2:], strict=True))
        return odd_windows(self.padding, extents) | self.undivided(data, weight)

    def undivided(self, data: TensorType, weight: TensorType) -> frozenset[tuple[object, ...]]:
        """That groups divide the outputs, unless that is evident."""
        groups, outputs = self.groups(data, weight), weight.shape[0]
        return (
            frozenset[tuple[object, ...]]()
            if _divides(groups, outputs)
            else frozenset({("divides", groups, outputs)})
        )

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([n, c, h, w], [o, c / g, kh, kw]) -> [n, o, h', w']."""
        data, weight = tensors(self.name, 2, types)
        activation_from_text(self.activation)
        same_element(self.name, data, weight)
        require_float(self.name, data)
        require_rank(f"{self.name}, first input", data, 4)
        require_rank(f"{self.name}, second input", weight, 4)
        self.groups(data, weight)
        sizes = tuple(
            output_size(self.name, data.shape[axis + 2], weight.shape[axis + 2], s, d, self.padding, axis)
            for axis, (s, d) in enumerate(zip(self.stride, self.dilation, strict=True))
        )
        return (data.with_shape((data.shape[0], weight.shape[0], *sizes)),)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Windows times kernels, one matrix product per group."""
        data, weight = arrays
        n, c, h, w = domain.shape(data)
        outputs, per_group, kh, kw = domain.shape(weight)
        groups = c // per_group
        padding = explicit_padding((h, w), (kh, kw), self.stride, self.dilation, self.padding)
        views = windows(domain, data, (kh, kw), self.stride, self.dilation, padding, repeat_edge=False)
        rows, columns = domain.shape(views)[2:4]
        views = domain.reshape(views, (n, groups, per_group, rows, columns, kh, kw))
        views = domain.transpose(views, (0, 1, 2, 5, 6, 3, 4))
        views = domain.reshape(views, (n, groups, per_group * kh * kw, rows * columns))
        kernels = domain.reshape(weight, (1, groups, outputs // groups, per_group * kh * kw))
        result = domain.reshape(domain.matmul(kernels, views), (n, outputs, rows, columns))
        return (activate(domain, self.activation, result),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Samples, and output channels or groups; also input channels, if there is one group and no bias or
        activation is applied to the sum."""
        data, weight = inputs
        groups = self.groups(data, weight)
        samples = TaskDimension(data.shape[0], SplitKind.SAMPLE)
        parameters = TaskDimension(weight.shape[0] if groups == 1 else groups, SplitKind.PARAMETER)
        if groups != 1:
            return Splits(
                (samples, parameters), ((0, 1, None, None), (1, None, None, None)), ((0, 1, None, None),)
            )
        summed = (TaskDimension(data.shape[1], SplitKind.REDUCTION),) if self.activation == "none" else ()
        channels = 2 if summed else None
        return Splits(
            (samples, parameters, *summed),
            ((0, channels, None, None), (1, channels, None, None)),
            ((0, 1, None, None),),
        )

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """Two operations per weight and position."""
        per_position = inputs[1].shape[1] * inputs[1].shape[2] * inputs[1].shape[3]
        return Work(outputs[0].elements * per_position * 2, moved_bytes(inputs, outputs))


@lru_cache(maxsize=65536)
def _groups(name: str, channels: Dimension, per_group: Dimension, outputs: Dimension) -> Dimension:
    if channels == per_group:
        return 1
    if isinstance(channels, int) and isinstance(per_group, int):
        if per_group <= 0 or channels <= 0 or channels % per_group:
            equal_dimensions(f"{name}, channels", channels, per_group)
        groups = channels // per_group
        if isinstance(outputs, int) and outputs % groups:
            raise UnfitTypesError(f"{name}: {outputs} outputs do not divide into {groups} groups")
        return groups
    quotient = floor_divide(channels, per_group) if per_group != 0 else 0
    if quotient not in (0, 1) and quotient * per_group == channels and _divides(quotient, outputs):
        return quotient
    if per_group == 1:
        equal_dimensions(f"{name}, channels of a depthwise convolution", channels, outputs)
        return channels
    equal_dimensions(f"{name}, channels", channels, per_group)
    return 1


@lru_cache(maxsize=65536)
def _divides(divisor: Dimension, dimension: Dimension) -> bool:
    return floor_divide(dimension, divisor) * divisor == dimension


@register
@dataclass(frozen=True, slots=True)
class Enlarge(Operator):
    """A convolution kernel padded with zeros on all sides to the size ``kernel`` (TASO: enlarge)."""

    name: ClassVar[str] = "enlarge"
    inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    spatial: ClassVar[bool] = True
    positions: ClassVar[int | None] = 4
    ranks: ClassVar[tuple[int, ...]] = (4,)
    parameters: ClassVar[int | None] = 0
    kernel_input: ClassVar[int | None] = 0
    kernel: tuple[int, int]

    def unseen(self, *inputs: TensorType) -> frozenset[tuple[object, ...]]:
        """That the kernel can be centred."""
        pairs = zip(inputs[0].shape[2:], self.kernel, strict=True)
        return frozenset(("centred", old, new) for old, new in pairs if not isinstance(new - old, int))

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """[o, c, kh, kw] -> [o, c, KH, KW]; the difference of the sizes is even."""
        (weight,) = tensors(self.name, 1, types)
        require_rank(self.name, weight, 4)
        for old, new in zip(weight.shape[2:], self.kernel, strict=True):
            if surely_below(new, old) or surely_even(new - old + 1):
                raise UnfitTypesError(f"{self.name}: a kernel of {old} cannot be centred in {new}")
        return (weight.with_shape((*weight.shape[:2], *self.kernel)),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Input and output channels."""
        return of_kernels(axis_by_axis(inputs, outputs, (2, 3)))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Pads with zeros."""
        (weight,) = arrays
        top, left = ((new - old) // 2 for old, new in zip(domain.shape(weight)[2:], self.kernel, strict=True))
        return (domain.rearrange(lambda part: padded(part, (top, left, top, left)), weight),)


@register
@dataclass(frozen=True, slots=True)
class AveragePoolKernel(Operator):
    """The depthwise kernel whose convolution is average pooling with padding counted (TASO: C_pool)."""

    name: ClassVar[str] = "avgpool_kernel"
    positions: ClassVar[int | None] = 4
    implicit: ClassVar[tuple[str, ...]] = ("channels",)
    constant: ClassVar[bool] = True
    kernel: tuple[int, int]
    channels: Dimension

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """() -> [channels, 1, kh, kw]."""
        tensors(self.name, 0, types)
        return (TensorType(ElementType.FLOAT, (self.channels, 1, *self.kernel)),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Channels."""
        return of_kernels(axis_by_axis(inputs, outputs, (1, 2, 3)))

    def task(self, outputs: tuple[TensorType, ...]) -> Operator:
        """The kernel of fewer channels."""
        return AveragePoolKernel(self.kernel, outputs[0].shape[0])

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """1 / (kh kw) everywhere."""
        shape = (concrete(self.name, self.channels), 1, *self.kernel)
        return (domain.constant(np.ones(shape, np.int64), np.array(self.kernel[0] * self.kernel[1])),)


@register
@dataclass(frozen=True, slots=True)
class IdentityKernel(Operator):
    """The kernel whose convolution with padding ``same`` and stride 1 is the identity (TASO: I_conv)."""

    name: ClassVar[str] = "identity_kernel"
    positions: ClassVar[int | None] = 4
    implicit: ClassVar[tuple[str, ...]] = ("channels",)
    constant: ClassVar[bool] = True
    neutral_for: ClassVar[str | None] = Conv.name
    kernel: tuple[int, int]
    channels: Dimension

    def unseen(self, *inputs: TensorType) -> frozenset[tuple[object, ...]]:
        """That the kernel sizes are odd."""
        del inputs
        return odd_windows("same", self.kernel)

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """() -> [channels, channels, kh, kw] for odd sizes."""
        tensors(self.name, 0, types)
        if surely_even(self.kernel[0]) or surely_even(self.kernel[1]):
            raise UnfitTypesError(f"{self.name}: expected an odd kernel, got {self.kernel}")
        return (TensorType(ElementType.FLOAT, (self.channels, self.channels, *self.kernel)),)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """One at the centre, from each channel to itself."""
        channels = concrete(self.name, self.channels)
        values = np.zeros((channels, channels, *self.kernel), np.int64)
        values[range(channels), range(channels), self.kernel[0] // 2, self.kernel[1] // 2] = 1
        return (domain.constant(values, np.ones((), np.int64)),)


@register
@dataclass(frozen=True, slots=True)
class BandKernel(Operator):
    """The 1x1 kernel that sums ``size`` adjacent channels, truncated at both ends, times ``alpha / size``.
    Channel i sums channels i - floor((size - 1) / 2) to i + ceil((size - 1) / 2), as in local response
    normalisation."""

    name: ClassVar[str] = "band_kernel"
    positions: ClassVar[int | None] = 4
    implicit: ClassVar[tuple[str, ...]] = ("channels",)
    constant: ClassVar[bool] = True
    size: int
    alpha: Fraction | int
    channels: Dimension

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """() -> [channels, channels, 1, 1]."""
        tensors(self.name, 0, types)
        require_window(self.name, self.size)
        return (TensorType(ElementType.FLOAT, (self.channels, self.channels, 1, 1)),)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """``alpha / size`` in the band."""
        entry = Fraction(self.alpha) / self.size
        rows = band(concrete(self.name, self.channels), self.size)[:, :, None, None]
        return (domain.constant(rows * entry.numerator, np.array(entry.denominator)),)


@register
@dataclass(frozen=True, slots=True)
class KernelResponse(Operator):
    """The output of an unpadded convolution, at every position, for an image that is constant per channel.
    Maps a kernel [o, c / groups, kh, kw] and a vector [c] to [o]: it moves a bias through a convolution."""

    name: ClassVar[str] = "kernel_response"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,), (1,))
    inputs: ClassVar[int] = 2
    polynomial: ClassVar[bool] = True
    positions: ClassVar[int | None] = 4
    parameters: ClassVar[int | None] = 0
    kernel_input: ClassVar[int | None] = 0

    @classmethod
    def optional_sizes(cls, *inputs: TensorType) -> tuple[Dimension, ...]:
        """Channels, which may be in groups, and outputs."""
        if tuple(type_.rank for type_ in inputs) != (4, 1):
            return ()
        weight, vector = inputs
        return (*weight.shape[:2], *vector.shape)

    def grouped(self, *inputs: TensorType) -> tuple[Dimension, Dimension, Dimension] | None:
        """The three sizes that the groups must divide."""
        if len(inputs) != 2 or (inputs[0].rank, inputs[1].rank) != (4, 1):
            return None
        weight, vector = inputs
        return vector.shape[0], weight.shape[1], weight.shape[0]

    def unseen(self, *inputs: TensorType) -> frozenset[tuple[object, ...]]:
        """That groups divide the outputs."""
        weight, vector = inputs
        return Conv().undivided(vector.with_shape((1, vector.shape[0], 1, 1)), weight)

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([o, c / g, kh, kw], [c]) -> [o]."""
        weight, vector = tensors(self.name, 2, types)
        require_rank(f"{self.name}, first input", weight, 4)
        require_rank(f"{self.name}, second input", vector, 1)
        same_element(self.name, weight, vector)
        Conv().groups(vector.with_shape((1, vector.shape[0], 1, 1)), weight)
        return (vector.with_shape((weight.shape[0],)),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """As for the corresponding convolution."""
        weight, vector = inputs
        data = vector.with_shape((1, vector.shape[0], 1, 1))
        answer = Conv().splits((data, weight), (data.with_shape((1, weight.shape[0], 1, 1)),))
        _, *dimensions = answer.dimensions
        (_, channels, _, _), kernel = answer.inputs
        return Splits(
            tuple(dimensions),
            (tuple(n and n - 1 for n in kernel), (channels and channels - 1,)),
            ((0,),),
        )

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The convolution of an image of the kernel's size."""
        weight, vector = arrays
        outputs, _, kh, kw = domain.shape(weight)
        (channels,) = domain.shape(vector)
        image = domain.broadcast(domain.reshape(vector, (1, channels, 1, 1)), (1, channels, kh, kw))
        (answer,) = Conv().evaluate(domain, image, weight)
        return (domain.reshape(answer, (outputs,)),)


def of_kernels(splits: Splits) -> Splits:
    """The same of tensors that are parameters."""
    parameters = tuple(TaskDimension(d.size, SplitKind.PARAMETER) for d in splits.dimensions)
    return Splits(parameters, splits.inputs, splits.outputs)


def require_window(name: str, size: int) -> None:
    """Raises IllTypedError for a window over no channels."""
    if size == 0:
        raise UnfitTypesError(f"{name}: expected size to be at least 1, got {size}")


def band(channels: int, size: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """[channels, channels]: 1 where column j is in the window of row i."""
    offsets = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    return ((offsets >= -((size - 1) // 2)) & (offsets <= size // 2)).astype(np.int64)
