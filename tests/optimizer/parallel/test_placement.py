"""Placements that follow from a machine mapping."""

from __future__ import annotations

import pytest

from superopt.ir.plan import Parallelism
from superopt.ops.sharded.splits import SplitKind, Splits, TaskDimension
from superopt.optimizer.parallel.placement import Placement, needed, produced

MATMUL = Splits(
    (
        TaskDimension(8, SplitKind.SAMPLE),
        TaskDimension(6, SplitKind.PARAMETER),
        TaskDimension(4, SplitKind.REDUCTION),
    ),
    inputs=((0, 2), (2, 1)),
    outputs=((0, 1),),
)


@pytest.mark.parametrize(
    ("how", "left", "right", "product"),
    [
        (
            Parallelism((2, 1, 1), (0, 1)),
            Placement((2, 1), (0, 1)),
            Placement((1, 1), (0, 1), copies=2),
            Placement((2, 1), (0, 1)),
        ),
        (
            Parallelism((1, 2, 1), (4, 5)),
            Placement((1, 1), (4, 5), copies=2),
            Placement((1, 2), (4, 5)),
            Placement((1, 2), (4, 5)),
        ),
        (
            Parallelism((1, 1, 2), (0, 1)),
            Placement((1, 2), (0, 1)),
            Placement((2, 1), (0, 1)),
            Placement((1, 1), (0, 1), partial=2),
        ),
        (
            Parallelism((2, 1, 2), (0, 1, 2, 3), copies=1),
            Placement((2, 2), (0, 1, 2, 3)),
            Placement((2, 1), (0, 2, 1, 3), copies=2),
            Placement((2, 1), (0, 1, 2, 3), partial=2),
        ),
        (
            Parallelism((1, 1, 1), (0, 1), copies=2),
            Placement((1, 1), (0, 1), copies=2),
            Placement((1, 1), (0, 1), copies=2),
            Placement((1, 1), (0, 1), copies=2),
        ),
    ],
)
def test_a_matrix_product_divided(
    how: Parallelism, left: Placement, right: Placement, product: Placement
) -> None:
    assert (needed(MATMUL, how, 0), needed(MATMUL, how, 1), produced(MATMUL, how, 0)) == (
        left,
        right,
        product,
    )


def test_the_copies_of_a_part_are_found_by_its_index() -> None:
    how = Parallelism((2, 1, 2), (0, 1, 2, 3))
    assert dict(needed(MATMUL, how, 1).holders()) == {(0, 0): ((0, 2),), (1, 0): ((1, 3),)}
    assert dict(produced(MATMUL, how, 0).holders()) == {(0, 0): ((0,), (1,)), (1, 0): ((2,), (3,))}


def test_a_device_runs_one_task_of_an_operator() -> None:
    with pytest.raises(ValueError, match="2 distinct devices"):
        Parallelism((2,), (1, 1))
