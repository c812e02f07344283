"""Rounding errors of bilinear algorithms relative to those of the definition."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from superopt.ir.terms import Term, applications
from superopt.ops.bilinear.filter_algorithms import Matrices
from superopt.ops.traits import traits


def amplification(terms: Iterable[Term]) -> float:
    """How much larger the rounding errors of terms are than those of the definitions of their operators, for
    independent operands; those of several algorithms multiply. 1 for terms without algorithms."""
    return math.prod(
        _of_algorithm(cast("Matrices", value))
        for term in applications(*terms)
        if traits(term.operator).rounds_more
        for _, value in term.attributes
        if isinstance(value, tuple) and len(value) == 3
    )


@lru_cache(maxsize=256)
def _of_algorithm(algorithm: Matrices) -> float:
    """For each output, the root of the sum over multiplications of the squares of the entries of all three
    matrices, over the same of the coefficients that it computes; the largest over the outputs."""
    left, right, result = map(_floats, algorithm)
    spread = (np.square(left).sum(axis=1) * np.square(right).sum(axis=1)) @ np.square(result)
    computed = np.einsum("pi,pj,pk->ijk", left, right, result)
    return float(np.sqrt(np.max(spread / np.square(computed).sum(axis=(0, 1)))))


def _floats(matrix: tuple[tuple[object, ...], ...]) -> NDArray[np.float64]:
    return np.array([[float(cast("int", entry)) for entry in row] for row in matrix], np.float64)


__all__ = ["amplification"]
