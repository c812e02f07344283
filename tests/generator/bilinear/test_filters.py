"""Filters by evaluation at points: exact, and as accurate as they say."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from superopt.errors import InvalidOptionError
from superopt.generator.bilinear import (
    BilinearAlgorithm,
    amplification,
    filter_map,
    filters,
    transform_cost,
    worst_amplification,
)
from superopt.generator.bilinear.filters import MOST_POINTS, point_sets


def applied(algorithm: BilinearAlgorithm, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The outputs in the precision of the data; weights are transformed in double precision."""
    left, result = (matrix.astype(data.dtype) for matrix in (algorithm.left, algorithm.result))
    right = (algorithm.right.astype(np.float64) @ weights.astype(np.float64)).astype(data.dtype)
    return result.T @ ((left @ data) * right)


@pytest.mark.parametrize(
    ("outputs", "taps"), [(1, 1), (1, 3), (3, 1), (2, 2), (2, 3), (4, 3), (2, 5), (4, 4)]
)
def test_a_filter_takes_one_multiplication_for_each_point(outputs: int, taps: int) -> None:
    wanted = filter_map(outputs, taps)
    data, weights = np.arange(1.0, outputs + taps), np.arange(2.0, taps + 2)
    for found in filters(outputs, taps):
        assert found.algorithm.multiplications == outputs + taps - 1 == len(set(found.points))
        assert found.algorithm.computes(wanted)
        expected = np.correlate(data, weights)
        np.testing.assert_allclose(applied(found.algorithm, data, weights), expected, rtol=1e-12)


def test_the_textbook_filter_is_found_among_the_best() -> None:
    """F(2,3) at 0, 1, -1 and infinity needs additions only (Winograd 1980)."""
    cheapest = filters(2, 3)[-1]
    assert set(cheapest.points) == {Fraction(0), Fraction(1), Fraction(-1), None}
    assert (cheapest.cost.multiplications, cheapest.cost.shifts) == (0, 0)


def test_a_wrong_coefficient_anywhere_is_noticed() -> None:
    """Every entry of every matrix is changed in turn."""
    found = filters(2, 3)[0].algorithm
    wanted = filter_map(2, 3)
    for place, matrix in enumerate((found.left, found.right, found.result)):
        for index in np.ndindex(*matrix.shape):
            matrices = [found.left.copy(), found.right.copy(), found.result.copy()]
            matrices[place][index] += Fraction(1, 7)
            assert not BilinearAlgorithm(*matrices).computes(wanted)


def test_less_amplification_is_less_error_in_single_precision() -> None:
    generator = np.random.default_rng(0)
    errors: list[tuple[float, float]] = []
    for found in (filters(6, 3)[0], filters(6, 3)[-1], filters(2, 3)[-1]):
        squares = 0.0
        for _ in range(200):
            data = generator.normal(size=found.outputs + 2).astype(np.float32)
            weights = generator.normal(size=3).astype(np.float32)
            exact = np.correlate(data.astype(float), weights.astype(float))
            squares += float(np.square(applied(found.algorithm, data, weights) - exact).mean())
        errors.append((found.amplification, squares))
    assert sorted(errors) == sorted(errors, key=lambda pair: pair[1])


def test_moving_factors_to_the_weights_keeps_map_and_amplification() -> None:
    wanted = filter_map(4, 3)
    whole = filters(4, 3)[0].algorithm
    scaled = BilinearAlgorithm(whole.left * Fraction(3, 5), whole.right * Fraction(5, 3), whole.result)
    assert scaled.computes(wanted)
    assert amplification(scaled, wanted) == pytest.approx(amplification(whole, wanted))
    assert worst_amplification(scaled, wanted) == pytest.approx(worst_amplification(whole, wanted))
    again = scaled.whole()
    assert all(entry.denominator == 1 for entry in again.left.flat)
    assert transform_cost(again) == transform_cost(whole)


def test_sets_of_points_are_distinct_and_symmetric_but_for_one() -> None:
    for count in range(1, 8):
        sets = list(point_sets(count))
        assert len({frozenset(points) for points in sets}) == len(sets)
        for points in sets:
            assert len(set(points)) == count
            finite = {point for point in points if point}
            assert sum(-point not in finite for point in finite) <= 1


@pytest.mark.parametrize(("outputs", "taps"), [(0, 3), (3, 0), (MOST_POINTS, 2)])
def test_filters_without_points_are_refused(outputs: int, taps: int) -> None:
    with pytest.raises(InvalidOptionError, match="expected"):
        filters(outputs, taps)
