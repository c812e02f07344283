"""Which dimensions of an operator can be divided into parallel tasks, and what a division asks of the inputs.

The vocabulary of FlexFlow's SOAP (dissertation, section 3.2) and of Unity's reduction parallelism, per
operator: its computation is an iteration over task dimensions, and every axis of an input or an output
follows one of them or none.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from superopt.ir.dimensions import Dimension


class SplitKind(enum.StrEnum):
    """What a task dimension is, by what dividing it does."""

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
    """The task dimensions of an operator applied to given types.

    ``inputs`` and ``outputs`` say for every axis of every tensor which task dimension it follows; None for
    an axis that every task needs, or makes, whole. Where an input does not follow a dimension, every task
    along it needs a copy. An output that does not follow a dimension of kind REDUCTION is the sum of what
    the tasks along it make.
    """

    dimensions: tuple[TaskDimension, ...]
    inputs: tuple[tuple[int | None, ...], ...]
    outputs: tuple[tuple[int | None, ...], ...]

    def admits(self, degrees: tuple[int, ...]) -> bool:
        """Whether the dimensions can be divided so: every size is a multiple of its degree."""
        return len(degrees) == len(self.dimensions) and all(
            degree == 1 or (isinstance(dimension.size, int) and dimension.size % degree == 0)
            for dimension, degree in zip(self.dimensions, degrees, strict=True)
        )
