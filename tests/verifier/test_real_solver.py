"""Answers of Z3 on whether real expressions are 0."""

from __future__ import annotations

import pytest
import z3

from superopt.domains.symbolic import SymbolicDomain
from superopt.verifier.refute.real_solver import why_not_zero


@pytest.fixture
def context() -> z3.Context:
    return z3.Context()


def _reals(context: z3.Context, *names: str) -> list[z3.ArithRef]:
    return [z3.Real(name, context) for name in names]


def test_each_expression_must_be_zero(context: z3.Context) -> None:
    x, y = _reals(context, "x", "y")
    assert why_not_zero([x - x, x + y - y - x], [], [], context) == "equal"
    assert why_not_zero([x - x, x - y, x - x], [], [], context) == "not shown equal"
    assert why_not_zero([x - x, x - y], [x == y], [], context) == "equal"


def test_definitions_are_used_where_the_rest_does_not_decide(context: z3.Context) -> None:
    x, y, named = _reals(context, "x", "y", "named")
    definitions = [named == x * y]
    assert why_not_zero([named - x * y], [], definitions, context) == "equal"
    assert why_not_zero([named - x * y], [], [], context) == "not shown equal"
    assert why_not_zero([named - x], [], definitions, context) == "not shown equal"


def test_products_of_many_maxima_are_decided_one_by_one(context: z3.Context) -> None:
    """Together they are not, within the limits: relu(x * y^2) is relu(x) * y^2."""
    domain = SymbolicDomain(context)
    x, y = (domain.variables(name, (24,)) for name in "xy")
    zero = domain.rational(0)
    square = domain.multiply(y, y)
    left = domain.maximum(domain.multiply(x, square), zero)
    right = domain.multiply(domain.maximum(x, zero), square)
    differences = list(domain.subtract(left, right).reshape(-1))
    assert why_not_zero(differences, domain.facts, domain.definitions, context) == "equal"
    wrong = [*differences[:-1], differences[-1] + 1]
    assert why_not_zero(wrong, domain.facts, domain.definitions, context) != "equal"
