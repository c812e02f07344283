"""What is evident of dimensions for all values of their symbols, which are at least 1."""

from __future__ import annotations

from math import prod

from superopt.ir.dimensions import Atom, Dimension, Symbol


def is_multiple(dimension: Dimension, number: int) -> bool:
    """Whether the dimension is a multiple of a positive number for all values of its symbols."""
    if isinstance(dimension, int):
        return dimension % number == 0
    return all(coefficient % number == 0 for _, coefficient in dimension.terms)


def least(dimension: Dimension) -> int | None:
    """A lower bound of the dimension if all symbols are at least 1; None where none is evident."""
    if isinstance(dimension, int):
        return dimension
    total = 0
    for monomial, coefficient in dimension.terms:
        factors = [_least_of_atom(atom) for atom in monomial]
        known = [factor for factor in factors if factor is not None]
        if len(known) < len(factors) or (coefficient < 0 and monomial):
            return None
        total += coefficient * prod(known)
    return total


def _least_of_atom(atom: Atom) -> int | None:
    """A lower bound that is not negative; None where none is evident."""
    if isinstance(atom, Symbol):
        return 1
    numerator = least(atom.numerator)
    if numerator is None or numerator < 0 or not is_positive(atom.denominator):
        return None
    return numerator // atom.denominator if isinstance(atom.denominator, int) else 0


def is_positive(dimension: Dimension) -> bool:
    """Whether the dimension is at least 1 if all symbols are; False where this is not evident."""
    return (least(dimension) or 0) > 0


def is_not_negative(dimension: Dimension) -> bool:
    """Whether the dimension is at least 0 if all symbols are at least 1; False where this is not evident."""
    bound = least(dimension)
    return bound is not None and bound >= 0


def surely_below(left: Dimension, right: Dimension) -> bool:
    """Whether ``left < right`` for all values of the symbols: their difference is a negative number."""
    difference = left - right
    return isinstance(difference, int) and difference < 0


def surely_even(dimension: Dimension) -> bool:
    """Whether the dimension is a multiple of 2 for all values of the symbols."""
    return is_multiple(dimension, 2)
