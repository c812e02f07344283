"""Gradients of poolings and of linear upsampling with respect to their image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from superopt.domains import Domain
from superopt.ir.dimensions import Dimension, floor_divide
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import Operator, equal_dimensions, register, require_rank, same_element, tensors
from superopt.ops.images.pooling import AveragePool, MaxPool, Pool
from superopt.ops.images.transposed import ConvTranspose
from superopt.ops.images.upsampling import LinearUpsample, Weights
from superopt.ops.images.windows import Padding, cut_or_pad, output_size, window_counts, windows
from superopt.ops.matrix import concrete

A = TypeVar("A")
Counts: TypeAlias = "npt.NDArray[np.int64]"


@register
@dataclass(frozen=True, slots=True)
class MaxPoolGradient(MaxPool):
    """The gradient of a maximum over windows with respect to its image, from (x, g): each element of g goes
    to the first of the largest elements of its window, in row-major order."""

    name: ClassVar[str] = "maxpool_gradient"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((1,),)
    inputs: ClassVar[int] = 2
    spatial: ClassVar[bool] = False
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = "valid"

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([n, c, h, w], [n, c, h', w']) -> [n, c, h, w]."""
        data, cotangent = tensors(self.name, 2, types)
        require_rank(self.name, data, 4)
        (pooled,) = MaxPool(self.kernel, self.stride, self.padding).infer_whole(data)
        same_element(self.name, data, cotangent)
        require_rank(f"{self.name}, second input", cotangent, 4)
        for a, b in zip(pooled.shape, cotangent.shape, strict=True):
            equal_dimensions(self.name, a, b)
        return (data,)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Cotangents at the first maximum of each window, then summed where windows overlap."""
        data, cotangent = arrays
        n, c, height, width = domain.shape(data)
        rows, columns = domain.shape(cotangent)[2:]
        kernel, margins = self.kernel, self.margins(height, width)
        offsets = [(i, j) for i in range(kernel[0]) for j in range(kernel[1])]
        views = windows(domain, data, kernel, self.stride, (1, 1), margins, repeat_edge=True)
        largest = domain.max_along(domain.max_along(views, 5), 4)
        inside = windows(
            domain,
            domain.constant(np.ones((1, 1, height, width), np.int64), np.ones((), np.int64)),
            kernel, self.stride, (1, 1), margins, repeat_edge=False,
        )  # fmt: skip
        parts: list[A] = []
        free = domain.broadcast(domain.rational(1), domain.shape(cotangent))
        for offset in offsets:
            below = domain.subtract(largest, _at(domain, views, offset))
            here = domain.select(
                below, domain.rational(0), domain.multiply(free, _at(domain, inside, offset))
            )
            free = domain.subtract(free, here)
            parts.append(domain.reshape(domain.multiply(here, cotangent), (n * c, 1, rows, columns)))
        unit = np.eye(len(offsets), dtype=np.int64).reshape(len(offsets), 1, *kernel)
        (whole,) = ConvTranspose(self.stride).evaluate(
            domain, domain.concatenate(parts, 1), domain.constant(unit, np.ones((), np.int64))
        )
        image = cut_or_pad(domain, whole, (margins[0], margins[1]), (height, width))
        return (domain.reshape(image, (n, c, height, width)),)


@register
@dataclass(frozen=True, slots=True)
class AveragePoolGradient(Pool):
    """The gradient of a mean over windows with respect to its image."""

    name: ClassVar[str] = "avgpool_gradient"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,),)
    implicit: ClassVar[tuple[str, ...]] = ("shape",)
    spatial: ClassVar[bool] = False
    kernel: tuple[int, int]
    shape: tuple[Dimension, ...]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = "valid"
    includes_padding: int = 0

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """[n, c, h', w'] -> [n, c, h, w]."""
        (cotangent,) = tensors(self.name, 1, types)
        require_rank(self.name, cotangent, 4)
        image = cotangent.with_shape(self.shape)
        require_rank(f"{self.name}, image", image, 4)
        if image.symbols <= cotangent.symbols:
            pool = AveragePool(self.kernel, self.stride, self.padding, self.includes_padding)
            (pooled,) = pool.infer_whole(image)
            for a, b in zip(pooled.shape, cotangent.shape, strict=True):
                equal_dimensions(self.name, a, b)
        return (image,)

    def task(self, outputs: tuple[TensorType, ...]) -> Operator:
        """The gradient of the part."""
        return replace(self, shape=outputs[0].shape)

    def counts(self, height: int, width: int) -> Counts:
        """[h', w']: the number of elements in each mean."""
        margins = self.margins(height, width)
        if not self.includes_padding:
            return window_counts((height, width), self.kernel, self.stride, margins)
        shape = tuple(
            output_size(self.name, size, self.kernel[axis], self.stride[axis], 1, self.padding, axis)
            for axis, size in enumerate((height, width))
        )
        return np.full(
            [concrete(self.name, size) for size in shape], self.kernel[0] * self.kernel[1], np.int64
        )

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Shares of the cotangents, summed where windows overlap."""
        (cotangent,) = arrays
        n, c, height, width = (concrete(self.name, size) for size in self.shape)
        rows, columns = domain.shape(cotangent)[2:]
        counts = domain.constant(np.ones((), np.int64), self.counts(height, width))
        shares = domain.reshape(domain.multiply(cotangent, counts), (n * c, 1, rows, columns))
        ones = domain.constant(np.ones((1, 1, *self.kernel), np.int64), np.ones((), np.int64))
        (whole,) = ConvTranspose(self.stride).evaluate(domain, shares, ones)
        top, left, _, _ = self.margins(height, width)
        return (
            domain.reshape(cut_or_pad(domain, whole, (top, left), (height, width)), (n, c, height, width)),
        )


@register
@dataclass(frozen=True, slots=True)
class LinearUpsampleGradient(LinearUpsample):
    """The gradient of linear upsampling with respect to its image."""

    name: ClassVar[str] = "upsample_linear_gradient"
    spatial: ClassVar[bool] = False
    stride: tuple[int, int]

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """[n, c, stride h, stride w] -> [n, c, h, w]."""
        (cotangent,) = tensors(self.name, 1, types)
        require_rank(self.name, cotangent, 4)
        n, c, *sizes = cotangent.shape
        image = cotangent.with_shape((n, c, *map(floor_divide, sizes, self.stride)))
        (upsampled,) = LinearUpsample(self.stride).infer_whole(image)
        for a, b in zip(upsampled.shape, cotangent.shape, strict=True):
            equal_dimensions(self.name, a, b)
        return (image,)

    def matrices(self, height: int, width: int) -> tuple[Weights, Weights]:
        """Numerators over twice the stride, for an image of that size: [h, stride h] and [stride w, w]."""
        return self._weights(height, self.stride[0]).T, self._weights(width, self.stride[1])

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Products with the transposed matrices of interpolation weights."""
        (cotangent,) = arrays
        height, width = (
            size // stride for size, stride in zip(domain.shape(cotangent)[2:], self.stride, strict=True)
        )
        left, right = self.matrices(height, width)
        rows = domain.matmul(self._matrix(domain, left, self.stride[0]), cotangent)
        return (domain.matmul(rows, self._matrix(domain, right, self.stride[1])),)


def _at(domain: Domain[A], views: A, offset: tuple[int, int]) -> A:
    """The element at that place of every window."""
    row = domain.slice(views, 4, offset[0], offset[0] + 1)
    return domain.reshape(domain.slice(row, 5, offset[1], offset[1] + 1), domain.shape(views)[:4])
