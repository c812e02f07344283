"""Algorithms for filters, as attributes of operators."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

from superopt.generator.bilinear.filters import filters
from superopt.generator.bilinear.maps import Coefficients
from superopt.ops.filter_algorithms import FilterAlgorithm, Matrices, Matrix

BY_HALVES: Matrices = (
    ((Fraction(1, 2), Fraction(-1, 2), 0), (0, 1, 0), (0, 1, -1)),
    ((2, 0), (1, 1), (0, 1)),
    ((1, 0), (1, 1), (0, -1)),
)
"""Karatsuba's algorithm, with a factor moved from the data to the weights."""


@cache
def algorithm(outputs: int, taps: int) -> FilterAlgorithm:
    """The algorithm for F(outputs, taps) with the least error; of no outputs, none."""
    if not outputs:
        return ()
    best = filters(outputs, taps)[0].algorithm
    return _matrix(best.left), _matrix(best.right), _matrix(best.result)


def _matrix(coefficients: Coefficients) -> Matrix:
    return tuple(tuple(Fraction(entry) for entry in row) for row in coefficients)
