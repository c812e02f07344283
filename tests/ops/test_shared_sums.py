"""Sums with common parts are computed once, and are the sums that the matrix says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from superopt.ops.bilinear.filter_algorithms import Matrix
from superopt.ops.bilinear.product_algorithms import DOT, STRASSEN
from superopt.ops.bilinear.product_schedule import ProductSchedule
from superopt.ops.bilinear.shared_sums import SharedSums, shared_sums

CASES: dict[str, tuple[Matrix, int]] = {
    "no sum": (((0, 1), (-2, 0)), 0),
    "nothing": (((0, 0), (1, 0)), 0),
    "one sum": (((1, 1, 1),), 2),
    "a common part": (((1, 1, 1, 0), (1, 1, 0, 1)), 3),
    "a common part with another sign": (((1, -1, 1), (-1, 1, 1)), 3),
    "a common part with another factor": (((1, 2, 1), (Fraction(1, 2), 1, 0)), 2),
    "twice the same": (((1, 1), (3, 3)), 1),
    "Winograd's four": (
        (
            (1, 0, 0, 0),
            (0, 1, 0, 0),
            (1, 1, -1, -1),
            (0, 0, 0, 1),
            (0, 0, 1, 1),
            (-1, 0, 1, 1),
            (1, 0, -1, 0),
        ),
        4,
    ),
}


def rows(program: SharedSums) -> list[list[Fraction]]:
    """The matrix that a program applies."""
    values = [[Fraction(int(i == j)) for j in range(program.operands)] for i in range(program.operands)]
    for one, other in program.sums:
        pairs = zip(values[one.term], values[other.term], strict=True)
        values.append([one.factor * a + other.factor * b for a, b in pairs])
    zero = [Fraction(0)] * program.operands
    return [zero if r is None else [r.factor * entry for entry in values[r.term]] for r in program.results]


@pytest.mark.parametrize(("matrix", "count"), CASES.values(), ids=CASES)
def test_common_parts_are_computed_once(matrix: Matrix, count: int) -> None:
    program = shared_sums(matrix)
    assert len(program.sums) == count
    assert rows(program) == rows(program.settled()) == [list(row) for row in matrix]


@pytest.mark.parametrize("seed", range(20))
def test_any_matrix_is_applied(seed: int) -> None:
    matrix = np.random.default_rng(seed).integers(-2, 3, (5, 6)).tolist()
    program = shared_sums(tuple(map(tuple, matrix)))
    assert rows(program) == rows(program.settled()) == matrix


def test_factors_of_results_are_moved_into_their_sums() -> None:
    program = shared_sums(((-1, -1, 0), (0, 0, -1)))
    assert [result.factor for result in program.results if result] == [-1, -1]
    assert [result.factor for result in program.settled().results if result] == [1, -1]


def test_a_product_that_one_sum_contains_is_computed_where_it_is_added() -> None:
    schedule = ProductSchedule.of(STRASSEN)
    contained = [schedule.products.uses(product) for product in range(7)]
    assert all(contained[product] == 1 for product in schedule.added.values())
    assert sorted((*schedule.added.values(), *schedule.alone)) == list(range(7))
    assert schedule.additions == 5 + 8


def test_a_bias_reaches_each_block_of_the_result_once() -> None:
    for algorithm in (STRASSEN, DOT):
        schedule = ProductSchedule.of(algorithm)
        factors = schedule.bias
        assert factors is not None
        reached = np.array(schedule.scaled, float)[list(schedule.alone)].T @ factors
        blocks = len(schedule.result[0]) // schedule.columns
        np.testing.assert_allclose(reached, np.tile(np.eye(schedule.columns), (blocks, 1)), atol=1e-9)
