"""Rows of a table by their indices, such as an embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from superopt.domains import Domain
from superopt.errors import UnfitTypesError
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import Operator, Work, moved_bytes, register, require_rank, tensors
from superopt.ops.sharded.splits import SplitKind, Splits, TaskDimension, kind_of_axis

A = TypeVar("A")


@register
@dataclass(frozen=True, slots=True)
class Lookup(Operator):
    """The rows of a table at the indices (ONNX: Gather along the first axis); an index below 0 counts from
    the end. Where the algebra has only numbers, indices are rounded to the nearest row."""

    name: ClassVar[str] = "lookup"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,),)
    inputs: ClassVar[int] = 2
    comparing: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    positions: ClassVar[int | None] = None
    conditions: ClassVar[frozenset[int]] = frozenset((1,))

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([v, d], [n, ...]) -> [n, ..., d]."""
        table, indices = tensors(self.name, 2, types)
        require_rank(f"{self.name}, first input", table, 2)
        for type_ in (table, indices):
            if not type_.element.is_movable:
                raise UnfitTypesError(f"{self.name}: expected numbers, got {type_}")
        return (table.with_shape((*indices.shape, *table.shape[1:])),)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The rows."""
        return (domain.rows(arrays[0], arrays[1]),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """The indices, and the axes of a row, which are parameters."""
        indices = inputs[1]
        every = tuple(range(outputs[0].rank))
        kinds = [kind_of_axis(axis) if axis < indices.rank else SplitKind.PARAMETER for axis in every]
        return Splits(
            tuple(TaskDimension(size, kind) for size, kind in zip(outputs[0].shape, kinds, strict=True)),
            ((None, *every[indices.rank :]), every[: indices.rank]),
            (every,),
        )

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """The rows that are read and written, and the indices."""
        return Work(outputs[0].elements, moved_bytes((*inputs[1:], *outputs), outputs))
