"""Values of open degrees that stand for all, and which sizes operators divide then."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from superopt.ir.dimensions import Dimension, Symbol
from superopt.ir.terms import AttributeVariable, ConditionName, Equation, Term, applications
from superopt.ir.types import ShardedType, TensorType
from superopt.ops import Operator
from superopt.ops.sharded.parallel import ParallelOperator
from superopt.ops.sharded.sharding import UNDIVIDED, divisions_of, whole
from superopt.verifier.certificates.certificate import Certificate
from tests.verifier.second_checker.bounds import chain_terms
from tests.verifier.second_checker.numbers import names_in
from tests.verifier.second_checker.plain import is_call, operands, parts
from tests.verifier.second_checker.typing_state import UnknownCasesError

SIZES = ("shape", "kernel", "stride", "dilation", "padding", "size", "channels", "sizes")
MOST_DEGREES = 500


@dataclass(frozen=True)
class Divisible:
    """Sizes of which it is known how degrees divide them: numbers of the rule, and products of symbols and of
    primes of the degrees."""

    numbers: frozenset[int]
    primes: frozenset[int]

    def has(self, size: Dimension) -> bool:
        """Whether the size is one of them."""
        if isinstance(size, int):
            return size in self.numbers or self._of_primes(size)
        if len(size.terms) != 1:
            return False
        ((monomial, coefficient),) = size.terms
        return all(isinstance(atom, Symbol) for atom in monomial) and self._of_primes(coefficient)

    def divides_as_one(self, size: Dimension) -> bool:
        """Whether the size is one of them with at most one symbol: a square may be divided among several."""
        return self.has(size) and (isinstance(size, int) or len(size.terms[0][0]) == 1)

    def _of_primes(self, number: int) -> bool:
        if number < 1:
            return False
        for prime in self.primes:
            while number % prime == 0:
                number //= prime
        return number == 1


def divided_sizes(operator: Operator, types: Sequence[TensorType]) -> Iterator[Dimension]:
    """The sizes that an operator divides: those of axes and of the dimensions of its tasks."""
    if isinstance(operator, ParallelOperator):
        axis = getattr(operator, "axis", None)
        if isinstance(axis, int) and -types[0].rank <= axis < types[0].rank:
            yield types[0].shape[axis]
        types_divided = types
    else:
        types_divided = [type_ for type_ in types if isinstance(type_, ShardedType)]
        if types_divided:
            inputs = tuple(map(whole, types))
            splits = operator.splits(inputs, operator.infer_whole(*inputs))
            for type_, axes in zip(types, splits.inputs, strict=True):
                for division, number in zip(divisions_of(type_), axes, strict=True):
                    if division != UNDIVIDED and number is not None:
                        yield splits.dimensions[number].size
    for type_ in types_divided:
        for size, division in zip(type_.shape, divisions_of(type_), strict=True):
            if division != UNDIVIDED:
                yield size


def open_degrees(goal: Equation) -> list[str]:
    """The names of the rule's open degrees."""
    values = (part.attribute("degree") for part in applications(*goal.terms))
    return sorted({value.name for value in values if isinstance(value, AttributeVariable)})


def degrees(
    goal: Equation, axioms: Sequence[Equation], certificate: Certificate
) -> Iterator[tuple[Mapping[str, int], Divisible | None]]:
    """Values of the open degrees that stand for all, each with the sizes that may be divided then; raises
    UnknownCasesError."""
    open_ = open_degrees(goal)
    terms = [term for condition in goal.conditions for term in parts(condition)]
    named = {term.name for term in terms if isinstance(term, ConditionName)}
    if named.union(*map(names_in, terms)) & set(open_):
        raise UnknownCasesError("a condition is about a degree")
    if not open_:
        yield {}, None
        return
    every = [*chain_terms(goal, certificate), *(side for axiom in axioms for side in axiom.terms)]
    fixed = set(_fixed(every, axioms, certificate))
    sizes = set(_sizes((goal, *axioms), every))
    counts = [sum(part.attribute("degree") is not None for part in applications(term)) for term in every]
    most = max(1, *counts)
    operators = len(set(applications(*every)))
    prime = next(_primes_above(max(operators, *fixed, *_numbers((goal, *axioms), every))))
    if len(open_) == 1:
        found = [(value,) for value in _single(fixed, sizes, most, prime)]
    elif len(open_) == 2 and not fixed and not sizes:
        found = list(_pairs(most, prime))
    else:
        raise UnknownCasesError("more degrees, or degrees beside numbers")
    for values in found:
        primes = {p for number in (*values, *fixed) for p in _primes_of(number)}
        yield dict(zip(open_, values, strict=True)), Divisible(frozenset(sizes | {1}), frozenset(primes))


def _fixed(every: Sequence[Term], axioms: Sequence[Equation], certificate: Certificate) -> Iterator[int]:
    """Degrees that are numbers."""
    yield from (v for part in applications(*every) if isinstance(v := part.attribute("degree"), int))
    for link in (link for chain in certificate.chains for link in chain):
        for name, value in link.attributes:
            if isinstance(value, int) and _is_degree(name, axioms, link.axiom):
                yield value


def _is_degree(name: str, axioms: Sequence[Equation], axiom: str) -> bool:
    return any(
        part.attribute("degree") == AttributeVariable(name)
        for equation in axioms
        if equation.name == axiom
        for part in equation.applications
    )


def _sizes(equations: Sequence[Equation], every: Sequence[Term]) -> Iterator[int]:
    """Numbers above 1 that sizes are or are compared with, and products of those of one tuple."""
    for equation in equations:
        for _, declared in equation.types:
            yield from _above_one(declared.shape)
        for condition in equation.conditions:
            if not any(is_call(side, "rank", "axis") for side in operands(condition)):
                for side in operands(condition):
                    yield from _above_one(side)
    for part in applications(*every):
        for name, value in part.attributes:
            if name in SIZES:
                yield from _above_one(value)


def _above_one(value: object) -> Iterator[int]:
    numbers = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    whole_numbers = [number for number in numbers if isinstance(number, int) and number > 1]
    yield from whole_numbers
    if len(whole_numbers) > 1:
        for count in range(2, len(whole_numbers) + 1):
            yield from {math.prod(some) for some in itertools.combinations(whole_numbers, count)}


def _numbers(equations: Sequence[Equation], every: Sequence[Term]) -> Iterator[int]:
    """All numbers of the rule, whatever they are."""
    yield 1
    for equation in equations:
        for _, declared in equation.types:
            yield from _above_one(declared.shape)
        for condition in equation.conditions:
            for term in parts(condition):
                yield from _above_one(term)
    for part in applications(*every):
        for _, value in part.attributes:
            yield from _above_one(value)


def _single(fixed: set[int], sizes: set[int], most: int, prime: int) -> Sequence[int]:
    found = {prime}
    for number in sizes:
        found.update(d for d in range(2, number + 1) if number % d == 0)
    powers: list[list[int]] = []
    for own in sorted({p for number in fixed for p in _primes_of(number)}):
        exponents = sum(_exponent(number, own) for number in fixed | sizes)
        powers.append([own**k for k in range(exponents * most + 2)])
    if math.prod(map(len, powers)) > MOST_DEGREES:
        raise UnknownCasesError("more degrees than are checked")
    # What needs several fixed degrees at once needs all their primes in one value.
    whole_degrees = {math.prod(chosen) for chosen in itertools.product(*powers)} - {1}
    found |= whole_degrees | {degree * prime for degree in whole_degrees}
    return sorted(found)


def _pairs(most: int, prime: int) -> Iterator[tuple[int, int]]:
    borders = {(a, b) for a in range(1, most + 1) for b in range(1, most + 1) if math.gcd(a, b) == 1}
    exponents = [(1, most + 1), *sorted(borders, key=lambda pair: pair[0] / pair[1]), (most + 1, 1)]
    between = [(a + c, b + d) for (a, b), (c, d) in itertools.pairwise(exponents)]
    ways = tuple(dict.fromkeys((*exponents, *between)))
    yield from ((prime**a, prime**b) for a, b in ways)
    after = next(_primes_above(prime))
    yield prime, after
    yield after, prime
    yield prime * after, prime
    yield prime, prime * after


def _primes_above(number: int) -> Iterator[int]:
    return (n for n in itertools.count(max(number, 1) + 1) if _primes_of(n) == [n])


def _primes_of(number: int) -> list[int]:
    found: list[int] = []
    divisor = 2
    while number > 1:
        if divisor * divisor > number:
            divisor = number
        if number % divisor == 0:
            found.append(divisor)
            while number % divisor == 0:
                number //= divisor
        divisor += 1
    return found


def _exponent(number: int, prime: int) -> int:
    exponent = 0
    while number and number % prime == 0:
        number //= prime
        exponent += 1
    return exponent


__all__ = ["Divisible", "degrees", "divided_sizes", "open_degrees"]
