"""Domain of Python objects: exact rationals, and expressions built by another domain."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from superopt.domains.base import Array, Domain, Rearrangement
from superopt.domains.floats import FloatDomain
from superopt.errors import UnsupportedError


class ObjectDomain(Domain[Array]):
    """Arrays of Python objects with ``+``, ``*`` and unary ``-``; subclasses define order and functions."""

    def __init__(self) -> None:
        self._arrays = FloatDomain(object)

    @abstractmethod
    def number(self, value: Fraction) -> object:
        """The object that represents a rational number."""

    def shape(self, array: Array) -> tuple[int, ...]:
        """The shape without the stack axis."""
        return array.shape[1:]

    def rearrange(self, function: Rearrangement, array: Array) -> Array:
        """Applies the function; zeros that it inserts are converted to numbers of this domain."""
        moved = function(array)
        zeros = [index for index, value in enumerate(moved.flat) if isinstance(value, int | np.integer)]
        if not zeros:
            return moved
        result = moved.copy()
        zero = self.number(Fraction(0))
        for index in zeros:
            result.flat[index] = zero
        return result

    def concatenate(self, arrays: Sequence[Array], axis: int) -> Array:
        """Concatenates along an axis."""
        return self._arrays.concatenate(arrays, axis)

    def constant(self, numerators: npt.NDArray[np.int64], denominators: npt.NDArray[np.int64]) -> Array:
        """The exact quotients."""
        tops, bottoms = np.broadcast_arrays(numerators, denominators)
        result = np.empty(tops.shape, object)
        for index in np.ndindex(tops.shape):
            result[index] = self.number(Fraction(int(tops[index]), int(bottoms[index])))
        return result[np.newaxis]

    def add(self, left: Array, right: Array) -> Array:
        """Sum."""
        return self._arrays.add(left, right)

    def negate(self, array: Array) -> Array:
        """Negation."""
        return np.negative(array)

    def multiply(self, left: Array, right: Array) -> Array:
        """Product."""
        return self._arrays.multiply(left, right)

    def matmul(self, left: Array, right: Array) -> Array:
        """Matrix product."""
        return self._arrays.matmul(left, right)

    def sum(self, array: Array, axis: int) -> Array:
        """Sum along an axis."""
        return array.sum(axis=axis + 1)


class ExactDomain(ObjectDomain):
    """Exact rational numbers: ring, division and order; no exponentials."""

    def number(self, value: Fraction) -> object:
        """The fraction unchanged."""
        return value

    def random(self, generator: np.random.Generator, stack: int, shape: tuple[int, ...]) -> Array:
        """Small nonzero integers of both signs."""
        integers = generator.integers(1, 98, (stack, *shape)) * generator.choice((-1, 1), (stack, *shape))
        result = np.empty((stack, *shape), object)
        for index in np.ndindex(result.shape):
            result[index] = Fraction(int(integers[index]))
        return result

    def reciprocal(self, array: Array) -> Array:
        """Exact inverses; 0 for 0."""
        result = np.empty(array.shape, object)
        for index in np.ndindex(array.shape):
            result[index] = Fraction(1) / array[index] if array[index] else Fraction(0)
        return result

    def maximum(self, left: Array, right: Array) -> Array:
        """Elementwise maximum."""
        return self._arrays.maximum(left, right)

    def select(self, condition: Array, left: Array, right: Array) -> Array:
        """The chosen one."""
        return self._arrays.select(condition, left, right)

    def exp(self, array: Array) -> Array:
        """Raises: not rational."""
        raise UnsupportedError("exp is not rational: use the prime field")

    def sqrt(self, array: Array) -> Array:
        """Raises: not rational."""
        raise UnsupportedError("sqrt is not rational: use the prime field")

    def apply(self, function: str, array: Array, parameters: tuple[Fraction, ...] = ()) -> Array:
        """Raises: not rational."""
        raise UnsupportedError(f"{function} is not rational: use the prime field")
