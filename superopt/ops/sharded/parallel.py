"""Unity's six parallelization operators, which change how a tensor is sharded but not its value.

Their types define them (Unity, section 3.3, figure 8): ``partition`` and ``combine`` multiply and divide the
degree of an axis, ``replicate`` and ``reduce`` the replica degree. ``reduce`` sums replicas, so it is not the
inverse of ``replicate``. ``pipeline`` and ``batch`` divide an axis in time instead of space: an operator
between them processes one part after another, so its undivided inputs need no replicas.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from superopt.domains import Domain
from superopt.errors import UnfitTypesError
from superopt.ir.dimensions import Dimension, floor_divide
from superopt.ir.types import Division, ElementType, TensorType, ValueType
from superopt.ops.base import Operator, Work, axis_of, moved_bytes, register, tensors
from superopt.ops.roles import Divided
from superopt.ops.sharded.sharding import divided, divisions_of, replicas_of

A = TypeVar("A")


class ParallelOperator(Operator):
    """Maps a tensor to the same elements with a different division; ``degree`` is the number of parts or
    copies."""

    inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    parallel: ClassVar[bool] = True
    degree: int

    @abstractmethod
    def divided(self, divisions: list[Division], replicas: int) -> tuple[Sequence[Division], int]:
        """Divisions of all axes and the number of replicas of the result, from those of the input; raises
        IllTypedError."""

    @abstractmethod
    def backward(self) -> ParallelOperator:
        """The operator applied to gradients in place of this one."""

    def moved_elements(self, type_: TensorType) -> Dimension:
        """The total number of elements sent for an input of that type, where each place keeps what it has; 0
        for a purely local operator."""
        del type_
        return 0

    def infer(self, *types: ValueType) -> tuple[TensorType, ...]:
        """The same shape with a different division."""
        (only,) = tensors(self.name, 1, types)
        if self.degree < 2:
            raise UnfitTypesError(f"{self.name}: expected a degree of at least 2, got {self.degree}")
        divisions, replicas = self.divided(list(divisions_of(only)), replicas_of(only))
        return (divided(self.name, only, divisions, replicas),)

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """The same as ``infer``."""
        return self.infer(*types)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """``evaluate_typed`` for an unsharded array."""
        (array,) = arrays
        type_ = TensorType(ElementType.FLOAT, domain.shape(array))
        return self.evaluate_typed((type_,), domain, arrays)

    def evaluate_typed(
        self, types: tuple[TensorType, ...], domain: Domain[A], arrays: tuple[A, ...]
    ) -> tuple[A, ...]:
        """The same array, with replicas copied or summed."""
        before, (after,) = replicas_of(types[0]), map(replicas_of, self.infer(*types))
        if before == after:
            return arrays
        (array,) = arrays
        shape = domain.shape(array)[1:] if before > 1 else domain.shape(array)
        kept, rest = min(before, after), ((after,) if after > 1 else ())
        if after > before:
            one = domain.reshape(array, (before, 1, *shape))
            copied = domain.broadcast(one, (before, after // before, *shape))
            return (domain.reshape(copied, (*rest, *shape)),)
        terms = domain.reshape(array, (kept, before // kept, *shape))
        return (domain.reshape(domain.sum(terms, 1), (*rest, *shape)),)

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """An operation for each element that is moved."""
        return Work(self.moved_elements(inputs[0]) + 1, moved_bytes(inputs, outputs))


class AxisOperator(ParallelOperator):
    """An operator that changes the division of one axis."""

    axis: int

    def divided(self, divisions: list[Division], replicas: int) -> tuple[Sequence[Division], int]:
        """The axis with its new division."""
        axis = axis_of(self.name, self.axis, len(divisions))
        divisions[axis] = self.of_axis(divisions[axis])
        return divisions, replicas

    @abstractmethod
    def of_axis(self, division: Division) -> Division:
        """The new division of the axis; raises IllTypedError."""

    def quotient(self, number: int) -> int:
        """The number divided by the degree; raises IllTypedError unless that is exact."""
        if number % self.degree:
            raise UnfitTypesError(
                f"{self.name}: an axis in {number} parts cannot be one in {self.degree} fewer"
            )
        return number // self.degree


@register
@dataclass(frozen=True, slots=True)
class Partition(AxisOperator):
    """Divides an axis among ``degree`` places (multiplying any existing division)."""

    name: ClassVar[str] = "partition"
    divides: ClassVar[Divided | None] = Divided.DEGREE
    axis: int
    degree: int

    def of_axis(self, division: Division) -> Division:
        """More parts."""
        return replace(division, degree=division.degree * self.degree)

    def backward(self) -> ParallelOperator:
        """The gradient of a part is a part of the gradient."""
        return Combine(self.axis, self.degree)

    def moved_elements(self, type_: TensorType) -> Dimension:
        """All parts except the one that stays."""
        return _all_but_one(type_, self.degree)


@register
@dataclass(frozen=True, slots=True)
class Combine(AxisOperator):
    """Combines ``degree`` adjacent parts of an axis."""

    name: ClassVar[str] = "combine"
    divides: ClassVar[Divided | None] = Divided.DEGREE
    gathers: ClassVar[bool] = True
    undone_by: ClassVar[str | None] = Partition.name
    axis: int
    degree: int

    def of_axis(self, division: Division) -> Division:
        """Fewer parts."""
        return replace(division, degree=self.quotient(division.degree))

    def backward(self) -> ParallelOperator:
        """The gradient is divided as the tensor was."""
        return Partition(self.axis, self.degree)

    def moved_elements(self, type_: TensorType) -> Dimension:
        """All parts except the one already there."""
        return _all_but_one(type_, self.degree)


@register
@dataclass(frozen=True, slots=True)
class Replicate(ParallelOperator):
    """Makes ``degree`` copies of every replica."""

    name: ClassVar[str] = "replicate"
    divides: ClassVar[Divided | None] = Divided.REPLICAS
    degree: int

    def divided(self, divisions: list[Division], replicas: int) -> tuple[Sequence[Division], int]:
        """More replicas."""
        return divisions, replicas * self.degree

    def backward(self) -> ParallelOperator:
        """Gradients of copies are summed: parameter synchronisation."""
        return Reduce(self.degree)

    def moved_elements(self, type_: TensorType) -> Dimension:
        """All copies except the one already there."""
        return type_.elements * replicas_of(type_) * (self.degree - 1)


@register
@dataclass(frozen=True, slots=True)
class Reduce(ParallelOperator):
    """Sums groups of ``degree`` adjacent replicas."""

    name: ClassVar[str] = "reduce"
    divides: ClassVar[Divided | None] = Divided.REPLICAS
    gathers: ClassVar[bool] = True
    degree: int

    def divided(self, divisions: list[Division], replicas: int) -> tuple[Sequence[Division], int]:
        """Fewer replicas."""
        if replicas % self.degree:
            raise UnfitTypesError(f"{self.name}: {replicas} replicas are not sums of {self.degree} each")
        return divisions, replicas // self.degree

    def backward(self) -> ParallelOperator:
        """The gradient of a sum is that of each term."""
        return Replicate(self.degree)

    def moved_elements(self, type_: TensorType) -> Dimension:
        """All terms except those to which the others are added."""
        return type_.elements * (replicas_of(type_) // self.degree * (self.degree - 1))


@register
@dataclass(frozen=True, slots=True)
class Pipeline(AxisOperator):
    """Divides an axis into ``degree`` parts that are processed one after another."""

    name: ClassVar[str] = "pipeline"
    divides: ClassVar[Divided | None] = Divided.BATCHES
    axis: int
    degree: int

    def of_axis(self, division: Division) -> Division:
        """More turns."""
        return replace(division, batches=division.batches * self.degree)

    def backward(self) -> ParallelOperator:
        """Gradients also arrive part by part."""
        return Batch(self.axis, self.degree)


@register
@dataclass(frozen=True, slots=True)
class Batch(AxisOperator):
    """Combines the ``degree`` parts of an axis once all are available."""

    name: ClassVar[str] = "batch"
    divides: ClassVar[Divided | None] = Divided.BATCHES
    gathers: ClassVar[bool] = True
    undone_by: ClassVar[str | None] = Pipeline.name
    axis: int
    degree: int

    def of_axis(self, division: Division) -> Division:
        """Fewer turns."""
        return replace(division, batches=self.quotient(division.batches))

    def backward(self) -> ParallelOperator:
        """The gradient is used part by part."""
        return Pipeline(self.axis, self.degree)


def _all_but_one(type_: TensorType, degree: int) -> Dimension:
    return floor_divide(type_.elements * replicas_of(type_), degree) * (degree - 1)
