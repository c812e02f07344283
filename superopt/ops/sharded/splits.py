"""Divisible dimensions of operators: the parallel tasks of a division, and what it requires of the inputs.

The vocabulary is that of FlexFlow's SOAP (dissertation, section 3.2) and Unity's reduction parallelism: an
operator is an iteration over task dimensions, and every axis of an input or output follows one of them or
none.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from superopt.ir.dimensions import Dimension, floor_divide
from superopt.ir.types import TensorType

Types: TypeAlias = "tuple[TensorType, ...]"
Axes: TypeAlias = "tuple[int | None, ...]"


class SplitKind(enum.StrEnum):
    """Kind of a task dimension, by the effect of dividing it."""

    SAMPLE = "sample"
    ATTRIBUTE = "attribute"
    PARAMETER = "parameter"
    REDUCTION = "reduction"


@dataclass(frozen=True, slots=True)
class TaskDimension:
    """A dimension of an operator's computation that can be divided into equal parts, and its extent."""

    size: Dimension
    kind: SplitKind


@dataclass(frozen=True, slots=True)
class Splits:
    """The task dimensions of an operator applied to given types. ``inputs`` and ``outputs`` give for every
    axis of every tensor the task dimension that it follows; None for an axis that every task needs, or
    produces, whole. If an input does not follow a dimension, every task along it needs a copy. An output that
    does not follow a dimension of kind REDUCTION is the sum of the results of the tasks along it."""

    dimensions: tuple[TaskDimension, ...]
    inputs: tuple[tuple[int | None, ...], ...]
    outputs: tuple[tuple[int | None, ...], ...]

    def admits(self, degrees: tuple[int, ...]) -> bool:
        """Whether this division is possible: every size is a multiple of its degree."""
        return len(degrees) == len(self.dimensions) and all(
            degree == 1 or (isinstance(dimension.size, int) and dimension.size % degree == 0)
            for dimension, degree in zip(self.dimensions, degrees, strict=True)
        )


def undivided(inputs: Types, outputs: Types) -> Splits:
    """No task dimension: a single task needs and produces everything."""
    return Splits((), tuple(map(_whole, inputs)), tuple(map(_whole, outputs)))


def axis_by_axis(inputs: Types, outputs: Types, whole: Collection[int] = ()) -> Splits:
    """A task dimension for every axis of the first output except those that every task needs ``whole``. Axes
    of tensors of equal rank follow it one by one; tensors of other ranks are needed whole. The first axis
    counts samples."""
    first = outputs[0]
    divided = [axis for axis in range(first.rank) if axis not in whole]
    numbers = {axis: number for number, axis in enumerate(divided)}
    followed = tuple(numbers.get(axis) for axis in range(first.rank))
    return Splits(
        tuple(TaskDimension(first.shape[axis], kind_of_axis(axis)) for axis in divided),
        tuple(followed if type_.rank == first.rank else _whole(type_) for type_ in inputs),
        tuple(followed if type_.rank == first.rank else _whole(type_) for type_ in outputs),
    )


def kind_of_axis(axis: int) -> SplitKind:
    """The first axis counts samples, the others are attributes of a sample."""
    return SplitKind.ATTRIBUTE if axis else SplitKind.SAMPLE


def reshaped(before: TensorType, after: TensorType) -> Splits:
    """The task dimensions of a reshape: factors that are the outer axis of equal blocks in both shapes."""
    dimensions: list[TaskDimension] = []
    outer: dict[int, int] = {}
    inner: dict[int, int] = {}
    for number, (left, right) in enumerate(_blocks(before.shape, after.shape)):
        size = _common_factor(before.shape[left], after.shape[right])
        dimensions.append(TaskDimension(size, SplitKind.ATTRIBUTE if number else SplitKind.SAMPLE))
        outer[left], inner[right] = number, number
    return Splits(
        tuple(dimensions),
        (tuple(outer.get(axis) for axis in range(before.rank)),),
        (tuple(inner.get(axis) for axis in range(after.rank)),),
    )


def _blocks(before: tuple[Dimension, ...], after: tuple[Dimension, ...]) -> Iterator[tuple[int, int]]:
    """The outermost axes of the smallest blocks of axes with equally many elements in both shapes."""
    left = [axis for axis, size in enumerate(before) if size != 1]
    right = [axis for axis, size in enumerate(after) if size != 1]
    while left and right:
        yield left[0], right[0]
        product, other = before[left.pop(0)], after[right.pop(0)]
        while product != other:
            if left and (not right or _divides(product, other)):
                product = product * before[left.pop(0)]
            elif right:
                other = other * after[right.pop(0)]
            else:
                return


def _divides(part: Dimension, whole: Dimension) -> bool:
    if isinstance(part, int) and isinstance(whole, int):
        return part < whole
    return part != 0 and floor_divide(whole, part) * part == whole


def _common_factor(left: Dimension, right: Dimension) -> Dimension:
    if isinstance(left, int) and isinstance(right, int):
        return math.gcd(left, right)
    if _divides(left, right):
        return left
    return right if _divides(right, left) else 1


def _whole(type_: TensorType) -> Axes:
    return (None,) * type_.rank
