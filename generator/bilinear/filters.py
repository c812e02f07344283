"""Filters with few multiplications, found by enumerating sets of points at which polynomials are evaluated.

F(m, r) needs m + r - 1 multiplications: the weights and the transposed results are evaluated at as many
points, and the transform of the data is solved for (Toom 1963, Cook 1966, Winograd 1980). Any distinct
points will do; they differ in work and rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TypeAlias

import numpy as np

from superopt.errors import InvalidOptionError
from superopt.generator.bilinear.algorithms import (
    BilinearAlgorithm,
    TransformCost,
    amplification,
    transform_cost,
)
from superopt.generator.bilinear.maps import Coefficients, filter_map

Point: TypeAlias = Fraction | None
"""A rational number; None is the point at infinity, where a polynomial has its leading coefficient."""

MAGNITUDES = tuple(
    Fraction(*pair) for pair in ((1, 1), (2, 1), (1, 2), (3, 1), (1, 3), (4, 1), (1, 4), (3, 2), (2, 3))
)
"""Absolute values of the points."""

MOST_POINTS = 2 * len(MAGNITUDES) + 2
"""Points that there are: both signs of each magnitude, 0 and infinity."""

_DIGITS = 9
"""Digits of an amplification that decide between algorithms."""

KEPT = 3
"""Algorithms kept for each filter, at most."""


@dataclass(frozen=True)
class FilterAlgorithm:
    """An algorithm for F(outputs, taps), with the points that it evaluates at."""

    outputs: int
    taps: int
    points: tuple[Point, ...]
    algorithm: BilinearAlgorithm
    amplification: float
    cost: TransformCost


def filters(outputs: int, taps: int) -> tuple[FilterAlgorithm, ...]:
    """The best algorithms for F(outputs, taps) with outputs + taps - 1 multiplications: first the one with
    the least error amplification, then those with less work in their transforms. Each was checked to compute
    the filter. Deterministic.

    Raises InvalidOptionError for sizes below 1, and for more points than there are.
    """
    wanted = filter_map(outputs, taps)
    if outputs + taps - 1 > MOST_POINTS:
        raise InvalidOptionError(
            f"{wanted.name}: expected at most {MOST_POINTS} multiplications, got {outputs + taps - 1}"
        )
    found: list[FilterAlgorithm] = []
    for points in point_sets(outputs + taps - 1):
        algorithm = BilinearAlgorithm(
            _solved(points).T, _powers(points, taps), _powers(points, outputs)
        ).whole()
        error, cost = amplification(algorithm, wanted), transform_cost(algorithm)
        found.append(FilterAlgorithm(outputs, taps, points, algorithm, error, cost))
    found.sort(key=lambda each: (round(each.amplification, _DIGITS), each.cost))
    best = list(itertools.islice(_improving(found), KEPT))
    for each in best:
        if not each.algorithm.computes(wanted):
            raise AssertionError(f"the algorithm solved for does not compute {wanted.name}")
    return tuple(best)


def point_sets(count: int) -> Iterator[tuple[Point, ...]]:
    """The sets of that many points that are symmetric about 0 but for one point, since the transforms of
    opposite points share their work."""
    for special in ((Fraction(0), None), (Fraction(0),), (None,), ()):
        rest = count - len(special)
        if rest < 0 or rest > 2 * len(MAGNITUDES):
            continue
        for chosen in itertools.combinations(MAGNITUDES, rest // 2):
            pairs = tuple(sign * point for point in chosen for sign in (1, -1))
            if rest % 2 == 0:
                yield (*special[:1], *pairs, *special[1:])
                continue
            for single in MAGNITUDES:
                if single not in chosen:
                    yield (*special[:1], *pairs, single, *special[1:])


def _improving(found: Sequence[FilterAlgorithm]) -> Iterator[FilterAlgorithm]:
    """Those that cost less than all before them."""
    least: TransformCost | None = None
    for each in found:
        if least is None or each.cost < least:
            least = each.cost
            yield each


def _powers(points: Sequence[Point], length: int) -> Coefficients:
    """A row for each point: its powers, by which a polynomial of that many coefficients is evaluated."""
    rows = [
        [Fraction(int(power == length - 1)) if point is None else point**power for power in range(length)]
        for point in points
    ]
    return np.array(rows, object)


@cache
def _solved(points: tuple[Point, ...]) -> Coefficients:
    """The data transform [data, multiplications]: the inverse of the matrix of powers, by which products of
    values at the points become the filter's outputs."""
    size = len(points)
    rows = np.concatenate([_powers(points, size), _identity(size)], axis=1)
    for column in range(size):
        pivot = next(row for row in range(column, size) if rows[row, column] != 0)
        rows[[column, pivot]] = rows[[pivot, column]]
        rows[column] = rows[column] / rows[column, column]
        for row in range(size):
            if row != column and rows[row, column] != 0:
                rows[row] = rows[row] - rows[row, column] * rows[column]
    return rows[:, size:]


def _identity(size: int) -> Coefficients:
    return np.array([[Fraction(int(row == column)) for column in range(size)] for row in range(size)], object)


__all__ = ["KEPT", "MAGNITUDES", "MOST_POINTS", "FilterAlgorithm", "Point", "filters", "point_sets"]
