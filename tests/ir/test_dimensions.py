"""Dimension algebra: whatever the canonical form, it has the value that integers give."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.ir.dimensions import (
    Dimension,
    as_symbol,
    floor_divide,
    product,
    solve,
    substitute,
    sum_of,
    symbol,
    symbols_of,
)

NAMES = ("a", "b", "n")
Meaning = Callable[[dict[str, int]], int]
Pair = tuple[Dimension, Meaning]

a, b, n = (symbol(name) for name in NAMES)


def leaf_of_name(name: str) -> Pair:
    return symbol(name), lambda sizes: sizes[name]


def leaf_of_number(number: int) -> Pair:
    return number, lambda _: number


def combined(operator: str, left: Pair, right: Pair) -> Pair:
    (x, f), (y, g) = left, right
    match operator:
        case "+":
            return x + y, lambda sizes: f(sizes) + g(sizes)
        case "-":
            return x - y, lambda sizes: f(sizes) - g(sizes)
        case _:
            return x * y, lambda sizes: f(sizes) * g(sizes)


def divided(left: Pair, divisor: int) -> Pair:
    x, f = left
    return floor_divide(x, divisor), lambda sizes: f(sizes) // divisor


pairs: st.SearchStrategy[Pair] = st.recursive(
    st.sampled_from(NAMES).map(leaf_of_name) | st.integers(-9, 9).map(leaf_of_number),
    lambda children: (
        st.builds(combined, st.sampled_from("+-*"), children, children)
        | st.builds(divided, children, st.sampled_from((1, 2, 3, 4, 6, -1, -2, -3)))
    ),
    max_leaves=8,
)
assignments = st.fixed_dictionaries({name: st.integers(1, 30) for name in NAMES})


@given(pairs, assignments)
@settings(deadline=None, max_examples=400)
def test_an_expression_has_the_value_of_its_integers(pair: Pair, sizes: dict[str, int]) -> None:
    dimension, meaning = pair
    assert substitute(dimension, sizes) == meaning(sizes)


@given(pairs, pairs, pairs)
@settings(deadline=None)
def test_equal_polynomials_have_one_form(x: Pair, y: Pair, z: Pair) -> None:
    left = (x[0] + y[0]) * z[0]
    right = z[0] * y[0] + x[0] * z[0]
    assert left == right
    assert str(left) == str(right)
    assert hash(left) == hash(right)
    assert left - right == 0


@given(pairs, pairs, assignments)
@settings(deadline=None, max_examples=300)
def test_a_solution_solves(left: Pair, right: Pair, sizes: dict[str, int]) -> None:
    solution = solve(left[0], right[0])
    if not solution:
        assert solution is None or left[0] == right[0]
        return
    ((name, value),) = solution.items()
    assert name not in symbols_of(value)
    solved = substitute(value, sizes)
    assert isinstance(solved, int)
    known = {**sizes, name: solved}
    assert left[1](known) == right[1](known)


@pytest.mark.parametrize(
    ("left", "right", "fixed", "expected"),
    [
        (3, 3, "", "{}"),
        (3, 4, "", "None"),
        (a, 3, "", "a = 3"),
        (a + 1, b, "b", "a = b - 1"),
        (a, b, "ab", "None"),
        (2 * a, 2 * b + 4, "a", "b = a - 2"),
        (2 * a, 5, "", "None"),
        (a * b, a * n, "", "n = b"),
        (a * b, 6, "", "None"),
        (a + 3, 1, "", "None"),
        (a, a + 1, "", "None"),
        (floor_divide(a, 2) + b, n, "an", "b = -floor((a) / (2)) + n"),
        (floor_divide(a, 2), a, "", "None"),
    ],
)
def test_solving(left: Dimension, right: Dimension, fixed: str, expected: str) -> None:
    solution = solve(left, right, frozenset(fixed))
    if solution is None:
        text = "None"
    else:
        text = ", ".join(f"{name} = {value}" for name, value in solution.items()) or "{}"
    assert text == expected


@pytest.mark.parametrize(
    ("dimension", "text"),
    [
        (a * 2 + b - 3, "2*a + b - 3"),
        (-a, "-a"),
        (a * a - b, "a*a - b"),
        (floor_divide(2 * a, 4), "floor((a) / (2))"),
        (floor_divide(2 * a + 3, 4), "floor((a + 1) / (2))"),
        (floor_divide(3 * a, 2), "a + floor((a) / (2))"),
        (floor_divide(floor_divide(a - 1, 2), 2), "floor((a + 3) / (4)) - 1"),
        (floor_divide(a, -2), "floor((-a) / (2))"),
        (floor_divide(a * b, b), "a"),
        (floor_divide(0, a), "0"),
        (floor_divide(6, a), "floor((6) / (a))"),
        (floor_divide(a + b, a + b), "1"),
        (floor_divide(2 * a * b + 4 * a, 2 * a), "b + 2"),
    ],
)
def test_how_dimensions_are_written(dimension: Dimension, text: str) -> None:
    assert str(dimension) == text


def test_the_order_of_terms_does_not_depend_on_how_they_came() -> None:
    odd_name = symbol("floor((a) / (2))")
    division = floor_divide(a, 2)
    assert odd_name + division == division + odd_name
    assert odd_name != division


def test_small_questions() -> None:
    assert as_symbol(a) == "a"
    assert as_symbol(a + 1) is None
    assert as_symbol(3) is None
    assert product((a, 2, 3)) == 6 * a
    assert sum_of((a, 2, a)) == 2 * a + 2
    assert symbols_of(floor_divide(a, 2) * b) == {"a", "b"}
    with pytest.raises(ZeroDivisionError):
        floor_divide(a, 0)
