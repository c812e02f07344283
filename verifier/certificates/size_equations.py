"""Complete solution sets of equations between sizes over the positive integers.

A checker that covers all sizes must not lose a solution. ``dimensions.solve`` is not sufficient: it returns
at most one most general solution, and its None does not mean that there is none. Here every assignment of
positive integers that makes the sides equal is an instance of one of the solutions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import gcd, isqrt
from typing import TypeAlias

from superopt.errors import UnsupportedError
from superopt.ir.dimensions import (
    Dimension,
    Monomial,
    Symbol,
    SymbolicDimension,
    product,
    symbol,
)

Solution: TypeAlias = "Mapping[str, Dimension]"
Fresh: TypeAlias = "Callable[[], Dimension]"

_MOST_FACTORS = 4


class UndecidedSizesError(UnsupportedError):
    """The solutions of an equation between sizes may be incomplete."""

    def __init__(self, left: Dimension, right: Dimension) -> None:
        super().__init__(f"for which sizes {left} = {right} is not known")
        self.left = left
        self.right = right


def solutions(
    left: Dimension, right: Dimension, fresh: Fresh, preferred: Callable[[str], bool] = lambda _: False
) -> Sequence[Solution]:
    """Return substitutions that together give all positive integers for which the sides are equal.

    The result is empty if there are no such numbers, and has one empty substitution if the sides are always
    equal. Symbols for which ``preferred`` holds are solved for first. Raises UndecidedSizesError.
    """
    difference = left - right
    if isinstance(difference, int):
        return ({},) if difference == 0 else ()
    difference = _reduced(difference)
    signs = {coefficient > 0 for _, coefficient in difference.terms}
    if len(signs) == 1 and _is_polynomial(difference):
        return ()
    if difference.terms[-1][0] == () and _never_zero(difference):
        return ()
    linear = _linear(difference, preferred)
    if linear is not None:
        return linear
    if len(difference.terms) == 2 and len(signs) == 2:
        found = _equal_products(difference, fresh)
        if found is not None:
            return found
    raise UndecidedSizesError(left, right)


def _reduced(difference: SymbolicDimension) -> SymbolicDimension:
    """Divide by the common number and common symbols of all terms, which are not 0."""
    number = 0
    for _, coefficient in difference.terms:
        number = gcd(number, coefficient)
    shared = list(difference.terms[0][0])
    for monomial, _ in difference.terms[1:]:
        rest = list(monomial)
        kept: list[Symbol] = []
        for atom in shared:
            if isinstance(atom, Symbol) and atom in rest:
                rest.remove(atom)
                kept.append(atom)
        shared = kept
    total: Dimension = 0
    for monomial, coefficient in difference.terms:
        rest = list(monomial)
        for atom in shared if len(difference.terms) > 1 else ():
            rest.remove(atom)
        total = (
            total + SymbolicDimension(((tuple(rest), coefficient // number),))
            if rest
            else (total + coefficient // number)
        )
    return difference if isinstance(total, int) else total


def _is_polynomial(difference: SymbolicDimension) -> bool:
    """Whether there is no floor division, the sign of which would be unknown."""
    return all(isinstance(atom, Symbol) for monomial, _ in difference.terms for atom in monomial)


def _never_zero(difference: SymbolicDimension) -> bool:
    """Whether a number divides all terms except the constant one."""
    common = 0
    for monomial, coefficient in difference.terms:
        common = gcd(common, coefficient) if monomial else common
    return common > 1 and difference.terms[-1][1] % common != 0


def _linear(difference: SymbolicDimension, preferred: Callable[[str], bool]) -> Sequence[Solution] | None:
    """Solve for a symbol that occurs once, with coefficient 1 or -1; None if there is no such symbol."""
    candidates = [
        (monomial[0].name, coefficient)
        for monomial, coefficient in difference.terms
        if len(monomial) == 1 and isinstance(monomial[0], Symbol) and abs(coefficient) == 1
    ]
    for name, coefficient in sorted(candidates, key=lambda each: not preferred(each[0])):
        rest = difference - coefficient * symbol(name)
        if isinstance(rest, SymbolicDimension) and name in rest.symbols:
            continue
        value = -coefficient * rest
        if isinstance(value, int):
            return ({name: value},) if value > 0 else ()
        never = _is_polynomial(value) and all(number < 0 for _, number in value.terms)
        return () if never else ({name: value},)
    return None


def _equal_products(difference: SymbolicDimension, fresh: Fresh) -> Sequence[Solution] | None:
    """Return the solutions of ``a * x * y = b * z * w``; None for equations of another form.

    Every factor of one side is a product with one part for each factor of the other side; numbers are
    distributed among the symbols in every way.
    """
    (first, one), (second, other) = difference.terms
    rows, columns = _symbols(first), _symbols(second)
    if rows is None or columns is None or max(len(rows), len(columns)) > _MOST_FACTORS:
        return None
    if len({*rows, *columns}) != len(rows) + len(columns):
        return None
    found: list[Solution] = []
    for of_columns in _divided(abs(one), len(columns)):
        for of_rows in _divided(abs(other), len(rows)):
            parts = {(row, column): fresh() for row in rows for column in columns}
            solution = {
                row: product([number, *(parts[row, column] for column in columns)])
                for row, number in zip(rows, of_rows, strict=True)
            }
            solution |= {
                column: product([number, *(parts[row, column] for row in rows)])
                for column, number in zip(columns, of_columns, strict=True)
            }
            found.append(solution)
    return found


def _symbols(monomial: Monomial) -> list[str] | None:
    names = [atom.name for atom in monomial if isinstance(atom, Symbol)]
    return names if len(names) == len(monomial) else None


def _divided(number: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a number as a product of ``count`` numbers; no way for 0 factors unless it is
    1."""
    if count == 0:
        if number == 1:
            yield ()
        return
    for divisor in divisors(number):
        for rest in _divided(number // divisor, count - 1):
            yield (divisor, *rest)


def divisors(number: int) -> list[int]:
    """Return all divisors of a positive number, sorted."""
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return [*small, *(number // n for n in reversed(small) if n * n != number)]


def never_positive(size: Dimension) -> bool:
    """Whether the size is below 1 although every symbol is at least 1."""
    if isinstance(size, int):
        return size < 1
    return (
        sum(coefficient for _, coefficient in size.terms) < 1
        and all(coefficient < 0 for monomial, coefficient in size.terms if monomial)
        and all(isinstance(atom, Symbol) for monomial, _ in size.terms for atom in monomial)
    )


def numbered(prefix: str) -> Fresh:
    """Return a source of fresh symbols with that prefix."""
    counter = itertools.count()
    return lambda: symbol(f"{prefix}{next(counter)}")


__all__ = [
    "Fresh",
    "Solution",
    "UndecidedSizesError",
    "divisors",
    "never_positive",
    "numbered",
    "solutions",
]
