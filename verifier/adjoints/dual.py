"""Dual numbers over any number domain: values with their derivative along one direction.

The semantics of an operator, evaluated over dual numbers, gives its Jacobian-vector product. Conditions of
``select`` and indices of ``rows`` only choose, so their derivatives do not matter. At ties ``maximum`` has
the derivative of its second argument, so that relu at 0 has derivative 0; the largest element along an axis
is the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from superopt.domains import Domain
from superopt.domains.base import Rearrangement
from superopt.errors import UnsupportedError
from superopt.ops.elementwise.arithmetic import Power

A = TypeVar("A")

TWO_BY_ROOT_OF_PI = Fraction(1.1283791670955126)
"""2 / sqrt(pi), the derivative of ``erf`` at 0, as a float."""


@dataclass(frozen=True, slots=True)
class Dual(Generic[A]):
    """A value and its derivative, of the same shape; None is a derivative of 0 everywhere."""

    value: A
    tangent: A | None = None


class DualDomain(Domain[Dual[A]]):
    """Dual numbers over the domain ``base``."""

    def __init__(self, base: Domain[A]) -> None:
        self._base = base

    def tangent(self, array: Dual[A]) -> A:
        """The derivative, zeros written out."""
        if array.tangent is not None:
            return array.tangent
        return self._base.broadcast(self._base.rational(0), self._base.shape(array.value))

    def shape(self, array: Dual[A]) -> tuple[int, ...]:
        """The shape without the stack axis."""
        return self._base.shape(array.value)

    def rearrange(self, function: Rearrangement, array: Dual[A]) -> Dual[A]:
        """Moves values and derivatives alike."""
        return self._linear(lambda part: self._base.rearrange(function, part), array)

    def concatenate(self, arrays: Sequence[Dual[A]], axis: int) -> Dual[A]:
        """Concatenates values and derivatives."""
        value = self._base.concatenate([array.value for array in arrays], axis)
        if all(array.tangent is None for array in arrays):
            return Dual(value)
        return Dual(value, self._base.concatenate([self.tangent(array) for array in arrays], axis))

    def constant(self, numerators: npt.NDArray[np.int64], denominators: npt.NDArray[np.int64]) -> Dual[A]:
        """Constants have derivative 0."""
        return Dual(self._base.constant(numerators, denominators))

    def rational(self, value: Fraction | int | float) -> Dual[A]:
        """Constants have derivative 0."""
        return Dual(self._base.rational(value))

    def add(self, left: Dual[A], right: Dual[A]) -> Dual[A]:
        """d(x + y) = dx + dy."""
        value = self._base.add(left.value, right.value)
        return self._with(value, left.tangent, right.tangent)

    def negate(self, array: Dual[A]) -> Dual[A]:
        """d(-x) = -dx."""
        return self._linear(self._base.negate, array)

    def multiply(self, left: Dual[A], right: Dual[A]) -> Dual[A]:
        """d(x y) = dx y + x dy."""
        return self._bilinear(self._base.multiply, left, right)

    def matmul(self, left: Dual[A], right: Dual[A]) -> Dual[A]:
        """d(X Y) = dX Y + X dY."""
        return self._bilinear(self._base.matmul, left, right)

    def sum(self, array: Dual[A], axis: int) -> Dual[A]:
        """Sums values and derivatives."""
        return self._linear(lambda part: self._base.sum(part, axis), array)

    def reciprocal(self, array: Dual[A]) -> Dual[A]:
        """d(1/x) = -dx / x^2."""
        inverse = self._base.reciprocal(array.value)
        return self._chained(inverse, array, lambda: self._base.negate(self._base.multiply(inverse, inverse)))

    def maximum(self, left: Dual[A], right: Dual[A]) -> Dual[A]:
        """The derivative of the larger one, at ties that of ``right``."""
        value = self._base.maximum(left.value, right.value)
        if left.tangent is None and right.tangent is None:
            return Dual(value)
        excess = self._base.subtract(left.value, right.value)
        return self._with(value, self._base.select(excess, self.tangent(left), self.tangent(right)))

    def select(self, condition: Dual[A], left: Dual[A], right: Dual[A]) -> Dual[A]:
        """The derivative of the chosen one."""
        value = self._base.select(condition.value, left.value, right.value)
        if left.tangent is None and right.tangent is None:
            return Dual(value)
        shape = self._base.shape(value)
        tangents = (self._base.broadcast(self.tangent(part), shape) for part in (left, right))
        return self._with(value, self._base.select(condition.value, *tangents))

    def exp(self, array: Dual[A]) -> Dual[A]:
        """d exp(x) = exp(x) dx."""
        value = self._base.exp(array.value)
        return self._chained(value, array, lambda: value)

    def sqrt(self, array: Dual[A]) -> Dual[A]:
        """d sqrt(x) = dx / (2 sqrt(x))."""
        root = self._base.sqrt(array.value)
        return self._chained(root, array, lambda: self._base.reciprocal(self._base.add(root, root)))

    def apply(self, function: str, array: Dual[A], parameters: tuple[Fraction, ...] = ()) -> Dual[A]:
        """``cos``, ``erf``, ``log``, ``power`` and ``sin``; raises UnsupportedError for another function."""
        value = self._base.apply(function, array.value, parameters)
        return self._chained(value, array, lambda: self._slope(function, array.value, parameters))

    def max_along(self, array: Dual[A], axis: int) -> Dual[A]:
        """The first of the largest elements along an axis."""
        best = self._element(array, axis, 0)
        for index in range(1, self.shape(array)[axis]):
            best = self.maximum(self._element(array, axis, index), best)
        return best

    def _slope(self, function: str, array: A, parameters: tuple[Fraction, ...]) -> A:
        """The derivative of a named function."""
        base = self._base
        match function, parameters:
            case "erf", ():
                bell = base.exp(base.negate(base.multiply(array, array)))
                return base.multiply(bell, base.rational(TWO_BY_ROOT_OF_PI))
            case "sin", ():
                return base.apply("cos", array)
            case "cos", ():
                return base.negate(base.apply("sin", array))
            case "log", ():
                return base.reciprocal(array)
            case "power", (exponent,):
                (lower,) = Power(exponent - 1).evaluate(base, array)
                return base.multiply(lower, base.rational(exponent))
            case _:
                raise UnsupportedError(f"{function}: expected a function whose derivative is known")

    def _linear(self, function: Callable[[A], A], array: Dual[A]) -> Dual[A]:
        return Dual(function(array.value), None if array.tangent is None else function(array.tangent))

    def _bilinear(self, product: Callable[[A, A], A], left: Dual[A], right: Dual[A]) -> Dual[A]:
        return self._with(
            product(left.value, right.value),
            None if left.tangent is None else product(left.tangent, right.value),
            None if right.tangent is None else product(left.value, right.tangent),
        )

    def _chained(self, value: A, array: Dual[A], slope: Callable[[], A]) -> Dual[A]:
        """The value of an elementwise function with that slope at the array."""
        if array.tangent is None:
            return Dual(value)
        return Dual(value, self._base.multiply(slope(), array.tangent))

    def _with(self, value: A, *terms: A | None) -> Dual[A]:
        """The value with the sum of the terms as derivative, broadcast to the shape of the value."""
        tangent: A | None = None
        for term in terms:
            if term is not None:
                tangent = term if tangent is None else self._base.add(tangent, term)
        if tangent is not None and self._base.shape(tangent) != self._base.shape(value):
            tangent = self._base.broadcast(tangent, self._base.shape(value))
        return Dual(value, tangent)


__all__ = ["TWO_BY_ROOT_OF_PI", "Dual", "DualDomain"]
