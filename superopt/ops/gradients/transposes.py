"""Operators of gradients: the transposes of linear operators that no other operator expresses.

A gradient has the type of the operand that it belongs to, so sizes that the cotangent does not determine are
implicit attributes, which the typing of an equation solves for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from superopt.domains import Domain
from superopt.errors import RankMismatchError
from superopt.ir.dimensions import Dimension, symbols_of
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import (
    Operator,
    Work,
    axis_of,
    equal_dimensions,
    moved_bytes,
    register,
    require_float,
    require_rank,
    same_element,
    tensors,
)
from superopt.ops.matrix import concrete
from superopt.ops.shape import Reshape
from superopt.ops.sharded.splits import SplitKind, Splits, TaskDimension, kind_of_axis

A = TypeVar("A")


@register
@dataclass(frozen=True, slots=True)
class SumTo(Operator):
    """The sum over axes along which a tensor of that shape would be repeated: the transpose of broadcast."""

    name: ClassVar[str] = "sum_to"
    inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    implicit: ClassVar[tuple[str, ...]] = ("shape",)
    narrows: ClassVar[bool] = True
    positions: ClassVar[int | None] = None
    shape: tuple[Dimension, ...]

    def why_same(self, inputs: tuple[ValueType, ...], output: ValueType) -> str | None:
        """If no axis is repeated."""
        return "nothing is summed" if inputs[0] == output else None

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """Every dimension of the result is 1 or equals the aligned one of the input; a symbol that the input
        has not is a size that typing is yet to solve."""
        (only,) = tensors(self.name, 1, types)
        require_float(self.name, only)
        if only.rank < len(self.shape):
            raise RankMismatchError(self.name, f"at least {len(self.shape)}", only.rank)
        for whole, target in zip(reversed(only.shape), reversed(self.shape), strict=False):
            if target != 1 and symbols_of(target) <= only.symbols:
                equal_dimensions(self.name, whole, target)
        return (only.with_shape(self.shape),)

    @classmethod
    def optional_sizes(cls, *inputs: TensorType) -> tuple[Dimension, ...]:
        """Any axis may be summed."""
        return inputs[0].shape if inputs else ()

    def summed_axes(self, whole: tuple[Dimension, ...]) -> tuple[int, ...]:
        """The axes of an input of that shape that are summed."""
        missing = len(whole) - len(self.shape)
        repeated = (
            missing + axis
            for axis, (own, size) in enumerate(zip(self.shape, whole[missing:], strict=True))
            if own == 1 and size != 1
        )
        return (*range(missing), *repeated)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis of the input; tasks along those that are summed produce terms of the sum."""
        (whole,) = inputs
        missing = whole.rank - len(self.shape)
        summed = self.summed_axes(whole.shape)
        kinds = (
            SplitKind.REDUCTION if axis in summed else kind_of_axis(axis - missing)
            for axis in range(whole.rank)
        )
        return Splits(
            tuple(TaskDimension(size, kind) for size, kind in zip(whole.shape, kinds, strict=True)),
            (tuple(range(whole.rank)),),
            (tuple(None if axis in summed else axis for axis in range(missing, whole.rank)),),
        )

    def task(self, outputs: tuple[TensorType, ...]) -> Operator:
        """A sum to the shape of the part."""
        return SumTo(outputs[0].shape)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Sums, axis by axis."""
        (result,) = arrays
        shape = tuple(concrete(self.name, size) for size in self.shape)
        whole = domain.shape(result)
        for axis in reversed(self.summed_axes(whole)):
            result = domain.sum(result, axis)
        return (domain.reshape(result, shape),)

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """One operation per input element."""
        return Work(inputs[0].elements, moved_bytes(inputs, outputs))


@register
@dataclass(frozen=True, slots=True)
class ChannelSum(Operator):
    """The sum over all axes except one, as a vector: the gradient of a vector that is added along it."""

    name: ClassVar[str] = "channel_sum"
    inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    positions: ClassVar[int | None] = None
    axis: int

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """[..., n, ...] -> [n]."""
        (only,) = tensors(self.name, 1, types)
        require_float(self.name, only)
        return (only.with_shape((only.shape[axis_of(self.name, self.axis, only.rank)],)),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis of the input; tasks along those that are summed produce terms of the sum."""
        (whole,) = inputs
        own = axis_of(self.name, self.axis, whole.rank)
        kinds = (SplitKind.PARAMETER if axis == own else SplitKind.REDUCTION for axis in range(whole.rank))
        return Splits(
            tuple(TaskDimension(size, kind) for size, kind in zip(whole.shape, kinds, strict=True)),
            (tuple(range(whole.rank)),),
            ((own,),),
        )

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Sums, axis by axis."""
        (result,) = arrays
        rank = len(domain.shape(result))
        kept = axis_of(self.name, self.axis, rank)
        for axis in reversed(range(rank)):
            if axis != kept:
                result = domain.sum(result, axis)
        return (result,)

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """One operation per input element."""
        return Work(inputs[0].elements, moved_bytes(inputs, outputs))


@register
@dataclass(frozen=True, slots=True)
class Unreshape(Reshape):
    """A reshape to the shape that typing asks for: the inverse of a reshape."""

    name: ClassVar[str] = "unreshape"
    implicit: ClassVar[tuple[str, ...]] = ("shape",)
    shape: tuple[Dimension, ...]

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """The number of elements is preserved."""
        (only,) = tensors(self.name, 1, types)
        result = only.with_shape(self.shape)
        if result.symbols <= only.symbols:
            equal_dimensions(self.name, only.elements, result.elements)
        return (result,)


@register
@dataclass(frozen=True, slots=True)
class MatmulWeightGradient(Operator):
    """The gradient of the matrix y in x y with respect to y, from (x, g): the product of the transpose of x
    with g, summed over all rows of all batch dimensions."""

    name: ClassVar[str] = "matmul_weight_gradient"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,), (1,))
    inputs: ClassVar[int] = 2
    polynomial: ClassVar[bool] = True
    positions: ClassVar[int | None] = 2
    ranks: ClassVar[tuple[int, ...]] = (2, 3, 4)

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([..., m, k], [..., m, n]) -> [k, n]."""
        data, cotangent = tensors(self.name, 2, types)
        same_element(self.name, data, cotangent)
        require_rank(f"{self.name}, first input", data, 2, 64)
        require_rank(f"{self.name}, second input", cotangent, data.rank)
        for a, b in zip(data.shape[:-1], cotangent.shape[:-1], strict=True):
            equal_dimensions(self.name, a, b)
        return (data.with_shape((data.shape[-1], cotangent.shape[-1])),)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """One matrix product of all rows."""
        data, cotangent = (_as_rows(domain, array) for array in arrays)
        return (domain.matmul(domain.transpose(data, (1, 0)), cotangent),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Rows and columns of the result; batch axes and rows, over which it sums."""
        data, cotangent = inputs
        summed = tuple(TaskDimension(size, SplitKind.REDUCTION) for size in data.shape[:-1])
        own = tuple(range(2, 2 + len(summed)))
        return Splits(
            (
                TaskDimension(data.shape[-1], SplitKind.PARAMETER),
                TaskDimension(cotangent.shape[-1], SplitKind.PARAMETER),
                *summed,
            ),
            ((*own, 0), (*own, 1)),
            ((0, 1),),
        )

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """2 m n k operations."""
        return Work(inputs[0].elements * inputs[1].shape[-1] * 2, moved_bytes(inputs, outputs))


@register
@dataclass(frozen=True, slots=True)
class LookupGradient(Operator):
    """The gradient of a table with respect to rows that were looked up, from (indices, g): row i is the sum
    of the rows of g whose index is i. An index below 0 counts from the end."""

    name: ClassVar[str] = "lookup_gradient"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((1,),)
    inputs: ClassVar[int] = 2
    implicit: ClassVar[tuple[str, ...]] = ("size",)
    comparing: ClassVar[bool] = True
    positions: ClassVar[int | None] = None
    conditions: ClassVar[frozenset[int]] = frozenset((0,))
    size: Dimension

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([n, ...], [n, ..., d]) -> [size, d]."""
        indices, cotangent = tensors(self.name, 2, types)
        require_float(self.name, cotangent)
        require_rank(f"{self.name}, second input", cotangent, indices.rank + 1)
        for a, b in zip(indices.shape, cotangent.shape[:-1], strict=True):
            equal_dimensions(self.name, a, b)
        return (cotangent.with_shape((self.size, cotangent.shape[-1])),)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """A matrix product with the rows of the identity that the indices select."""
        indices, cotangent = arrays
        rows = concrete(self.name, self.size)
        unit = domain.constant(np.eye(rows, dtype=np.int64), np.ones((), np.int64))
        chosen = _as_rows(domain, domain.rows(unit, indices))
        return (domain.matmul(domain.transpose(chosen, (1, 0)), _as_rows(domain, cotangent)),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Columns; the indices, over which tasks produce terms of sums."""
        indices, cotangent = inputs
        numbers = tuple(range(1, 1 + indices.rank))
        return Splits(
            (
                TaskDimension(cotangent.shape[-1], SplitKind.PARAMETER),
                *(TaskDimension(size, SplitKind.REDUCTION) for size in indices.shape),
            ),
            (numbers, (*numbers, 0)),
            ((None, 0),),
        )

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """One addition per element of the cotangent."""
        return Work(inputs[1].elements, moved_bytes(inputs, outputs))


def _as_rows(domain: Domain[A], array: A) -> A:
    """[..., d] -> [rows, d]."""
    *leading, last = domain.shape(array)
    return domain.reshape(array, (int(np.prod(leading, dtype=np.int64)), last))
