"""Interface of number domains: structure, ring, division, order, exponentials, and named functions.

Every array of every domain has one leading *stack* axis, so that many evaluations of one operator are one
call. A stack of length 1 broadcasts against any other. Shapes in this module omit the stack axis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from superopt.domains.arrays import Array, namespace, reshaped

Rearrangement: TypeAlias = "Callable[[Array], Array]"
A = TypeVar("A")


class Domain(ABC, Generic[A]):
    """A number domain with stacked arrays of type ``A``."""

    @abstractmethod
    def shape(self, array: A) -> tuple[int, ...]:
        """The shape without the stack axis."""

    @abstractmethod
    def rearrange(self, function: Rearrangement, array: A) -> A:
        """Applies a function that only moves, repeats or drops elements, or pads with zeros."""

    @abstractmethod
    def concatenate(self, arrays: Sequence[A], axis: int) -> A:
        """Concatenates arrays along a non-negative axis (the stack axis not counted)."""

    @abstractmethod
    def constant(self, numerators: npt.NDArray[np.int64], denominators: npt.NDArray[np.int64]) -> A:
        """An array of rational numbers as a stack of length 1."""

    @abstractmethod
    def add(self, left: A, right: A) -> A:
        """Elementwise sum; shapes are equal or broadcast as in numpy."""

    @abstractmethod
    def negate(self, array: A) -> A:
        """Elementwise negation."""

    @abstractmethod
    def multiply(self, left: A, right: A) -> A:
        """Elementwise product; shapes are equal or broadcast as in numpy."""

    @abstractmethod
    def matmul(self, left: A, right: A) -> A:
        """Matrix product over the last two axes, batched as in numpy."""

    @abstractmethod
    def sum(self, array: A, axis: int) -> A:
        """Sum along a non-negative axis (the stack axis not counted), which is dropped."""

    @abstractmethod
    def reciprocal(self, array: A) -> A:
        """Elementwise 1/x; undefined where x is 0, without raising."""

    @abstractmethod
    def maximum(self, left: A, right: A) -> A:
        """Elementwise maximum."""

    @abstractmethod
    def select(self, condition: A, left: A, right: A) -> A:
        """``left`` where the condition is above 0, elsewhere ``right``, elementwise; undefined where the
        condition or the chosen one is. Shapes are equal or broadcast as in numpy."""

    @abstractmethod
    def exp(self, array: A) -> A:
        """Elementwise exponential: exp(x + y) = exp(x) exp(y)."""

    @abstractmethod
    def sqrt(self, array: A) -> A:
        """Elementwise square root."""

    @abstractmethod
    def apply(self, function: str, array: A, parameters: tuple[Fraction, ...] = ()) -> A:
        """A named elementwise function outside the ring: ``cos``, ``erf``, ``log``, ``power``,
        ``sin``."""

    def rational(self, value: Fraction | int | float) -> A:
        """A number as a 0-d array, in a stack of length 1."""
        exact = Fraction(value)
        return self.constant(np.array(exact.numerator), np.array(exact.denominator))

    def subtract(self, left: A, right: A) -> A:
        """Elementwise difference."""
        return self.add(left, self.negate(right))

    def divide(self, left: A, right: A) -> A:
        """Elementwise quotient; undefined where the divisor is 0, without raising."""
        return self.multiply(left, self.reciprocal(right))

    def minimum(self, left: A, right: A) -> A:
        """Elementwise minimum."""
        return self.negate(self.maximum(self.negate(left), self.negate(right)))

    def rows(self, table: A, indices: A) -> A:
        """The rows of a table at the indices, rounded to the nearest one, halves down; those below 0 count
        from the end, and those beyond an end stand for the last row there.
        [v, ...], [n, ...] -> [n, ..., ...]."""
        count, *rest = self.shape(table)
        shape = self.shape(indices)
        indices = self.reshape(indices, (*shape, *(1 for _ in rest)))
        found = self.broadcast(self._element(table, 0, 0), (*shape, *rest))
        for index in range(1 - count, count):
            above = self.subtract(indices, self.rational(index - Fraction(1, 2)))
            found = self.select(above, self._element(table, 0, index % count), found)
        return found

    def reshape(self, array: A, shape: tuple[int, ...]) -> A:
        """Changes the shape, keeping elements in row-major order."""
        return self.rearrange(lambda a: reshaped(a, (a.shape[0], *shape)), array)

    def transpose(self, array: A, permutation: tuple[int, ...]) -> A:
        """Axis i of the result is axis ``permutation[i]`` of the array."""
        axes = (0, *(axis + 1 for axis in permutation))
        return self.rearrange(lambda a: namespace(a).permute_dims(a, axes), array)

    def broadcast(self, array: A, shape: tuple[int, ...]) -> A:
        """numpy broadcasting to the shape: trailing axes are aligned."""
        padding = (1,) * (len(shape) - len(self.shape(array)))

        def broadcast(a: Array) -> Array:
            aligned = reshaped(a, (a.shape[0], *padding, *a.shape[1:]))
            return namespace(a).broadcast_to(aligned, (a.shape[0], *shape))

        return self.rearrange(broadcast, array)

    def slice(self, array: A, axis: int, start: int, stop: int) -> A:
        """Elements ``start`` to ``stop`` along a non-negative axis."""
        index = (slice(None),) * (axis + 1) + (slice(start, stop), ...)
        return self.rearrange(lambda a: a[index], array)

    def max_along(self, array: A, axis: int) -> A:
        """The largest element along a non-negative axis, which is dropped."""
        size = self.shape(array)[axis]
        best = self._element(array, axis, 0)
        for index in range(1, size):
            best = self.maximum(best, self._element(array, axis, index))
        return best

    def _element(self, array: A, axis: int, index: int) -> A:
        place = (slice(None),) * (axis + 1) + (index, ...)
        return self.rearrange(lambda a: a[place], array)
