"""Image upsampling by integer factors: nearest neighbour and linear interpolation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from superopt.domains import Domain
from superopt.errors import UnfitTypesError
from superopt.ir.bounds import surely_below
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import Operator, Work, moved_bytes, register, require_float, require_rank, tensors
from superopt.ops.sharded.splits import Splits, axis_by_axis

A = TypeVar("A")
Weights = npt.NDArray[np.int64]


class Upsample(Operator):
    """[n, c, h, w] with each row and column repeated or interpolated ``stride`` times: linear in the image,
    channel by channel."""

    inputs: ClassVar[int] = 1
    spatial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    positions: ClassVar[int | None] = 4
    ranks: ClassVar[tuple[int, ...]] = (4,)
    stride: tuple[int, int]

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """[n, c, h, w] -> [n, c, stride h, stride w]."""
        (image,) = tensors(self.name, 1, types)
        require_rank(self.name, image, 4)
        require_float(self.name, image)
        rows, columns = self.stride
        if surely_below(rows, 1) or surely_below(columns, 1):
            raise UnfitTypesError(f"{self.name}: expected a stride of at least 1, got {self.stride}")
        n, c, h, w = image.shape
        return (image.with_shape((n, c, h * rows, w * columns)),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Samples and channels."""
        return axis_by_axis(inputs, outputs, (2, 3))


@register
@dataclass(frozen=True, slots=True)
class NearestUpsample(Upsample):
    """Nearest neighbour upsampling."""

    name: ClassVar[str] = "upsample_nearest"
    polynomial: ClassVar[bool] = True
    stride: tuple[int, int]

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Repeats along two additional axes."""
        (image,) = arrays
        n, c, h, w = domain.shape(image)
        rows, columns = self.stride
        apart = domain.reshape(image, (n, c, h, 1, w, 1))
        repeated = domain.broadcast(apart, (n, c, h, rows, w, columns))
        return (domain.reshape(repeated, (n, c, h * rows, w * columns)),)


@register
@dataclass(frozen=True, slots=True)
class LinearUpsample(Upsample):
    """Linear interpolation between pixel centres, first along columns, then along rows; the border is
    repeated."""

    name: ClassVar[str] = "upsample_linear"
    stride: tuple[int, int]

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """Four products and three sums for each element."""
        return Work(7 * outputs[0].elements, moved_bytes(inputs, outputs))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """A product with a matrix of interpolation weights on either side."""
        (image,) = arrays
        height, width = domain.shape(image)[2:]
        left, right = self._weights(height, self.stride[0]), self._weights(width, self.stride[1])
        rows = domain.matmul(self._matrix(domain, left, self.stride[0]), image)
        return (domain.matmul(rows, self._matrix(domain, right.T, self.stride[1])),)

    @staticmethod
    def _matrix(domain: Domain[A], weights: Weights, stride: int) -> A:
        matrix = domain.constant(weights, np.array(2 * stride, np.int64))
        return domain.reshape(matrix, (1, 1, *weights.shape))

    @staticmethod
    def _weights(size: int, stride: int) -> Weights:
        """[stride * size, size] of numerators over 2 * stride: the weight of each input pixel in each output
        pixel."""
        weights = np.zeros((stride * size, size), np.int64)
        for position in range(stride * size):
            pixel, part = divmod(2 * position + 1 - stride, 2 * stride)
            weights[position, max(pixel, 0)] += 2 * stride - part
            weights[position, min(pixel + 1, size - 1)] += part
        return weights
