"""Positivity of symbolic sizes, derived from the sizes of a rule's own terms."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from superopt.ir.dimensions import Dimension, FloorDivision, SymbolicDimension

_DEPTH = 3


class PositiveSizes:
    """Sizes known to be positive: those of a rule's own terms, and their sums and products."""

    def __init__(self, sizes: Iterable[Dimension]) -> None:
        symbolic = {size for size in sizes if isinstance(size, SymbolicDimension)}
        implied = [size for each in symbolic if isinstance(size := _inside_floor(each), SymbolicDimension)]
        self._known = frozenset((*symbolic, *implied))
        self._found: dict[SymbolicDimension, bool] = {}

    @cached_property
    def _ordered(self) -> list[SymbolicDimension]:
        return sorted(self._known, key=str)

    def is_positive(self, size: Dimension) -> bool:
        """Whether the size is a positive number, a known size, or a sum or product of these."""
        if isinstance(size, int):
            return size > 0
        if size not in self._found:
            self._found[size] = self._derivable(size, _DEPTH)
        return self._found[size]

    def _derivable(self, size: Dimension, depth: int) -> bool:
        if isinstance(size, int):
            return size > 0
        if size in self._known or self._is_sum_of_products(size):
            return True
        return depth > 0 and any(
            rest == 0 or self._derivable(rest, depth - 1)
            for rest in (size - known for known in self._ordered)
        )

    def _is_sum_of_products(self, size: SymbolicDimension) -> bool:
        """Whether every coefficient is positive and every monomial is a product of known monomials."""
        return all(
            coefficient > 0 and self._is_product(SymbolicDimension(((monomial, 1),)) if monomial else 1)
            for monomial, coefficient in size.terms
        )

    def _is_product(self, monomial: Dimension) -> bool:
        if isinstance(monomial, int) or monomial in self._known:
            return True
        quotients = (
            (known, monomial // known)
            for known in self._ordered
            if len(known.terms) == 1 and known != monomial
        )
        return any(
            quotient * known == monomial and _is_monomial(quotient) and self._is_product(quotient)
            for known, quotient in quotients
        )


def _inside_floor(size: SymbolicDimension) -> Dimension | None:
    """Return ``p + d * (c - 1) + 1``, which is positive exactly if ``floor(p / d) + c`` is; None for other
    sizes."""
    shift = sum(coefficient for monomial, coefficient in size.terms if not monomial)
    rest = [(monomial, coefficient) for monomial, coefficient in size.terms if monomial]
    if len(rest) != 1 or rest[0][1] != 1 or len(rest[0][0]) != 1:
        return None
    (atom,) = rest[0][0]
    if not isinstance(atom, FloorDivision) or not isinstance(atom.denominator, int) or atom.denominator < 1:
        return None
    return atom.numerator + atom.denominator * (shift - 1) + 1


def _is_monomial(size: Dimension) -> bool:
    return size == 1 or (
        isinstance(size, SymbolicDimension)
        and len(size.terms) == 1
        and size.terms[0][1] == 1
        and "floor" not in str(size)
    )


__all__ = ["PositiveSizes"]
