"""Where a split may cut is read off type inference: axes keep what was joined along them."""

from __future__ import annotations

import pytest

from superopt.generator.enumerate.split_trees import SplitTree, axis_flows, carried, merged, size_of
from superopt.ops import Operator, operator_from_attributes

CASES: dict[str, tuple[Operator, list[tuple[SplitTree, ...]], tuple[SplitTree, ...]]] = {
    "concat joins": (operator_from_attributes("concat", {"axis": -1}), [(2, 3), (2, 4)], (2, (3, 4))),
    "matmul keeps rows and columns": (
        operator_from_attributes("matmul", {}),
        [((1, 1), (2, 1)), ((2, 1), (3, 3))],
        ((1, 1), (3, 3)),
    ),
    "transpose swaps": (operator_from_attributes("transpose", {}), [((1, 2), 4)], (4, (1, 2))),
    "a sum takes what one side knows": (
        operator_from_attributes("add", {}),
        [(3, (2, 2)), ((1, 2), 4)],
        ((1, 2), (2, 2)),
    ),
    "conv with padding same keeps samples, outputs and positions": (
        operator_from_attributes("conv", {"padding": "same"}),
        [((1, 1), 2, 4, (3, 2)), ((2, 3), (1, 1), 3, 3)],
        ((1, 1), (2, 3), 4, (3, 2)),
    ),
}


@pytest.mark.parametrize(("operator", "inputs", "expected"), CASES.values(), ids=CASES)
def test_axes_are_carried(
    operator: Operator, inputs: list[tuple[SplitTree, ...]], expected: tuple[SplitTree, ...]
) -> None:
    shapes = [tuple(size_of(tree) for tree in trees) for trees in inputs]
    shape = tuple(size_of(tree) for tree in expected)
    assert carried(axis_flows(operator, shapes), shape, inputs) == expected


def test_the_left_side_decides_where_two_cuts_disagree() -> None:
    assert merged((1, 3), (2, 2)) == (1, 3)
    assert merged((2, (1, 1)), ((1, 1), 2)) == ((1, 1), (1, 1))
