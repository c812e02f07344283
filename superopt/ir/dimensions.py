"""Dimensions of tensors: integers, or polynomials over named symbols in canonical form.

A concrete dimension is a plain ``int``, so that the search over static models pays nothing for symbols. A
symbolic one is a polynomial with integer coefficients whose atoms are symbols and floor divisions. Dimensions
that compare equal are equal for all sizes; without floor divisions the converse holds too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from math import gcd
from typing import TypeAlias

_MOST_TERMS = 16
"""Maximum terms of a quotient of polynomials."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named unknown, such as the batch size of an ONNX model or a variable of a rule."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class FloorDivision:
    """``numerator // denominator`` that did not simplify."""

    numerator: Dimension
    denominator: Dimension

    def __str__(self) -> str:
        return f"floor(({self.numerator}) / ({self.denominator}))"


Atom: TypeAlias = "Symbol | FloorDivision"
Monomial: TypeAlias = "tuple[Atom, ...]"


@dataclass(frozen=True)
class SymbolicDimension:
    """A non-constant polynomial: ``terms`` is sorted, coefficients are not zero."""

    terms: tuple[tuple[Monomial, int], ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __reduce__(self) -> tuple[object, ...]:
        """Constructed again when unpickled, because text hashes differ between processes."""
        return (SymbolicDimension, (self.terms,))

    def __add__(self, other: Dimension) -> Dimension:
        if other == 0:
            return self
        return _polynomial([*self.terms, *_terms(other)])

    __radd__ = __add__

    def __neg__(self) -> Dimension:
        return self * -1

    def __sub__(self, other: Dimension) -> Dimension:
        if other == 0:
            return self
        return _polynomial([*self.terms, *((m, -c) for m, c in _terms(other))])

    def __rsub__(self, other: Dimension) -> Dimension:
        return _polynomial([*_terms(other), *((m, -c) for m, c in self.terms)])

    def __mul__(self, other: Dimension) -> Dimension:
        if isinstance(other, int):
            if other in (0, 1):
                return self if other else 0
            return SymbolicDimension(tuple((monomial, c * other) for monomial, c in self.terms))
        return _polynomial(
            [(_sorted_monomial(m + n), c * d) for m, c in self.terms for n, d in _terms(other)]
        )

    __rmul__ = __mul__

    def __floordiv__(self, other: Dimension) -> Dimension:
        return floor_divide(self, other)

    def __rfloordiv__(self, other: Dimension) -> Dimension:
        return floor_divide(other, self)

    @cached_property
    def name(self) -> str | None:
        """The name if the dimension is a single symbol, otherwise None."""
        if len(self.terms) != 1:
            return None
        monomial, coefficient = self.terms[0]
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
            return monomial[0].name
        return None

    @cached_property
    def symbols(self) -> frozenset[str]:
        """The names of all symbols that occur."""
        return frozenset(name for monomial, _ in self.terms for atom in monomial for name in _symbols(atom))

    def __str__(self) -> str:
        written = ""
        for monomial, coefficient in self.terms:
            sign = "-" if coefficient < 0 else "+"
            size = abs(coefficient)
            factors = [str(atom) for atom in monomial]
            if size != 1 or not factors:
                factors.insert(0, str(size))
            product = "*".join(factors)
            if written:
                written += f" {sign} {product}"
            else:
                written = f"-{product}" if sign == "-" else product
        return written


Dimension: TypeAlias = "int | SymbolicDimension"
Assignment: TypeAlias = "Mapping[str, Dimension]"


@lru_cache(maxsize=65536)
def symbol(name: str) -> SymbolicDimension:
    """The dimension that is just the symbol ``name``."""
    return SymbolicDimension((((Symbol(name),), 1),))


def as_symbol(dimension: Dimension) -> str | None:
    """The name, when the dimension is a single symbol."""
    return None if isinstance(dimension, int) else dimension.name


def symbols_of(dimension: Dimension) -> frozenset[str]:
    """The names of all symbols in the dimension."""
    return frozenset() if isinstance(dimension, int) else dimension.symbols


def floor_divide(numerator: Dimension, denominator: Dimension) -> Dimension:
    """``numerator // denominator``, with exactly divisible parts moved out of the floor. Raises
    ZeroDivisionError for a denominator of 0."""
    if isinstance(denominator, int):
        if isinstance(numerator, int):
            return numerator // denominator
        return _floor_by_number(numerator, denominator)
    if numerator == 0:
        return 0
    if numerator == denominator:
        return 1
    quotient = _exact_quotient(numerator, denominator)
    if quotient is not None:
        return quotient
    return SymbolicDimension((((FloorDivision(numerator, denominator),), 1),))


def _floor_by_number(numerator: SymbolicDimension, denominator: int) -> Dimension:
    if denominator < 0:
        return floor_divide(-numerator, -denominator)
    inner = _as_floor(numerator)
    if inner is not None:
        atom, divisor, shift = inner
        return floor_divide(atom.numerator + shift * divisor, divisor * denominator)
    outside: list[tuple[Monomial, int]] = []
    inside: list[tuple[Monomial, int]] = []
    for monomial, coefficient in numerator.terms:
        whole = _towards_zero(coefficient, denominator) if monomial else coefficient // denominator
        outside.append((monomial, whole))
        inside.append((monomial, coefficient - whole * denominator))
    constant = sum(c for m, c in inside if not m)
    open_terms = [(m, c) for m, c in inside if m and c]
    if not open_terms:
        return _polynomial(outside)
    common = reduce(gcd, (c for _, c in open_terms), denominator)
    reduced = _polynomial([*((m, c // common) for m, c in open_terms), ((), constant // common)])
    quotient = SymbolicDimension((((FloorDivision(reduced, denominator // common),), 1),))
    return quotient + _polynomial(outside)


def _as_floor(dimension: SymbolicDimension) -> tuple[FloorDivision, int, int] | None:
    """The atom, its divisor and the shift, when the dimension is ``floor(x / divisor) + shift``."""
    shift = sum(c for m, c in dimension.terms if not m)
    rest = [(m, c) for m, c in dimension.terms if m]
    if len(rest) != 1 or rest[0][1] != 1 or len(rest[0][0]) != 1:
        return None
    (atom,) = rest[0][0]
    if isinstance(atom, FloorDivision) and isinstance(atom.denominator, int):
        return atom, atom.denominator, shift
    return None


def _towards_zero(numerator: int, denominator: int) -> int:
    quotient = abs(numerator) // denominator
    return quotient if numerator >= 0 else -quotient


def substitute(dimension: Dimension, assignment: Assignment) -> Dimension:
    """The dimension with symbols replaced; symbols missing in the assignment are kept."""
    if isinstance(dimension, int):
        return dimension
    if dimension.name is not None:
        return assignment.get(dimension.name, dimension)
    if dimension.symbols.isdisjoint(assignment):
        return dimension
    total: Dimension = 0
    for monomial, coefficient in dimension.terms:
        product: Dimension = coefficient
        for atom in monomial:
            product = product * _substitute_atom(atom, assignment)
        total = total + product
    return total


def solve(
    left: Dimension, right: Dimension, fixed: frozenset[str] = frozenset()
) -> dict[str, Dimension] | None:
    """An assignment of one symbol in terms of the others that makes ``left = right``; empty when they are
    already equal. Common factors of all terms are cancelled (sizes are not 0). A symbol is eligible only if
    it occurs linearly with coefficient 1 or -1, nowhere else, and is not in ``fixed``; negative solutions are
    rejected. Returns None when there is no solution of this form."""
    if left == right:
        return {}
    bare = _solve_bare(left, right, fixed)
    if bare is not None:
        return bare
    difference = left - right
    if isinstance(difference, int):
        return None
    difference = _without_common_factors(difference)
    for monomial, coefficient in reversed(difference.terms):
        if len(monomial) != 1 or abs(coefficient) != 1 or not isinstance(monomial[0], Symbol):
            continue
        name = monomial[0].name
        rest = difference - coefficient * symbol(name)
        if name in fixed or name in symbols_of(rest):
            continue
        solution = -coefficient * rest
        return None if isinstance(solution, int) and solution < 0 else {name: solution}
    return None


def _solve_bare(left: Dimension, right: Dimension, fixed: frozenset[str]) -> dict[str, Dimension] | None:
    """Fast path of ``solve`` for two symbols, or a symbol and a size; None for all other cases."""
    one, other = as_symbol(left), as_symbol(right)
    if one is not None and other is not None:
        (first, second) = ((one, right), (other, left)) if one > other else ((other, left), (one, right))
        name, value = second if first[0] in fixed else first
        return None if name in fixed else {name: value}
    for name, value in ((one, right), (other, left)):
        if name is not None and name not in fixed and isinstance(value, int) and value >= 0:
            return {name: value}
    return None


def _without_common_factors(dimension: SymbolicDimension) -> SymbolicDimension:
    """The polynomial divided by the common integer and symbol factors of its terms."""
    number = reduce(gcd, (coefficient for _, coefficient in dimension.terms))
    shared = list(dimension.terms[0][0])
    for monomial, _ in dimension.terms[1:]:
        remaining = list(monomial)
        shared = [atom for atom in shared if _taken(remaining, atom)]
    if len(dimension.terms) == 1 or (number == 1 and not shared):
        return dimension
    divided: list[tuple[Monomial, int]] = []
    for monomial, coefficient in dimension.terms:
        remaining = list(monomial)
        for atom in shared:
            remaining.remove(atom)
        divided.append((tuple(remaining), coefficient // number))
    quotient = _polynomial(divided)
    return dimension if isinstance(quotient, int) else quotient


def _taken(atoms: list[Atom], atom: Atom) -> bool:
    """Removes the atom if present; returns whether it was."""
    if atom not in atoms:
        return False
    atoms.remove(atom)
    return True


def product(dimensions: Iterable[Dimension]) -> Dimension:
    """The product of all dimensions; 1 for none."""
    total: Dimension = 1
    for dimension in dimensions:
        total = total * dimension
    return total


def sum_of(dimensions: Iterable[Dimension]) -> Dimension:
    """The sum of all dimensions; 0 for none."""
    total: Dimension = 0
    for dimension in dimensions:
        total = total + dimension
    return total


def _terms(dimension: Dimension) -> tuple[tuple[Monomial, int], ...]:
    return (((), dimension),) if isinstance(dimension, int) else dimension.terms


def _polynomial(terms: Iterable[tuple[Monomial, int]]) -> Dimension:
    collected: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        collected[monomial] = collected.get(monomial, 0) + coefficient
    kept = [(monomial, coefficient) for monomial, coefficient in collected.items() if coefficient]
    if not kept:
        return 0
    if len(kept) > 1:
        kept.sort(key=_term_order)
    elif not kept[0][0]:
        return kept[0][1]
    return SymbolicDimension(tuple(kept))


def _term_order(term: tuple[Monomial, int]) -> tuple[int, tuple[tuple[str, bool], ...]]:
    return (-len(term[0]), tuple(_atom_order(atom) for atom in term[0]))


def _atom_order(atom: Atom) -> tuple[str, bool]:
    """Order by text; a symbol precedes a floor division with the same text."""
    return (atom.name, False) if isinstance(atom, Symbol) else (str(atom), True)


def _sorted_monomial(atoms: Monomial) -> Monomial:
    return tuple(sorted(atoms, key=_atom_order)) if len(atoms) > 1 else atoms


def _symbols(atom: Atom) -> frozenset[str]:
    if isinstance(atom, Symbol):
        return frozenset((atom.name,))
    return symbols_of(atom.numerator) | symbols_of(atom.denominator)


def _substitute_atom(atom: Atom, assignment: Assignment) -> Dimension:
    if isinstance(atom, Symbol):
        return assignment.get(atom.name, symbol(atom.name))
    return floor_divide(substitute(atom.numerator, assignment), substitute(atom.denominator, assignment))


def _exact_quotient(numerator: Dimension, denominator: SymbolicDimension) -> Dimension | None:
    """The exact quotient by polynomial long division; None if there is a remainder."""
    leading, scale = denominator.terms[0]
    quotient: Dimension = 0
    remainder = numerator
    for _ in range(_MOST_TERMS):
        if remainder == 0:
            return quotient
        monomial, coefficient = _terms(remainder)[0]
        rest = list(monomial)
        if coefficient % scale or not all(_taken(rest, atom) for atom in leading):
            return None
        term = _polynomial([(tuple(rest), coefficient // scale)])
        quotient = quotient + term
        remainder = remainder - term * denominator
    return None
