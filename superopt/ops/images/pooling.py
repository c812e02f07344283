"""Average and maximum pooling over windows of the last two axes, and global average pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from superopt.domains import Domain
from superopt.errors import UnfitTypesError
from superopt.ir.bounds import surely_below
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import (
    OnnxForm,
    Operator,
    Work,
    moved_bytes,
    register,
    require_float,
    require_rank,
    tensors,
)
from superopt.ops.images.windows import (
    Padding,
    Window,
    explicit_padding,
    odd_windows,
    output_size,
    window_counts,
    windows,
)
from superopt.ops.sharded.splits import Splits, axis_by_axis

A = TypeVar("A")


class Pool(Operator):
    """Windows of [n, c, h, w] reduced to one element each."""

    inputs: ClassVar[int] = 1
    spatial: ClassVar[bool] = True
    positions: ClassVar[int | None] = 4
    ranks: ClassVar[tuple[int, ...]] = (4,)
    windowed: ClassVar[bool] = True
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding

    def window(self, *inputs: TensorType) -> Window:
        """A window of the kernel attribute's size."""
        del inputs
        return Window(self.kernel, self.stride, (1, 1), self.padding)

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """[n, c, h, w] -> [n, c, h', w']; no window may be entirely in the padding."""
        (data,) = tensors(self.name, 1, types)
        require_rank(self.name, data, 4)
        require_float(self.name, data)
        if isinstance(self.padding, tuple) and any(
            surely_below(self.kernel[side % 2] - 1, self.padding[side]) for side in range(4)
        ):
            raise UnfitTypesError(
                f"{self.name}: expected padding {self.padding} smaller than the kernel {self.kernel}"
            )
        sizes = tuple(
            output_size(
                self.name, data.shape[axis + 2], self.kernel[axis], self.stride[axis], 1, self.padding, axis
            )
            for axis in range(2)
        )
        return (data.with_shape((*data.shape[:2], *sizes)),)

    def unseen(self, *inputs: TensorType) -> frozenset[tuple[object, ...]]:
        """That windows are odd with symmetric padding, and larger than the margins."""
        del inputs
        if not isinstance(self.padding, tuple):
            return odd_windows(self.padding, self.kernel)
        pairs = ((margin, self.kernel[side % 2]) for side, margin in enumerate(self.padding))
        return frozenset(("below", *pair) for pair in pairs if not surely_below(*pair))

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Samples and channels."""
        return axis_by_axis(inputs, outputs, (2, 3))

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """One operation per window element."""
        return Work(outputs[0].elements * (self.kernel[0] * self.kernel[1]), moved_bytes(inputs, outputs))

    def margins(self, height: int, width: int) -> tuple[int, int, int, int]:
        """The padding as (top, left, bottom, right)."""
        return explicit_padding((height, width), self.kernel, self.stride, (1, 1), self.padding)


@register
@dataclass(frozen=True, slots=True)
class MaxPool(Pool):
    """The largest element of each window, ignoring padding."""

    name: ClassVar[str] = "maxpool"
    comparing: ClassVar[bool] = True
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = "valid"

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Maximum over the window axes."""
        (data,) = arrays
        margins = self.margins(*domain.shape(data)[2:])
        views = windows(domain, data, self.kernel, self.stride, (1, 1), margins, repeat_edge=True)
        return (domain.max_along(domain.max_along(views, 5), 4),)


@register
@dataclass(frozen=True, slots=True)
class AveragePool(Pool):
    """The mean of each window; ``includes_padding``: padding counts as zeros (1) or is excluded (0)."""

    name: ClassVar[str] = "avgpool"
    linear: ClassVar[bool] = True
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = "valid"
    includes_padding: int = 0

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Sum over the window axes divided by the number of elements that count."""
        (data,) = arrays
        height, width = domain.shape(data)[2:]
        margins = self.margins(height, width)
        views = windows(domain, data, self.kernel, self.stride, (1, 1), margins, repeat_edge=False)
        total = domain.sum(domain.sum(views, 5), 4)
        if self.includes_padding:
            counts = np.full(domain.shape(total)[2:], self.kernel[0] * self.kernel[1], np.int64)
        else:
            counts = window_counts((height, width), self.kernel, self.stride, margins)
        return (domain.multiply(total, domain.constant(np.ones((), np.int64), counts)),)


@register
@dataclass(frozen=True, slots=True)
class GlobalAveragePool(Operator):
    """The mean over the last two axes, which become 1."""

    name: ClassVar[str] = "global_avgpool"
    inputs: ClassVar[int] = 1
    spatial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    positions: ClassVar[int | None] = 4
    ranks: ClassVar[tuple[int, ...]] = (4,)
    onnx: ClassVar[OnnxForm | None] = OnnxForm("GlobalAveragePool")

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """[n, c, h, w] -> [n, c, 1, 1]."""
        (data,) = tensors(self.name, 1, types)
        require_rank(self.name, data, 4)
        require_float(self.name, data)
        return (data.with_shape((*data.shape[:2], 1, 1)),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Samples and channels."""
        return axis_by_axis(inputs, outputs, (2, 3))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Sum over both axes by their size."""
        (data,) = arrays
        n, c, height, width = domain.shape(data)
        total = domain.reshape(domain.sum(domain.sum(data, 3), 2), (n, c, 1, 1))
        return (domain.multiply(total, domain.constant(np.ones((), np.int64), np.array(height * width))),)
