"""Argument tuples by the number of operators they need together, against counting sets one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from superopt.generator.enumerate.joins import Tuples, common, distinct_rows, tuples_of_size, union

PARTS: tuple[tuple[int, ...], ...] = ((), (2,), (3,), (4, 2), (5, 3), (6, 3, 2), (7, 4, 2))


def _tuples(chosen: tuple[tuple[int, ...], ...], first: int) -> Tuples:
    parts = np.array([(*p, *(-1,) * (4 - len(p))) for p in chosen], np.int32)
    indices = np.arange(first, first + len(chosen), dtype=np.int32)[:, None]
    return Tuples(indices, parts, np.array([len(p) for p in chosen], np.int8))


@pytest.mark.parametrize("arity", [1, 2, 3])
@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_all_tuples_of_a_size_are_found_once(arity: int, size: int) -> None:
    places = [_tuples(PARTS, 10 * place) for place in range(arity)]
    found = [tuple(row) for block in tuples_of_size(places, size) for row in block.tolist()]
    expected = [
        tuple(10 * place + index for place, index in enumerate(choice))
        for choice in itertools.product(range(len(PARTS)), repeat=arity)
        if len(set().union(*(PARTS[index] for index in choice))) == size
    ]
    assert sorted(found) == sorted(expected)


def test_unions_are_sets_with_the_newest_part_first() -> None:
    left = np.array([[5, 2, -1, -1], [-1, -1, -1, -1]], np.int32)
    right = np.array([[4, 2, -1, -1], [3, -1, -1, -1]], np.int32)
    assert union(left, right).tolist() == [[5, 4, 2, -1], [3, -1, -1, -1]]
    assert common(left, right).tolist() == [1, 0]


@pytest.mark.parametrize("largest", [3, 2**31 - 1])
def test_distinct_rows_are_told_apart_whatever_their_size(largest: int) -> None:
    rows = np.array([[1, -1, 2], [largest, 0, 2], [1, -1, 2], [0, largest, 2]], np.int32)
    distinct, inverse = distinct_rows(rows)
    assert len(distinct) == 3
    assert (distinct[inverse] == rows).all()
