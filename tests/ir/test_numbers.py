"""Arithmetic on numbers of equations: canonical forms are exact, are read as they are printed, and know divisors."""

# ruff: noqa: E501

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.equations import parse_number
from superopt.errors import IllTypedError
from superopt.ir.numbers import (
    MOST_TERMS,
    AttributeVariable,
    Number,
    NumberExpression,
    divisors,
    larger,
    minus,
    names_of,
    number_text,
    over,
    parts_of,
    plus,
    smaller,
    substituted_number,
    times,
)

NAMES = ("a", "b", "c")
VALUES = tuple(Fraction(p, q) for p in (-7, -2, -1, 0, 1, 3) for q in (1, 2, 3))
EXACT: Mapping[str, tuple[Callable[[Number, Number], Number], Callable[[Fraction, Fraction], Fraction]]] = {
    "+": (plus, lambda a, b: a + b),
    "-": (minus, lambda a, b: a - b),
    "*": (times, lambda a, b: a * b),
    "/": (over, lambda a, b: a / b),
    "min": (smaller, min),
    "max": (larger, max),
}
Tree = str | Fraction | tuple[str, "Tree", "Tree"]
leaves: st.SearchStrategy[Tree] = st.sampled_from(NAMES) | st.fractions(-3, 3, max_denominator=4)
trees: st.SearchStrategy[Tree] = st.recursive(
    leaves, lambda inner: st.tuples(st.sampled_from(sorted(EXACT)), inner, inner), max_leaves=7
)


def calculated(tree: Tree) -> Number:
    """The number of a tree by the module under test."""
    match tree:
        case str():
            return AttributeVariable(tree)
        case Fraction():
            return int(tree) if tree.denominator == 1 else tree
        case (function, one, other):
            return EXACT[function][0](calculated(one), calculated(other))


def exact(tree: Tree, values: Mapping[str, Fraction]) -> Fraction:
    """The number of a tree by fractions; raises ZeroDivisionError."""
    match tree:
        case str():
            return values[tree]
        case Fraction():
            return tree
        case (function, one, other):
            return EXACT[function][1](exact(one, values), exact(other, values))


def draws(count: int) -> list[dict[str, Fraction]]:
    draw = random.Random(1)
    return [{name: draw.choice(VALUES) for name in NAMES} for _ in range(count)]


@settings(max_examples=150, deadline=None)
@given(trees)
def test_a_canonical_form_has_the_value_of_its_expression(tree: Tree) -> None:
    try:
        number = calculated(tree)
    except IllTypedError:
        return
    for values in draws(12):
        try:
            expected = exact(tree, values)
        except ZeroDivisionError:
            continue
        assert substituted_number(number, values) == expected


@settings(max_examples=150, deadline=None)
@given(trees)
def test_numbers_are_read_and_unpickled_as_they_were(tree: Tree) -> None:
    try:
        number = calculated(tree)
    except IllTypedError:
        return
    assert parse_number(number_text(number)) == number
    assert pickle.loads(pickle.dumps(number)) == number
    assert hash(pickle.loads(pickle.dumps(number))) == hash(number)


@settings(max_examples=100, deadline=None)
@given(trees)
def test_a_number_has_a_value_wherever_its_divisors_are_not_zero(tree: Tree) -> None:
    try:
        number = calculated(tree)
    except IllTypedError:
        return
    for values in draws(12):
        try:
            zero = any(substituted_number(each, values) == 0 for each in divisors(number))
        except IllTypedError:
            zero = True
        if zero:
            with pytest.raises(IllTypedError, match="divides by 0"):
                substituted_number(number, values)
        else:
            assert isinstance(substituted_number(number, values), int | Fraction)


@settings(max_examples=100, deadline=None)
@given(trees, trees, trees)
def test_the_laws_of_a_commutative_ring_hold_between_forms(one: Tree, other: Tree, third: Tree) -> None:
    try:
        a, b, c = calculated(one), calculated(other), calculated(third)
        pairs = [
            (plus(a, b), plus(b, a)),
            (times(a, b), times(b, a)),
            (plus(plus(a, b), c), plus(a, plus(b, c))),
            (times(a, plus(b, c)), plus(times(a, b), times(a, c))),
            (minus(a, a), 0),
            (times(a, 1), a),
            (smaller(a, b), smaller(b, a)),
            (larger(a, b), larger(b, a)),
        ]
    except IllTypedError:
        return
    assert all(left == right and hash(left) == hash(right) for left, right in pairs)


PRINTED = {
    "b*a + a": "a*b + a",
    "a + a": "2*a",
    "a - a": "0",
    "c*(1/c)": "1",
    "(a + b)*(a - b)": "a*a - b*b",
    "a/2 - b/3": "a/2 - b/3",
    "-a*b": "-a*b",
    "2/(4*a)": "1/a/2",
    "1/(2*a + 2*b)": "1/(a + b)/2",
    "-3/(a + b)": "-3/(a + b)",
    "a/(b*c)": "a/b/c",
    "1/(1/a)": "a",
    "1/(1/(a + b))": "1/(1/(a + b))",
    "1/min(a, b)": "1/(min(a, b))",
    "max(b, a) + min(2, a)": "max(a, b) + min(2, a)",
    "min(a, a)": "a",
    "min(1/2, 1/3)": "1/3",
    "a*0 + 3": "3",
    "1.5*a": "3*a/2",
    "a-1": "a - 1",
    "a - -1": "a + 1",
    "--a": "a",
    "((a))": "a",
}


@pytest.mark.parametrize("text", PRINTED)
def test_a_form_is_printed_in_one_way(text: str) -> None:
    assert number_text(parse_number(text)) == PRINTED[text]


def test_sums_with_the_same_value_but_other_unknowns_are_different_forms() -> None:
    for one, other in [
        ("min(a, b) + max(a, b)", "a + b"),
        ("(a + b)*(1/(a + b))", "1"),
        ("max(a, -a)*max(a, -a)", "a*a"),
        ("min(a, b)", "max(a, b)"),
        ("a/b", "b/a"),
        ("a*a", "2*a"),
    ]:
        assert parse_number(one) != parse_number(other)


DIVISORS = {
    "a": set[str](),
    "a*b + 1": set[str](),
    "1/a": {"a"},
    "a/(b*c)": {"b", "c"},
    "1/(a + b)": {"a + b"},
    "1/(2*a + 2*b)": {"a + b"},
    "min(1/a, b)": {"a"},
    "1/(1/a + b)": {"1/a + b", "a"},
    "1/max(a, 1/(b - c))": {"max(1/(b - c), a)", "b - c"},
    "a/a": set[str](),
    "a/b - a/b": set[str](),
}


@pytest.mark.parametrize("text", DIVISORS)
def test_divisors_are_what_must_not_be_zero(text: str) -> None:
    assert {number_text(each) for each in divisors(parse_number(text))} == DIVISORS[text]


@pytest.mark.parametrize(
    "text", ["1/a", "1/(a - b)", "b/(a*a)", "min(1/a, 2)", "1/min(a, b)", "1/(1/(a - b))"]
)
def test_a_value_that_divides_by_zero_is_refused(text: str) -> None:
    with pytest.raises(IllTypedError, match="a number divides by 0"):
        substituted_number(parse_number(text), {"a": 0, "b": 0})


def test_only_numbers_are_calculated_with() -> None:
    for value in ("relu", (1, 2), 0.5, None):
        with pytest.raises(IllTypedError, match="expected a number"):
            substituted_number(parse_number("a + 1"), {"a": value})
    assert substituted_number("relu", {"relu": 1}) == "relu"
    assert substituted_number((1, 2), {}) == (1, 2)
    assert substituted_number(AttributeVariable("k"), {"k": (1, 2)}) == (1, 2)


def test_variables_are_replaced_all_at_once() -> None:
    exchanged = substituted_number(
        parse_number("a - 2*b"), {"a": AttributeVariable("b"), "b": AttributeVariable("a")}
    )
    assert exchanged == parse_number("b - 2*a")
    assert substituted_number(parse_number("a/b + c"), {"b": parse_number("1/a")}) == parse_number("a*a + c")


def test_names_are_those_of_all_variables_also_in_calls() -> None:
    assert names_of(parse_number("min(a, 1/(b + 1))*c")) == {"a", "b", "c"}
    assert names_of(parse_number("a - a")) == frozenset()
    assert names_of("relu") == frozenset()


def test_parts_are_the_numbers_on_the_way() -> None:
    parts = {number_text(part) for part in parts_of(parse_number("a*c + b"))}
    assert parts == {"0", "1", "a", "c", "a*c", "b", "a*c + b"}
    assert "b + c" in {number_text(part) for part in parts_of(parse_number("a*min(b + c, 2)"))}
    assert list(parts_of(3)) == [3]
    assert list(parts_of("relu")) == []


@settings(max_examples=100, deadline=None)
@given(trees)
def test_the_last_part_is_the_number(tree: Tree) -> None:
    try:
        number = calculated(tree)
    except IllTypedError:
        return
    if isinstance(number, NumberExpression) and len(number.terms) < len(NAMES):
        assert list(parts_of(number))[-1] == number


def test_long_sums_are_refused() -> None:
    def total(count: int) -> str:
        return " + ".join(f"x{index}" for index in range(count))

    kept = parse_number(total(60))
    assert isinstance(kept, NumberExpression)
    assert len(kept.terms) == 60
    variables = [AttributeVariable(f"x{index}") for index in range(MOST_TERMS + 1)]
    with pytest.raises(IllTypedError, match=f"more than {MOST_TERMS} terms"):
        reduce(plus, variables, 0)
    with pytest.raises(IllTypedError, match=f"more than {MOST_TERMS} terms"):
        times(parse_number(total(9)), parse_number(total(9).replace("x", "y")))
