"""Equations between sizes: all solutions over the positive integers, or that they are not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from superopt.ir.dimensions import (
    Dimension,
    FloorDivision,
    Symbol,
    SymbolicDimension,
    floor_divide,
    substitute,
    symbol,
    symbols_of,
)

Assignment = Mapping[str, Dimension]
Fresh = Callable[[], SymbolicDimension]
FLEXIBLE = "?"
"""The first character of symbols that stand for one size that is looked for, and not for all sizes."""


def solutions(left: Dimension, right: Dimension, fresh: Fresh) -> tuple[Assignment, ...] | None:
    """Assignments that together describe every positive solution; () for none, None for not known."""
    difference = left - right
    if isinstance(difference, int):
        return () if difference else ({},)
    difference = _reduced(difference)
    if _impossible(difference):
        return ()
    ones = _only_ones(difference)
    if ones is not None:
        return (ones,)
    for name, value in sorted(_linear(difference), key=_negativity):
        return () if _never_positive(value) else ({name: value},)
    for name, value in sorted(_quotients(difference), key=_negativity):
        return () if _never_positive(value) else ({name: value},)
    return _factored(difference, fresh)


def chosen(left: Dimension, right: Dimension) -> Assignment | None:
    """What flexible symbols must be for both sides to be equal; None where that is not seen."""
    difference = left - right
    if difference == 0:
        return {}
    if isinstance(difference, int):
        return None
    for name, value in _linear(_reduced(difference)):
        if name.startswith(FLEXIBLE):
            return {name: value}
    return _quotient_of_flexible(difference)


def is_positive(size: Dimension, known: Sequence[Dimension], depth: int = 3) -> bool:
    """Whether a size is a sum or product of positive numbers, symbols and sizes known to be positive."""
    if isinstance(size, int):
        return size > 0
    if all(c > 0 and all(isinstance(atom, Symbol) for atom in m) for m, c in size.terms):
        return True
    if size in known:
        return True
    if depth == 0:
        return False
    for own in known:
        if isinstance(own, int):
            continue
        rest = size - own
        if rest == 0 or is_positive(rest, known, depth - 1):
            return True
        quotient = floor_divide(size, own)
        if quotient * own == size and is_positive(quotient, known, depth - 1):
            return True
    return False


def applied(size: Dimension, assignment: Assignment) -> Dimension:
    """The size with symbols replaced."""
    return substitute(size, assignment)


def _reduced(difference: SymbolicDimension) -> SymbolicDimension:
    """Without the number and the symbols that all terms share."""
    number = math.gcd(*(c for _, c in difference.terms))
    shared: list[Symbol] = []
    first = list(difference.terms[0][0])
    for atom in set(first):
        if isinstance(atom, Symbol):
            times = min(m.count(atom) for m, _ in difference.terms)
            shared += [atom] * times
    total: Dimension = 0
    for monomial, coefficient in difference.terms:
        rest = list(monomial)
        for atom in shared:
            rest.remove(atom)
        total = total + _product(rest) * (coefficient // number)
    return difference if isinstance(total, int) else total


def _product(atoms: Iterable[Symbol | FloorDivision]) -> Dimension:
    total: Dimension = 1
    for atom in atoms:
        total = total * SymbolicDimension((((atom,), 1),))
    return total


def _constant(difference: SymbolicDimension) -> int:
    return sum(c for m, c in difference.terms if not m)


def _open(difference: SymbolicDimension) -> list[tuple[tuple[Symbol | FloorDivision, ...], int]]:
    return [(m, c) for m, c in difference.terms if m]


def _plain(difference: SymbolicDimension) -> bool:
    return all(isinstance(atom, Symbol) for m, _ in difference.terms for atom in m)


def _impossible(difference: SymbolicDimension) -> bool:
    """Whether signs or a common divisor of coefficients show that the polynomial is never 0."""
    constant, rest = _constant(difference), _open(difference)
    if len(difference.terms) == 1:
        return _plain(difference)
    if constant % math.gcd(*(c for _, c in rest)):
        return True
    if not _plain(difference):
        return False
    least = sum(c for _, c in rest) + constant
    if all(c > 0 for _, c in rest):
        return least > 0
    return all(c < 0 for _, c in rest) and least < 0


def _only_ones(difference: SymbolicDimension) -> Assignment | None:
    """All symbols are 1 where the smallest value is 0 already."""
    rest = _open(difference)
    signs = {c > 0 for _, c in rest}
    if not _plain(difference) or len(signs) != 1 or sum(c for _, c in rest) + _constant(difference):
        return None
    return dict.fromkeys(difference.symbols, 1)


def _linear(difference: SymbolicDimension) -> Iterator[tuple[str, Dimension]]:
    """Each symbol that occurs once with coefficient 1 or -1, with what it is."""
    for monomial, coefficient in difference.terms:
        if len(monomial) != 1 or abs(coefficient) != 1 or not isinstance(monomial[0], Symbol):
            continue
        name = monomial[0].name
        rest = difference - symbol(name) * coefficient
        if name not in symbols_of(rest):
            yield name, rest * -coefficient


def _quotients(difference: SymbolicDimension) -> Iterator[tuple[str, Dimension]]:
    """Each symbol whose factor is never 0 and divides the rest, with what it is."""
    if not _plain(difference):
        return
    for name in sorted(difference.symbols):
        rest = substitute(difference, {name: 0})
        multiple = difference - rest
        factor = floor_divide(multiple, symbol(name))
        if isinstance(factor, int) or factor * symbol(name) != multiple or name in symbols_of(factor):
            continue
        if len({c > 0 for _, c in factor.terms}) != 1:
            continue
        quotient = floor_divide(-rest, factor)
        if quotient * factor == -rest and name not in symbols_of(quotient):
            yield name, quotient


def _negativity(found: tuple[str, Dimension]) -> tuple[int, int]:
    """Solutions without differences first, and among them new symbols."""
    _, value = found
    if isinstance(value, int):
        return (value < 1, 0)
    return (sum(c < 0 for _, c in value.terms), len(value.terms))


def _never_positive(value: Dimension) -> bool:
    if isinstance(value, int):
        return value < 1
    return _plain(value) and all(c < 0 for m, c in value.terms)


def _factored(difference: SymbolicDimension, fresh: Fresh) -> tuple[Assignment, ...] | None:
    """Solutions of a product that equals a product or a number."""
    if len(difference.terms) != 2 or not _plain(difference):
        return None
    (one, c), (other, d) = difference.terms
    if c * d > 0 or len(set(one)) != len(one) or len(set(other)) != len(other):
        return None
    left, right = (
        [atom.name for atom in one if isinstance(atom, Symbol)],
        [atom.name for atom in other if isinstance(atom, Symbol)],
    )
    c, d = abs(c), abs(d)
    found: list[Assignment] = []
    # The number d is divided among the factors on the left, c among those on the right; coprime by _reduced.
    for ours in _shares(d, len(left)):
        for theirs in _shares(c, len(right)):
            table = [[fresh() for _ in right] for _ in left]
            assignment: dict[str, Dimension] = {}
            for row, name in enumerate(left):
                assignment[name] = _all(table[row]) * ours[row]
            for column, name in enumerate(right):
                assignment[name] = _all([table[row][column] for row in range(len(left))]) * theirs[column]
            found.append(assignment)
    return tuple(found)


def _all(factors: Sequence[Dimension]) -> Dimension:
    total: Dimension = 1
    for factor in factors:
        total = total * factor
    return total


def _shares(number: int, count: int) -> Iterator[tuple[int, ...]]:
    """Each way to write the number as a product of so many factors."""
    if count == 0:
        if number == 1:
            yield ()
        return
    for divisor in _divisors(number):
        for rest in _shares(number // divisor, count - 1):
            yield (divisor, *rest)


@lru_cache(maxsize=4096)
def _divisors(number: int) -> tuple[int, ...]:
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return tuple(sorted({*small, *(number // divisor for divisor in small)}))


def _quotient_of_flexible(difference: SymbolicDimension) -> Assignment | None:
    """A flexible symbol times something that equals the rest."""
    for name in sorted(difference.symbols):
        if not name.startswith(FLEXIBLE):
            continue
        rest = substitute(difference, {name: 0})
        factor = floor_divide(difference - rest, symbol(name)) if difference != rest else 0
        if factor == 0 or name in symbols_of(factor) or factor * symbol(name) + rest != difference:
            continue
        quotient = floor_divide(-rest, factor)
        if quotient * factor == -rest and name not in symbols_of(quotient):
            return {name: quotient}
    return None


__all__ = ["FLEXIBLE", "applied", "chosen", "is_positive", "solutions"]
