"""Elementwise choice between two tensors by a condition, comparisons, and logic on truth values.

A condition is a tensor of truth values; where the algebra has only numbers, those above 0 are true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from superopt.domains import Domain
from superopt.errors import UnfitTypesError
from superopt.ir.types import ElementType, TensorType, ValueType
from superopt.ops.base import Operator, equal_shapes, register, same_element, tensors

A = TypeVar("A")


@register
@dataclass(frozen=True, slots=True)
class Select(Operator):
    """x where the condition is true, else y (ONNX: Where). What is not chosen may be undefined."""

    name: ClassVar[str] = "select"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((1, 2),)
    inputs: ClassVar[int] = 3
    element_wise: ClassVar[bool] = True
    comparing: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    conditions: ClassVar[frozenset[int]] = frozenset((0,))

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """(condition, t, t) -> t, the condition of the same shape."""
        condition, left, right = tensors(self.name, 3, types)
        _require_movable(self.name, condition, left)
        same_element(self.name, left, right)
        equal_shapes(self.name, left, right)
        equal_shapes(self.name, condition, left)
        return (left,)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The chosen elements."""
        return (domain.select(*arrays),)


class Predicate(Operator):
    """A truth value for every element: 1 or 0."""

    element_wise: ClassVar[bool] = True
    comparing: ClassVar[bool] = True

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """t -> truth values, or (t, t) -> truth values."""
        first, *others = tensors(self.name, self.inputs, types)
        _require_movable(self.name, first)
        for other in others:
            same_element(self.name, first, other)
            equal_shapes(self.name, first, other)
        return (TensorType(ElementType.BOOL, first.shape),)


@register
@dataclass(frozen=True, slots=True)
class Greater(Predicate):
    """x > y."""

    name: ClassVar[str] = "greater"
    inputs: ClassVar[int] = 2
    keeps_zero: ClassVar[bool] = True

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The sign of the difference."""
        return (_truth(domain, domain.subtract(arrays[0], arrays[1])),)


@register
@dataclass(frozen=True, slots=True)
class Equal(Predicate):
    """x = y."""

    name: ClassVar[str] = "equal"
    inputs: ClassVar[int] = 2
    commutative: ClassVar[bool] = True

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Neither is larger."""
        difference = domain.subtract(arrays[0], arrays[1])
        larger = domain.maximum(difference, domain.negate(difference))
        return (domain.select(larger, domain.rational(0), domain.rational(1)),)


@register
@dataclass(frozen=True, slots=True)
class LogicalAnd(Predicate):
    """Whether both are true."""

    name: ClassVar[str] = "logical_and"
    inputs: ClassVar[int] = 2
    commutative: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    conditions: ClassVar[frozenset[int]] = frozenset((0, 1))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The smaller one is true."""
        return (_truth(domain, domain.minimum(arrays[0], arrays[1])),)


@register
@dataclass(frozen=True, slots=True)
class LogicalOr(Predicate):
    """Whether one of them is true."""

    name: ClassVar[str] = "logical_or"
    inputs: ClassVar[int] = 2
    commutative: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    conditions: ClassVar[frozenset[int]] = frozenset((0, 1))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The larger one is true."""
        return (_truth(domain, domain.maximum(arrays[0], arrays[1])),)


@register
@dataclass(frozen=True, slots=True)
class LogicalNot(Predicate):
    """Whether it is false."""

    name: ClassVar[str] = "logical_not"
    inputs: ClassVar[int] = 1
    conditions: ClassVar[frozenset[int]] = frozenset((0,))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """0 where it is true."""
        return (domain.select(arrays[0], domain.rational(0), domain.rational(1)),)


def _truth(domain: Domain[A], array: A) -> A:
    """1 where a number is above 0, else 0."""
    return domain.select(array, domain.rational(1), domain.rational(0))


def _require_movable(where: str, *types: TensorType) -> None:
    for type_ in types:
        if not type_.element.is_movable:
            raise UnfitTypesError(f"{where}: expected numbers or truth values, got {type_}")
