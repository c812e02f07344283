"""Task dimensions of operands that are partial sums: where an operator is linear, each task reads one term.

The sum of the results is the result for the sum, so that it is reduced later, once, or not at all
(``reduce-of-add`` and its like in the axioms).
"""

from __future__ import annotations

from dataclasses import dataclass

from superopt.ir.types import TensorType
from superopt.ops import Operator
from superopt.ops.linearity import linear_inputs, rounded_inputs
from superopt.ops.sharded.splits import SplitKind, Splits, TaskDimension

TERM = "term"
"""Kind of a ``TermDimension`` in plans and reports."""


@dataclass(frozen=True, slots=True)
class TermDimension(TaskDimension):
    """A dimension along which the operands ``slots`` are partial sums: a task reads one term of each, and the
    other operands whole. It has no extent (0), because a sum may have any number of terms. Where it
    ``rounds``, each term is rounded by itself, and the result is not that of one device."""

    slots: tuple[int, ...] = ()
    rounds: bool = False


def with_terms(
    splits: Splits, operator: Operator, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]
) -> Splits:
    """The divisions of an operator, followed by a dimension for each set of floating-point operands in which
    it is jointly linear."""
    if not all(type_.element.is_float for type_ in outputs):
        return splits
    exact, rounded = linear_inputs(operator, len(inputs)), rounded_inputs(operator)
    found = tuple(
        TermDimension(0, SplitKind.REDUCTION, slots, slots not in exact)
        for slots in (*exact, *rounded)
        if all(inputs[slot].element.is_float for slot in slots)
    )
    return Splits((*splits.dimensions, *found), splits.inputs, splits.outputs) if found else splits


def completed(splits: Splits, degrees: tuple[int, ...]) -> tuple[int, ...]:
    """The degrees with those of terms, which may be left out where they are 1."""
    missing = splits.dimensions[len(degrees) :]
    if all(isinstance(dimension, TermDimension) for dimension in missing):
        return (*degrees, *(1 for _ in missing))
    return degrees


def trimmed(splits: Splits, degrees: tuple[int, ...]) -> tuple[int, ...]:
    """The degrees without those of terms at the end that are 1."""
    count = len(degrees)
    while count and degrees[count - 1] == 1 and isinstance(splits.dimensions[count - 1], TermDimension):
        count -= 1
    return degrees[:count]


def admits(splits: Splits, degrees: tuple[int, ...]) -> bool:
    """Whether the division is possible: every size is a multiple of its degree."""
    return splits.admits(completed(splits, degrees))


def are_terms(dimension: TaskDimension, slot: int) -> bool:
    """Whether tasks along the dimension read terms of that operand."""
    return isinstance(dimension, TermDimension) and slot in dimension.slots


def kind_of(dimension: TaskDimension) -> str:
    """The kind of a dimension in plans and reports."""
    return TERM if isinstance(dimension, TermDimension) else dimension.kind.value
