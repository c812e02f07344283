"""Values that stand for all degrees: numbers of parts of divided tensors.

Types depend on degrees only through products, exact quotients, least common multiples, greatest common
divisors, divisibility and being 1. All of these are decided prime by prime, so a step that fails for some
degrees fails for powers of at most two primes. This needs sizes that are products of symbols and degrees: a
sum such as 2n + 1, or a size with a factor of its own, is divisible by some degrees in a way of its own
(``require_comparable``). Open degrees get primes above all numbers of the rule, so that a factor that occurs
there is not mistaken for a degree.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import gcd, prod

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Application, Equation, Term, applications
from superopt.ir.types import TensorType
from superopt.verifier.certificates.condition_forms import sizes_in
from superopt.verifier.certificates.partial_typing import UndecidedCasesError
from superopt.verifier.certificates.size_equations import divisors

_NO_SIZES = ("axis", "perm", "degree")
_MOST_DIRECTIONS = 40
"""Maximum number of exponents of a prime in two degrees."""

_MOST_PRODUCTS = 200
"""Maximum number of products of powers of primes."""

_LARGEST = 1 << 40
"""Numbers above this are not factorised."""


def degree_cases(goal: Equation, names: Sequence[str]) -> Iterator[Mapping[str, int]]:
    """Yield values of the degrees that a rule leaves open. Raises IllTypedError if there are too many
    cases."""
    if not names:
        yield {}
        return
    sizes, degrees = _literals(goal)
    if max([0, *sizes, *degrees]) > _LARGEST:
        raise IllTypedError(f"expected sizes and degrees up to {_LARGEST} beside a degree that is open")
    first = _generic(goal)
    if len(names) == 1:
        for degree in _degrees_of_one(first, sizes, degrees):
            yield {names[0]: degree}
        return
    if len(names) > 2 or sizes or degrees:
        raise IllTypedError("how several degrees and other numbers divide each other has too many cases")
    second = _prime_above(first)
    vectors = _directions(max(_occurrences(goal, name) for name in names))
    if len(vectors) > _MOST_DIRECTIONS:
        raise IllTypedError("how several degrees divide each other has too many cases")
    for one, other in itertools.combinations([(0, 0), *vectors], 2):
        chosen = [first**a * second**b for a, b in zip(one, other, strict=True)]
        if min(chosen) > 1:
            yield dict(zip(names, chosen, strict=True))


@lru_cache(maxsize=4096)
def _generic(goal: Equation) -> int:
    """A prime above all numbers of the rule, and above the number of its operators."""
    sizes, degrees = _literals(goal)
    return _prime_above(max([2, *sizes, *degrees, sum(1 for _ in goal.applications)]))


def open_degrees(equation: Equation) -> frozenset[str]:
    """Return the attribute variables that are degrees."""
    values = (term.attribute("degree") for term in equation.applications)
    return frozenset(value.name for value in values if isinstance(value, AttributeVariable))


def require_above(goal: Equation, terms: Iterable[Term]) -> None:
    """Raises UndecidedCasesError if the terms of a chain have a number that a value which stands for all
    degrees is not above."""
    if open_degrees(goal):
        sizes, degrees = _in_terms(applications(*terms))
        for number in (*sizes, *degrees):
            if number >= _generic(goal):
                raise UndecidedCasesError(f"a chain with {number} beside an open degree has too many cases")


def require_known_parts(
    goal: Equation, divided: TensorType, axis: object, attributes: Mapping[str, object]
) -> None:
    """Raises UndecidedCasesError if the values that stand for all degrees may not do so for the size of an
    axis that an operator divides."""
    if isinstance(axis, int) and -divided.rank <= axis < divided.rank:
        _require_factors(goal, divided.shape[axis], attributes)


def require_comparable(
    goal: Equation, left: Dimension, right: Dimension, attributes: Mapping[str, object]
) -> None:
    """Raises UndecidedCasesError if the values that stand for all degrees may not do so for sizes that must
    be equal. Sums of symbols have no factors, which degrees may divide."""
    if not (_is_plain(left) and _is_plain(right)):
        for size in (left, right):
            _require_factors(goal, size, attributes)


def _is_plain(size: Dimension) -> bool:
    return not isinstance(size, int) and all(monomial and factor == 1 for monomial, factor in size.terms)


def _require_factors(goal: Equation, size: Dimension, attributes: Mapping[str, object]) -> None:
    if not _divides_as_factors(goal, size, attributes):
        raise UndecidedCasesError(f"whether an open degree divides {size} has too many cases")


def _divides_as_factors(goal: Equation, size: Dimension, attributes: Mapping[str, object]) -> bool:
    """Whether the values that stand for all degrees also do so where one divides this size: a product of
    symbols and degrees, or a number that divides one of the rule, all of whose divisors are among these
    values. Always so if no degree is open."""
    names = open_degrees(goal)
    if not names:
        return True
    sizes, degrees = _literals(goal)
    if isinstance(size, int):
        return size <= 1 or any(number % size == 0 for number in sizes)
    if len(size.terms) != 1:
        return False
    ((_, factor),) = size.terms
    generic = _generic(goal)
    values = [value for name in names if isinstance(value := attributes[name], int)]
    for number in (*sorted(values, reverse=True), generic, _prime_above(generic)):
        while factor and factor % number == 0:
            factor //= number
    return factor > 0 and prod(degrees) % factor == 0


def _directions(highest: int) -> list[tuple[int, int]]:
    """Return exponents of one prime in two degrees, one pair for each way in which products of at most that
    many of them can divide each other: the boundaries between the ways, and the sum of each two
    neighbours."""
    powers = range(highest + 1)
    borders = sorted(
        ((a, b) for a in powers for b in powers if gcd(a, b) == 1), key=lambda p: Fraction(p[1], p[0] + p[1])
    )
    between = [(a + c, b + d) for (a, b), (c, d) in itertools.pairwise(borders)]
    return [*borders, *between]


def _occurrences(goal: Equation, name: str) -> int:
    """Return the larger number of occurrences of the variable in all outputs of one side."""
    return max(
        sum(value == AttributeVariable(name) for term in applications(*side) for _, value in term.attributes)
        for side in (goal.left, goal.right)
    )


def _degrees_of_one(generic: int, sizes: Sequence[int], degrees: Sequence[int]) -> Iterator[int]:
    """Yield a prime that divides no number of the rule, each divisor of a number, and, for primes in the
    other degrees of the rule, products of their powers, and these times that prime."""
    special = {divisor for size in sizes for divisor in divisors(size)}
    primes = sorted({p for degree in degrees for p in _prime_factors(degree)})
    highest = [2 + sum(_exponent(degree, p) for degree in degrees) for p in primes]
    if prod(power + 1 for power in highest) > _MOST_PRODUCTS:
        raise IllTypedError("how an open degree and other degrees divide each other has too many cases")
    for powers in itertools.product(*(range(power + 1) for power in highest)):
        number = prod(p**power for p, power in zip(primes, powers, strict=True))
        special |= {number, number * generic}
    yield from sorted({generic, *special} - {1})


@lru_cache(maxsize=4096)
def _literals(goal: Equation) -> tuple[list[int], list[int]]:
    """Return the sizes above 1 that the rule gives as numbers, and the degrees, once per occurrence."""
    sizes, degrees = _in_terms(goal.applications)
    sizes |= {size for _, type_ in goal.types for size in type_.shape if isinstance(size, int)}
    for condition in goal.conditions:
        sizes.update(sizes_in(condition))
    return sorted(size for size in sizes if size > 1), sorted(degrees)


def _in_terms(terms: Iterable[Application]) -> tuple[set[int], list[int]]:
    """Return the sizes and the degrees that are attributes of the terms, degrees once per occurrence."""
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
    return sizes, degrees


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


__all__ = ["degree_cases", "open_degrees", "require_above", "require_comparable", "require_known_parts"]
