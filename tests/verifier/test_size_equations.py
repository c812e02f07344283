"""All solutions between sizes: none is lost, none is wrong, and what is not known is said."""

from __future__ import annotations

import itertools
import random

import pytest

from superopt.ir.dimensions import Dimension, product, substitute, symbol, symbols_of
from superopt.verifier.certificates.size_equations import UndecidedSizesError, numbered, solutions

A, B, C, D, G = map(symbol, "abcdg")
LARGEST = 6

EQUATIONS: dict[str, tuple[Dimension, Dimension]] = {
    "equal": (A, A),
    "two symbols": (A, B),
    "a sum": (A + B, C),
    "a sum and a product": (A + B, G * C),
    "products": (A * B, C * D),
    "a product and a number": (12, G * C),
    "numbers that share a factor": (6 * A, 4 * B * C),
    "numbers that share none": (2 * A, 3 * B),
    "a common factor": (A * B + A, 3 * A),
    "products of 1": (A * B, 1),
    "three factors": (A * B * C, 4 * D),
}
WITHOUT: dict[str, tuple[Dimension, Dimension]] = {
    "a sum that is 0": (A + B, 0),
    "more than itself": (A, A + B),
    "odd and even": (2 * A + 2, 4 * B + 1),
    "no whole number": (2 * A, 5),
    "below 1": (A + 2, 1),
    "another number": (A + 2, A + 3),
}
UNKNOWN: dict[str, tuple[Dimension, Dimension]] = {
    "a square": (A * A, B * C),
    "rounded": ((A - 3) // 2, (B - 3) // 2),
    "nothing alone": (2 * A + 3 * B, 5 * C * D),
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_every_solution_is_an_instance_of_one_that_is_given(name: str) -> None:
    left, right = EQUATIONS[name]
    names = sorted(symbols_of(left) | symbols_of(right))
    found = solutions(left, right, numbered("part "))
    for values in itertools.product(range(1, LARGEST + 1), repeat=len(names)):
        numbers = dict(zip(names, values, strict=True))
        if substitute(left, numbers) == substitute(right, numbers):
            assert any(_covers({n: s.get(n, symbol(n)) for n in names}, numbers) for s in found), numbers


def _covers(sizes: dict[str, Dimension], numbers: dict[str, int]) -> bool:
    """Whether positive integers for the symbols make the sizes these numbers."""
    names = sorted(frozenset[str]().union(*map(symbols_of, sizes.values())))
    return any(
        all(
            substitute(size, dict(zip(names, values, strict=True))) == numbers[n] for n, size in sizes.items()
        )
        for values in itertools.product(range(1, max(numbers.values()) + 1), repeat=len(names))
    )


@pytest.mark.parametrize("name", [*EQUATIONS, *WITHOUT])
def test_what_is_given_are_solutions(name: str) -> None:
    left, right = (EQUATIONS | WITHOUT)[name]
    found = solutions(left, right, numbered("part "))
    assert all(substitute(left, solution) == substitute(right, solution) for solution in found)
    assert bool(found) == (name in EQUATIONS)


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_said(name: str) -> None:
    with pytest.raises(UndecidedSizesError, match="is not known"):
        solutions(*UNKNOWN[name], numbered("part "))


def test_random_products_lose_no_solution() -> None:
    generator = random.Random(3)
    for _ in range(40):
        letters = [symbol(letter) for letter in "abcd"]
        generator.shuffle(letters)
        cut = generator.choice((1, 2, 3))
        left = product([generator.choice((1, 2, 3, 6)), *letters[:cut]])
        right = product([generator.choice((1, 2, 4, 5)), *letters[cut:]])
        found = solutions(left, right, numbered("part "))
        for values in itertools.product(range(1, 5), repeat=4):
            numbers = dict(zip("abcd", values, strict=True))
            if substitute(left, numbers) == substitute(right, numbers):
                assert any(_covers({n: s.get(n, symbol(n)) for n in "abcd"}, numbers) for s in found)
