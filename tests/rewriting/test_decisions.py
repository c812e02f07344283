"""What is decided of a clause for sizes that are symbols is true of all sizes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from superopt.equations import parse_equation
from superopt.errors import InvalidEquationError
from superopt.ir.dimensions import Dimension, substitute, symbol
from superopt.ir.terms import Condition
from superopt.ir.types import ElementType, TensorType
from superopt.rewriting.conditions import Decision, decide, holds

RANKS = (1, 2, 3, 4)
SIZES = (1, 2, 3, 4, 5, 6)
SIDES = (
    *(
        "dim(x, 0)",
        "dim(x, -1)",
        "dim(x, 2)",
        "dim(y, 0)",
        "rank(x)",
        "rank(y)",
        "channels(x)",
        "groups(x, y)",
    ),
    *(
        "outputs_per_group(x, y)",
        "leading(x)",
        "shape(x)",
        "shape(y)",
        "product(dim(x, 0), dim(y, 0))",
        "x",
        "y",
    ),
    *("odd(dim(x, 0))", "even(dim(y, 0))", "odd(3)", "axis(x, -1)", "0", "1", "2", "1/2", "(1, 2)"),
)
RELATIONS = ("=", "!=", "<", "<=", ">", ">=")


def clause(text: str) -> Condition:
    (condition,) = parse_equation(f"add(x, y) => add(y, x) where {text}").conditions
    return condition


def sized(types: Mapping[str, TensorType], sizes: Mapping[str, Dimension]) -> dict[str, TensorType]:
    return {
        name: type_.with_shape(tuple(substitute(size, sizes) for size in type_.shape))
        for name, type_ in types.items()
    }


@pytest.mark.parametrize("relation", RELATIONS)
def test_what_is_decided_for_symbols_is_so_for_all_sizes(relation: str) -> None:
    """A comparison that is decided holds for all sizes or for none; two sizes are equal wherever it holds."""
    for left, right in itertools.product(SIDES, SIDES[:9] + SIDES[-5:] + SIDES[9:16:2]):
        try:
            condition = clause(f"{left} {relation} {right}")
        except InvalidEquationError:  # not every pair can be written
            continue
        for ranks in ((1, 1), (2, 2), (3, 2), (4, 4)):
            _check(condition, ranks)


def _check(condition: Condition, ranks: tuple[int, int]) -> None:
    shapes = [
        tuple(symbol(f"{name}.{axis}") for axis in range(rank))
        for name, rank in zip("xy", ranks, strict=True)
    ]
    types = {name: TensorType(ElementType.FLOAT, shape) for name, shape in zip("xy", shapes, strict=True)}
    decision = decide(condition, types, {})
    assert not holds(condition, types, {}) or decision is Decision.HOLDS
    if decision is Decision.OPEN:
        return
    names = [str(size) for shape in shapes for size in shape]
    for seed in range(40):
        sizes: dict[str, Dimension] = {
            name: SIZES[(seed * (3 + 2 * place) + seed // (place + 2)) % len(SIZES)]
            for place, name in enumerate(names)
        }
        is_met = holds(condition, sized(types, sizes), {})
        if isinstance(decision, tuple):
            one, other = (substitute(size, sizes) for size in decision)
            assert not is_met or one == other, (condition, sizes)
        else:
            assert is_met == (decision is Decision.HOLDS), (condition, sizes, decision)


def test_two_sizes_that_may_be_odd_are_not_known_to_be_so_together() -> None:
    types = {name: TensorType(ElementType.FLOAT, (symbol(f"{name}.0"),)) for name in "xy"}
    for relation in ("=", "<=", ">="):
        assert not holds(clause(f"odd(dim(x, 0)) {relation} odd(dim(y, 0))"), types, {})
    assert holds(clause("odd(3) = odd(5)"), types, {})
