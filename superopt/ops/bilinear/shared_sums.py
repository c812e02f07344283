"""Sums with common parts computed once, in which matrices of bilinear algorithms are applied to blocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from superopt.ops.bilinear.filter_algorithms import Matrix

Terms: TypeAlias = "dict[int, Fraction]"
"""Coefficients, not 0, of terms by number."""


@dataclass(frozen=True, slots=True)
class Multiple:
    """A term times a number."""

    term: int
    factor: Fraction

    def times(self, factor: Fraction) -> Multiple:
        """The multiple of the multiple."""
        return Multiple(self.term, self.factor * factor)


@dataclass(frozen=True, slots=True)
class SharedSums:
    """Combinations of ``operands``: each of the ``sums``, of two terms, is the next term behind the operands,
    and each combination is one of the ``results``, a multiple of a term; None where it is 0."""

    operands: int
    sums: tuple[tuple[Multiple, Multiple], ...]
    results: tuple[Multiple | None, ...]

    def uses(self, term: int) -> int:
        """The number of sums and results that contain the term."""
        within = sum(multiple.term == term for pair in self.sums for multiple in pair)
        return within + sum(result is not None and result.term == term for result in self.results)

    def settled(self) -> SharedSums:
        """The same with factors of results moved into the sums that nothing else contains."""
        sums, results = list(self.sums), list(self.results)
        for place, result in enumerate(self.results):
            if result is not None and result.term >= self.operands and self.uses(result.term) == 1:
                one, other = sums[result.term - self.operands]
                sums[result.term - self.operands] = one.times(result.factor), other.times(result.factor)
                results[place] = Multiple(result.term, Fraction(1))
        return replace(self, sums=tuple(sums), results=tuple(results))


@lru_cache(maxsize=256)
def shared_sums(matrix: Matrix) -> SharedSums:
    """The rows of a matrix as combinations of its columns. As long as two terms occur in several rows in the
    same ratio, the most frequent pair becomes a term. (Paar 1997, Optimized arithmetic for Reed-Solomon
    encoders.)"""
    rows = [{column: Fraction(entry) for column, entry in enumerate(row) if entry} for row in matrix]
    operands = len(matrix[0])
    sums: list[tuple[Multiple, Multiple]] = []
    while any(len(row) > 1 for row in rows):
        pair = _most_frequent(rows)
        _replace(rows, pair, operands + len(sums))
        sums.append(pair)
    return SharedSums(operands, tuple(sums), tuple(map(_only, rows)))


def _most_frequent(rows: list[Terms]) -> tuple[Multiple, Multiple]:
    """The pair that most rows contain, up to a factor."""
    found: Counter[tuple[int, int, Fraction]] = Counter()
    for row in rows:
        terms = sorted(row)
        found.update(
            (one, other, row[other] / row[one])
            for place, one in enumerate(terms)
            for other in terms[place + 1 :]
        )
    one, other, ratio = max(found, key=lambda pair: found[pair])
    return Multiple(one, Fraction(1)), Multiple(other, ratio)


def _replace(rows: list[Terms], pair: tuple[Multiple, Multiple], term: int) -> None:
    one, other = pair
    for row in rows:
        if one.term in row and row.get(other.term) == row[one.term] * other.factor:
            row[term] = row.pop(one.term)
            del row[other.term]


def _only(row: Terms) -> Multiple | None:
    return Multiple(*next(iter(row.items()))) if row else None


__all__ = ["Multiple", "SharedSums", "shared_sums"]
