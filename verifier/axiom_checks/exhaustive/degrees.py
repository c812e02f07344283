"""Degree bounds of equations, which give the error of identity tests and the evaluations needed.

By Schwartz and Zippel: both sides are rational functions of the inputs' residues. Where they differ, the
difference of one output element has a numerator of degree d that is not zero, and random residues make it
zero, or a denominator zero, with a probability of at most d / |S|, where S is the set they are drawn from.
Independent evaluations multiply: ``evaluations`` says how many take the error of one case below 2^-64. What
the bound means beyond the ring:

- *Order* (relu, maximum pooling, clipping): the sides are rational functions on each cell in which the order
  of the compared values does not change. The error holds for every cell that the shadows fall into; that all
  cells are met is not claimed. Such equations are evaluated ORDERED_EVALUATIONS times.
- *exp* of a linear form is a monomial in uniform elements of the subgroup of order q, and counts with the sum
  of its coefficients. For another argument P, of degree d, g^P takes each value with probability at most d /
  q, and a pair of different ones at most d^2 / q^2, so that it counts with d^2; this covers at most two
  different ones in each output element, which is all that activations need.
- *sqrt*, *erf*, *power* with other exponents, and *exp* when it is free, are random functions in the model:
  the sides can agree by chance if two different arguments collide, which is counted for every pair.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from superopt.domains.base import Array, Domain, Rearrangement
from superopt.errors import UnsupportedError
from superopt.verifier.axiom_checks.exhaustive.residues import EXPONENT_MODULUS, MODULUS

ERROR_BITS = 64
LEAST_EVALUATIONS = 3
ORDERED_EVALUATIONS = 8


@dataclass(frozen=True, slots=True)
class Degrees:
    """Bounds for every element of an array: degrees of numerator and denominator, the sum of coefficients of
    a linear form, how many random functions an element depends on. ``places`` has the array's shape.
    """

    places: Array
    numerator: int
    denominator: int
    weight: int
    calls: int


class DegreeDomain(Domain[Degrees]):
    """Bounds instead of numbers; remembers what an evaluation needs."""

    def __init__(self, *, exponential: bool) -> None:
        self.exponential = exponential
        self.has_order = False
        self.has_exp = False
        self.has_sized_sums = False
        self.has_arbitrary_functions = False
        self._largest_argument = 1

    def variable(self, shape: tuple[int, ...]) -> Degrees:
        """An input: degree 1."""
        return Degrees(np.zeros((1, *shape), np.int8), 1, 0, 1, 0)

    def error_degree(self, left: Degrees, right: Degrees) -> int:
        """What is divided by |S|: the degree of the difference, of its denominators, and collisions."""
        difference = max(left.numerator + right.denominator, right.numerator + left.denominator)
        calls = left.calls + right.calls
        collisions = calls * (calls - 1) // 2 * (self._largest_argument + 1)
        return max(1, difference + left.denominator + right.denominator + collisions)

    def shape(self, array: Degrees) -> tuple[int, ...]:
        """The shape without the stack axis."""
        return array.places.shape[1:]

    def rearrange(self, function: Rearrangement, array: Degrees) -> Degrees:
        """Bounds stay."""
        return _at(function(array.places), array)

    def concatenate(self, arrays: Sequence[Degrees], axis: int) -> Degrees:
        """The largest bounds."""
        places = np.concatenate([array.places for array in arrays], axis=axis + 1)
        return _at(places, _largest(arrays, max(array.calls for array in arrays)))

    def constant(self, numerators: npt.NDArray[np.int64], denominators: npt.NDArray[np.int64]) -> Degrees:
        """Degree 0."""
        tops, bottoms = np.broadcast_arrays(numerators, denominators)
        weight = max((abs(int(a)) * int(b) for a, b in zip(tops.flat, bottoms.flat, strict=True)), default=1)
        return Degrees(np.zeros((1, *tops.shape), np.int8), 0, 0, max(weight, 1), 0)

    def add(self, left: Degrees, right: Degrees) -> Degrees:
        """Over the product of the denominators."""
        numerator = max(left.numerator + right.denominator, right.numerator + left.denominator)
        return Degrees(
            _spread(left, right),
            numerator,
            left.denominator + right.denominator,
            left.weight + right.weight,
            left.calls + right.calls,
        )

    def negate(self, array: Degrees) -> Degrees:
        """Bounds stay."""
        return array

    def multiply(self, left: Degrees, right: Degrees) -> Degrees:
        """Degrees add up."""
        return _product(_spread(left, right), left, right)

    def matmul(self, left: Degrees, right: Degrees) -> Degrees:
        """A sum of products."""
        terms = left.places.shape[-1]
        places = np.matmul(*(array.places.reshape(s) for array, s in _aligned(left, right)))
        return self._summed(_product(places, left, right), terms)

    def sum(self, array: Degrees, axis: int) -> Degrees:
        """A sum of as many terms as the axis has."""
        return self._summed(_at(array.places.sum(axis=axis + 1), array), array.places.shape[axis + 1])

    def reciprocal(self, array: Degrees) -> Degrees:
        """Numerator and denominator swapped."""
        return Degrees(array.places, array.denominator, array.numerator, 1, array.calls)

    def maximum(self, left: Degrees, right: Degrees) -> Degrees:
        """One of both."""
        self.has_order = True
        return _at(_spread(left, right), _largest((left, right), left.calls + right.calls))

    def select(self, condition: Degrees, left: Degrees, right: Degrees) -> Degrees:
        """One of both."""
        self.has_order = True
        either = _at(_spread(left, right), _largest((left, right), left.calls + right.calls))
        return _at(_spread(condition, either), either)

    def max_along(self, array: Degrees, axis: int) -> Degrees:
        """One of those along the axis, also where there is only one."""
        self.has_order = True
        return _at(array.places.max(axis=axis + 1), array)

    def exp(self, array: Degrees) -> Degrees:
        """A monomial of the exponents of a linear form, else see the module."""
        self.has_exp = True
        if not self.exponential:
            return self._called(array)
        degree = array.numerator + array.denominator
        linear = array.numerator <= 1 and array.denominator == 0
        power = array.weight if linear else degree * degree
        return Degrees(array.places, power, power, 1, array.calls)

    def sqrt(self, array: Degrees) -> Degrees:
        """A random function in the model, which is not the larger root of a square."""
        self.has_arbitrary_functions = True
        return self._called(array)

    def apply(self, function: str, array: Degrees, parameters: tuple[Fraction, ...] = ()) -> Degrees:
        """A random function in the model, whose laws over the reals it does not know."""
        self.has_arbitrary_functions = True
        return self._called(array)

    def _called(self, array: Degrees) -> Degrees:
        self._largest_argument = max(self._largest_argument, array.numerator + array.denominator)
        return Degrees(array.places, 1, 0, 1, array.calls + 1)

    def _summed(self, term: Degrees, terms: int) -> Degrees:
        self.has_sized_sums |= term.denominator > 0 or term.calls > 0
        return Degrees(
            term.places,
            term.numerator + max(terms - 1, 0) * term.denominator,
            term.denominator * terms,
            term.weight * max(terms, 1),
            term.calls * max(terms, 1),
        )


def evaluations(degree: int, *, ordered: bool, exponential: bool) -> int:
    """How many independent evaluations make the error of a case of that degree smaller than 2^-64."""
    needed = math.floor(ERROR_BITS / bits_per_evaluation(degree, exponential=exponential)) + 1
    return max(needed, ORDERED_EVALUATIONS if ordered else LEAST_EVALUATIONS)


def bits_per_evaluation(degree: int, *, exponential: bool) -> float:
    """-log2 of the error of one evaluation; raises UnsupportedError when it is no error worth the name."""
    size = (EXPONENT_MODULUS if exponential else MODULUS) - 1
    if 2 * degree > size:
        raise UnsupportedError(f"a degree of {degree} is too high for residues modulo {MODULUS}")
    return math.log2(size / degree)


def _product(places: Array, left: Degrees, right: Degrees) -> Degrees:
    return Degrees(
        places,
        left.numerator + right.numerator,
        left.denominator + right.denominator,
        left.weight * right.weight,
        left.calls + right.calls,
    )


def _largest(arrays: Sequence[Degrees], calls: int) -> Degrees:
    return Degrees(
        arrays[0].places,
        max(array.numerator for array in arrays),
        max(array.denominator for array in arrays),
        max(array.weight for array in arrays),
        calls,
    )


def _at(places: Array, bounds: Degrees) -> Degrees:
    return Degrees(places, bounds.numerator, bounds.denominator, bounds.weight, bounds.calls)


def _spread(left: Degrees, right: Degrees) -> Array:
    one, two = (array.places.reshape(shape) for array, shape in _aligned(left, right))
    return one + two


def _aligned(left: Degrees, right: Degrees) -> tuple[tuple[Degrees, tuple[int, ...]], ...]:
    rank = max(left.places.ndim, right.places.ndim)
    return tuple(
        (array, (len(array.places), *(1,) * (rank - array.places.ndim), *array.places.shape[1:]))
        for array in (left, right)
    )
