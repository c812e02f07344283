"""Choosing by dynamic programming finds what trying everything finds."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from superopt.optimizer.parallel.search.elimination import Problem, cuts, solve
from superopt.optimizer.parallel.search.pipeline import cut_into
from superopt.optimizer.parallel.search.tables import Tables

SERIES_PARALLEL = {
    "chain": (5, [(0, 1), (1, 2), (2, 3), (3, 4)]),
    "residual": (6, [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (4, 5), (3, 5)]),
    "branches": (6, [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4), (4, 5)]),
    "several sources": (5, [(0, 2), (1, 2), (2, 3), (2, 4)]),
    "twice between two": (3, [(0, 1), (0, 1), (1, 2)]),
    "apart": (4, [(0, 1), (2, 3)]),
}


def _problem(count: int, edges: list[tuple[int, int]], seed: int, tables: Tables) -> Problem:
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 4, count)
    own = [tables.table(draw.integers(0, 20, size).astype(float)) for size in sizes]
    between = {
        (a, b): tables.table(draw.integers(0, 20, (sizes[a], sizes[b])).astype(float)) for a, b in edges
    }
    return Problem(own, between)


@pytest.mark.parametrize("name", SERIES_PARALLEL)
@pytest.mark.parametrize("seed", range(5))
def test_series_parallel_graphs_are_solved_exactly(name: str, seed: int) -> None:
    tables = Tables()
    problem = _problem(*SERIES_PARALLEL[name], seed, tables)
    everything = itertools.product(*(range(len(table.costs)) for table in problem.own))
    assert problem.total(solve(problem, tables)) == min(problem.total(chosen) for chosen in everything)


def test_other_graphs_get_a_choice_for_every_node() -> None:
    draw = random.Random(1)
    tables = Tables()
    edges = sorted({(a, b) for a in range(9) for b in range(a + 1, 9) if draw.random() < 0.6})
    problem = _problem(9, edges, 7, tables)
    found = problem.total(solve(problem, tables))
    everything = itertools.product(*(range(len(table.costs)) for table in problem.own))
    assert found <= 1.3 * min(problem.total(chosen) for chosen in everything)


def test_equal_blocks_are_solved_once() -> None:
    tables = Tables()
    block = [(0, 1), (1, 2), (0, 2)]
    own = [tables.table(np.arange(4.0)) for _ in range(41)]
    table = tables.table(np.arange(16.0).reshape(4, 4))
    problem = Problem(own, {(a + 2 * n, b + 2 * n): table for n in range(20) for a, b in block})
    solve(problem, tables)
    assert (tables.products, tables.repeated) == (1, 19)


def test_a_cut_is_on_every_path() -> None:
    assert cuts(*SERIES_PARALLEL["residual"]) == [0, 3, 5]


@pytest.mark.parametrize(
    ("costs", "crossing", "stages", "expected"),
    [
        ([1, 1, 1, 1], [0, 1, 1, 1], 2, [0, 0, 1, 1]),
        ([5, 1, 1, 1], [0, 1, 1, 1], 2, [0, 1, 1, 1]),
        ([1, 1, 1, 1], [0, 1, 2, 1], 2, [0, 1, 1, 1]),
        ([1, 1], [0, 1], 3, None),
    ],
)
def test_stages_are_cut_where_one_tensor_crosses_and_the_slowest_is_fastest(
    costs: list[float], crossing: list[int], stages: int, expected: list[int] | None
) -> None:
    assert cut_into(costs, crossing, stages) == expected
