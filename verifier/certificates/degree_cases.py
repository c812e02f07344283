"""Values that stand for all degrees: numbers of parts of divided tensors.

Types depend on degrees only through products, exact quotients, least common multiples, greatest common
divisors, divisibility and being 1. All of these are decided prime by prime, so a step that fails for some
degrees fails for powers of at most two primes. This needs sizes that are products of symbols and degrees: a
sum such as 2n + 1, or a size with a factor of its own, is divisible by some degrees in a way of its own. Open
degrees get primes above all numbers and all factors of sizes, so that such a factor is not mistaken for a
degree.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd, prod
from typing import TypeGuard

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension, SymbolicDimension
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Application, Equation, Term, Variable
from superopt.ir.types import TensorType
from superopt.ops.sharded.sharding import UNDIVIDED, divisions_of
from superopt.verifier.certificates.condition_forms import sizes_in
from superopt.verifier.certificates.partial_typing import UndecidedCasesError
from superopt.verifier.certificates.size_equations import divisors

_NO_SIZES = ("axis", "perm", "degree")
_MOST_DIRECTIONS = 40
"""Maximum number of exponents of a prime in two degrees."""

_MOST_PRODUCTS = 200
"""Maximum number of products of powers of primes."""

_LARGEST_FACTOR = 1 << 20
"""Maximum product of the numbers in a term."""

_LARGEST = 1 << 40
"""Numbers above this are not factorised."""


def open_degrees(equation: Equation) -> frozenset[str]:
    """Return the attribute variables that are degrees."""
    values = (term.attribute("degree") for term in equation.applications)
    return frozenset(value.name for value in values if isinstance(value, AttributeVariable))


@dataclass(frozen=True, eq=False)
class OpenDegrees:
    """The degrees that a rule leaves open. ``chain`` has the terms that its certificate types, which may have
    a degree more often than the rule; it is empty for the cases of a rule alone."""

    goal: Equation
    chain: Sequence[Term] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the degrees, sorted."""
        return tuple(sorted(open_degrees(self.goal)))

    def cases(self) -> Iterator[Mapping[str, int]]:
        """Yield values that stand for all. Raises IllTypedError if there are too many."""
        if not self.names:
            yield {}
            return
        if len(self.names) == 1:
            for degree in self._degrees_of_one():
                yield {self.names[0]: degree}
            return
        if len(self.names) > 2 or self._sizes or self._degrees:
            raise IllTypedError("how several degrees and other numbers divide each other has too many cases")
        highest, other_highest = map(self._occurrences, self.names)
        vectors = _directions(highest, other_highest)
        if len(vectors) > _MOST_DIRECTIONS:
            raise IllTypedError("how several degrees divide each other has too many cases")
        for one, other in itertools.combinations([(0, 0), *vectors], 2):
            chosen = [self._first**a * self._second**b for a, b in zip(one, other, strict=True)]
            if min(chosen) > 1:
                yield dict(zip(self.names, chosen, strict=True))

    def require_above(self) -> None:
        """Raises UndecidedCasesError if the chain has a number that the values which stand for all degrees
        are not above."""
        for number in _in_terms(_all_applications(self.chain)).numbers if self.names else ():
            if number >= self._first:
                raise UndecidedCasesError(f"a chain with {number} beside an open degree has too many cases")

    def require_known_parts(
        self, divided: TensorType, axis: object, attributes: Mapping[str, object]
    ) -> None:
        """Raises UndecidedCasesError if the values that stand for all degrees may not do so for the size of
        an axis that an operator divides. A product of symbols may still become one of a symbol."""
        if isinstance(axis, int) and -divided.rank <= axis < divided.rank:
            size = divided.shape[axis]
            if not self._is_product(size, attributes):
                self._require_factors(size, attributes)

    def require_known_divisions(self, type_: TensorType, attributes: Mapping[str, object]) -> None:
        """Raises UndecidedCasesError if the values that stand for all degrees may not do so for the size of
        an axis that is divided."""
        if not self.names:
            return
        for size, division in zip(type_.shape, divisions_of(type_), strict=True):
            if division != UNDIVIDED:
                self._require_factors(size, attributes)

    def require_comparable(self, left: Dimension, right: Dimension, attributes: Mapping[str, object]) -> None:
        """Raises UndecidedCasesError if the values that stand for all degrees may not do so for sizes that
        must be equal. Sums of symbols have no factors, which degrees may divide, and a symbol may be any."""
        is_plain = _is_plain(left) and _is_plain(right)
        if not (is_plain or _is_symbol(left) or _is_symbol(right)):
            for size in (left, right):
                self._require_factors(size, attributes)

    def require_single(self, solution: Mapping[str, Dimension], attributes: Mapping[str, object]) -> None:
        """Raises UndecidedCasesError if sizes become multiples or sums of others, of which a size could be
        joined more often than terms have operands."""
        for size in solution.values() if self.names else ():
            is_single = isinstance(size, int) or (
                len(size.terms) == 1 and self._is_of_degrees(size.terms[0][1], attributes)
            )
            if not is_single:
                raise UndecidedCasesError(f"sizes of {size} beside an open degree have too many cases")

    def _require_factors(self, size: Dimension, attributes: Mapping[str, object]) -> None:
        if self.names and not self._divides_as_factors(size, attributes):
            raise UndecidedCasesError(f"whether an open degree divides {size} has too many cases")

    def _divides_as_factors(self, size: Dimension, attributes: Mapping[str, object]) -> bool:
        """Whether the values that stand for all degrees also do so where one divides this size: a product of
        a symbol and degrees, or a number that divides one of the rule, all of whose divisors are among these
        values. A power of a prime divides a product of symbols in more ways than the prime."""
        if isinstance(size, int):
            return size <= 1 or any(number % size == 0 for number in self._sizes)
        return self._is_product(size, attributes) and len(size.terms[0][0]) == 1

    def _is_product(self, size: Dimension, attributes: Mapping[str, object]) -> TypeGuard[SymbolicDimension]:
        """Whether a size is a product of symbols and degrees."""
        if isinstance(size, int) or len(size.terms) != 1:
            return False
        return not self.names or self._is_of_degrees(size.terms[0][1], attributes)

    def _is_of_degrees(self, factor: int, attributes: Mapping[str, object]) -> bool:
        """Whether the factor of a size is a product of degrees."""
        values = [value for name in self.names if isinstance(value := attributes[name], int)]
        for number in (*sorted(values, reverse=True), self._first, self._second):
            while factor % number == 0:
                factor //= number
        return prod(self._degrees) % factor == 0

    @cached_property
    def _literals(self) -> _Numbers:
        """The numbers of the rule."""
        found = _in_terms(self.goal.applications)
        sizes = {size for _, type_ in self.goal.types for size in type_.shape if isinstance(size, int)}
        for condition in self.goal.conditions:
            sizes.update(sizes_in(condition))
        found = _Numbers(found.sizes | {size for size in sizes if size > 1}, found.degrees)
        if max([0, *found.numbers]) > _LARGEST:
            raise IllTypedError(f"expected sizes and degrees up to {_LARGEST} beside a degree that is open")
        return found

    @property
    def _sizes(self) -> frozenset[int]:
        return self._literals.sizes

    @property
    def _degrees(self) -> Sequence[int]:
        return self._literals.degrees

    @property
    def _compared(self) -> Sequence[Sequence[Term]]:
        """All outputs of each side, and each term of the chain."""
        return (self.goal.left, self.goal.right, *((term,) for term in self.chain))

    @cached_property
    def _first(self) -> int:
        """A prime above all numbers of the rule, and above how often a size may be part of another."""
        copies = max(map(_most_copies, self._compared)) * prod(self._degrees)
        return _prime_above(max([2, copies, *self._literals.numbers]))

    @cached_property
    def _second(self) -> int:
        return _prime_above(self._first)

    def _occurrences(self, name: str) -> int:
        """Return the largest number of occurrences of the variable in all outputs of one side or in a term
        of the chain."""
        variable = AttributeVariable(name)
        return max(
            sum(term.attribute("degree") == variable for term in _all_applications(terms))
            for terms in self._compared
        )

    def _degrees_of_one(self) -> Iterator[int]:
        """Yield a prime that divides no number of the rule, each divisor of a number, and, for primes in the
        other degrees of the rule, products of their powers, and these times that prime."""
        special = {divisor for size in self._sizes for divisor in divisors(size)}
        together = [self._degrees, *(_in_terms(_all_applications([term])).degrees for term in self.chain)]
        primes = sorted({p for degree in self._degrees for p in _prime_factors(degree)})
        highest = [2 + max(sum(_exponent(each, p) for each in some) for some in together) for p in primes]
        if prod(power + 1 for power in highest) > _MOST_PRODUCTS:
            raise IllTypedError("how an open degree and other degrees divide each other has too many cases")
        for powers in itertools.product(*(range(power + 1) for power in highest)):
            number = prod(p**power for p, power in zip(primes, powers, strict=True))
            special |= {number, number * self._first}
        yield from sorted({self._first, *special} - {1})


@dataclass(frozen=True)
class _Numbers:
    """Sizes and degrees above 1 that are attributes of some terms; degrees once per occurrence."""

    sizes: frozenset[int]
    degrees: Sequence[int]

    @property
    def numbers(self) -> Iterator[int]:
        """All of them."""
        return itertools.chain(self.sizes, self.degrees)


def _in_terms(terms: Iterable[Application]) -> _Numbers:
    sizes: set[int] = set()
    degrees: list[int] = []
    for term in terms:
        for attribute, value in term.attributes:
            parts = value if isinstance(value, tuple) else (value,)
            numbers = {part for part in parts if isinstance(part, int) and part > 1}
            if attribute == "degree":
                degrees += numbers
            elif attribute not in _NO_SIZES:
                sizes |= numbers | ({prod(numbers)} if numbers else set())
    return _Numbers(frozenset(sizes), degrees)


def _all_applications(terms: Iterable[Term]) -> Iterator[Application]:
    """Yield the applications in the terms, equal ones once per occurrence: each may divide once more."""
    for term in terms:
        if not isinstance(term, Variable):
            yield term
            yield from _all_applications(term.inputs)


def _most_copies(terms: Sequence[Term]) -> int:
    """How often a size of a variable may be part of another one: as often as there are operands to be joined,
    times the numbers by which operators multiply sizes."""
    every = [*_all_applications(terms)]
    factor = prod(prod(_in_terms([term]).sizes) for term in every)
    if factor > _LARGEST_FACTOR:
        raise IllTypedError("numbers beside an open degree are too large")
    return (len(every) + 1) * factor


def _is_plain(size: Dimension) -> bool:
    return not isinstance(size, int) and all(monomial and factor == 1 for monomial, factor in size.terms)


def _is_symbol(size: Dimension) -> bool:
    if isinstance(size, int) or len(size.terms) != 1:
        return False
    ((monomial, factor),) = size.terms
    return len(monomial) == factor == 1


def _directions(highest: int, other_highest: int) -> list[tuple[int, int]]:
    """Return exponents of one prime in two degrees, one pair for each way in which products of at most
    ``highest`` times one and ``other_highest`` times the other can divide each other: the boundaries between
    the ways, and the sum of each two neighbours."""
    borders = sorted(
        ((a, b) for a in range(other_highest + 1) for b in range(highest + 1) if gcd(a, b) == 1),
        key=lambda pair: Fraction(pair[1], pair[0] + pair[1]),
    )
    between = [(a + c, b + d) for (a, b), (c, d) in itertools.pairwise(borders)]
    return [*borders, *between]


def _prime_factors(number: int) -> Iterator[int]:
    """Yield each prime factor once."""
    factor = 2
    while factor * factor <= number:
        if number % factor == 0:
            yield factor
            while number % factor == 0:
                number //= factor
        factor += 1
    if number > 1:
        yield number


def _exponent(number: int, prime: int) -> int:
    exponent = 0
    while number % prime == 0:
        number, exponent = number // prime, exponent + 1
    return exponent


def _prime_above(number: int) -> int:
    return next(n for n in itertools.count(number + 1) if next(_prime_factors(n)) == n)


__all__ = ["OpenDegrees", "open_degrees"]
