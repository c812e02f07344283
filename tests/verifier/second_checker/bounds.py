"""How far cases go: the highest rank, and the degrees that stand for all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from superopt.ir.numbers import NumberExpression, names_of
from superopt.ir.terms import (
    AttributeVariable,
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Equation,
    Term,
    applications,
)
from superopt.ops import OPERATORS, attribute_defaults
from superopt.verifier.certificates.certificate import Certificate
from tests.verifier.second_checker.typing_state import UnknownCasesError

RESHAPED_RANK = 5
MOST_RANK = 32


def highest_rank(goal: Equation, axioms: Sequence[Equation], certificate: Certificate) -> int:
    """R of the section "Every case"."""
    terms = [*goal.terms]
    for chain in certificate.chains:
        for link in chain:
            terms += [link.term, *(term for _, term in link.terms)]
    every = [*terms, *(side for axiom in axioms for side in axiom.terms)]
    conditions = [*goal.conditions, *(c for axiom in axioms for c in axiom.conditions)]
    if any(_moves_freely(term) for term in terms):
        return RESHAPED_RANK
    front, back, highest = 0, 0, 0
    variables: set[str] = set()
    broadcasts: set[Term] = set()
    for part in applications(*every):
        positions = OPERATORS[part.operator].positions or 0
        front, back = max(front, positions), max(back, positions)
        for name, value in _attributes(part).items():
            if name == "shape" and isinstance(value, tuple):
                back = max(back, len(cast("tuple[object, ...]", value)))
            numbers = (value,) if name == "axis" else value if name == "perm" else ()
            if isinstance(value, AttributeVariable):
                continue
            for axis in cast("tuple[int, ...]", numbers):
                front, back = max(front, axis + 1), max(back, -axis)
    for chain in certificate.chains:
        for link in chain:
            for name, value in link.attributes:
                del name
                if isinstance(value, int):
                    front, back = max(front, value + 1), max(back, -value)
    for part in applications(*terms):
        if part.operator == "broadcast":
            broadcasts.add(part)
        axis = part.attribute("axis")
        if isinstance(axis, AttributeVariable):
            variables.add(axis.name)
    require_plain(goal.conditions, variables)
    for condition in conditions:
        for call in _calls(condition):
            if call.function in ("dim", "axis", "channels", "groups", "outputs_per_group"):
                axis = call.arguments[1] if call.function in ("dim", "axis") else 1
                if isinstance(axis, int):
                    front, back = max(front, axis + 1), max(back, -axis)
                elif isinstance(axis, ConditionName):
                    variables.add(axis.name)
        if isinstance(condition.right, int) and condition.relation in ("<", "<="):
            highest = max(highest, *_numbers(condition))
        else:
            back = max(back, *_numbers(condition))
        back = max(back, *_lengths(condition), 0)
        for axis in _compared_axes(condition, variables):
            front, back = max(front, axis + 1), max(back, -axis)
    back = max([back, *(len(declared.shape) for each in (goal, *axioms) for _, declared in each.types)])
    bound = (1 + len(broadcasts)) * (front + len(variables)) + back + 2
    if bound > MOST_RANK:
        raise UnknownCasesError("more ranks than are checked")
    return max(bound, highest + 1 if highest else 0)


def require_plain(conditions: Sequence[Condition], variables: set[str]) -> None:
    """Raises UnknownCasesError for a clause that hides a rank or an axis, or ties one to several tensors."""
    tensors: dict[str, set[str]] = {}
    for condition in conditions:
        for call in _calls(condition):
            if call.function in ("dim", "axis"):
                tensor, axis = call.arguments
                if not isinstance(tensor, ConditionName) or not isinstance(axis, int | ConditionName):
                    raise UnknownCasesError("a condition calculates an axis")
                if isinstance(axis, ConditionName):
                    tensors.setdefault(axis.name, set()).add(tensor.name)
            elif any(isinstance(a, tuple) or _speaks_of_axes(a, variables) for a in call.arguments):
                raise UnknownCasesError("a condition calculates with ranks, axes or lists")
            if call.function == "composed" and not all(isinstance(a, ConditionName) for a in call.arguments):
                raise UnknownCasesError("a condition composes what are no permutations")
    if any(len(found) > 1 for found in tensors.values()):
        raise UnknownCasesError("conditions relate an axis to several tensors")


def _speaks_of_axes(term: ConditionTerm, variables: set[str]) -> bool:
    if isinstance(term, ConditionCall):
        return term.function in ("rank", "axis")
    return isinstance(term, ConditionName) and term.name in variables


def _lengths(condition: Condition) -> Iterator[int]:
    for side in (condition.left, condition.right):
        if isinstance(side, tuple):
            yield len(side) + 1


def _compared_axes(condition: Condition, variables: set[str]) -> Iterator[int]:
    """Numbers that an axis is compared with; raises UnknownCasesError for what else a condition does with
    an axis."""
    sides = [side for side in (condition.left, condition.right) if side is not None]
    waiting: list[ConditionTerm] = [*sides]
    while waiting:
        term = waiting.pop()
        if isinstance(term, ConditionCall):
            waiting += term.arguments
        elif isinstance(term, NumberExpression) and names_of(term) & variables:
            raise UnknownCasesError("a condition calculates with an axis")
    bare = [isinstance(side, ConditionName) and side.name in variables for side in sides]
    if any(bare) and not all(one or isinstance(side, int) for one, side in zip(bare, sides, strict=True)):
        raise UnknownCasesError("a condition compares an axis with what is none")
    calls = [isinstance(side, ConditionCall) and side.function == "axis" for side in sides]
    if any(bare) or any(calls):
        yield from (side for side in sides if isinstance(side, int))


def _moves_freely(term: Term) -> bool:
    return any(
        part.operator == "reshape"
        or (part.operator == "transpose" and isinstance(part.attribute("perm"), AttributeVariable))
        for part in applications(term)
    )


def _attributes(part: object) -> Mapping[str, object]:
    from superopt.ir.terms import Application

    assert isinstance(part, Application)
    return {**attribute_defaults(part.operator), **dict(part.attributes)}


def _calls(condition: Condition) -> Iterator[ConditionCall]:
    waiting: list[ConditionTerm | None] = [condition.left, condition.right]
    while waiting:
        term = waiting.pop()
        if isinstance(term, ConditionCall):
            yield term
            waiting += term.arguments


def _numbers(condition: Condition) -> tuple[int, ...]:
    sides = (condition.left, condition.right)
    if not any(isinstance(side, ConditionCall) and side.function == "rank" for side in sides):
        return (0,)
    return tuple(side for side in sides if isinstance(side, int)) or (0,)


def degrees(
    goal: Equation, axioms: Sequence[Equation], certificate: Certificate
) -> tuple[Mapping[str, int], ...]:
    """Values of the open degrees that stand for all; raises UnknownCasesError."""
    sides = [*goal.terms]
    links = [link for chain in certificate.chains for link in chain]
    every = [*sides, *(link.term for link in links), *(term for link in links for _, term in link.terms)]
    every += [side for axiom in axioms for side in axiom.terms]
    open_ = sorted(
        {
            v.name
            for part in applications(*sides)
            if isinstance(v := part.attribute("degree"), AttributeVariable)
        }
    )
    if not open_:
        return ({},)
    fixed = {v for part in applications(*every) if isinstance(v := part.attribute("degree"), int)}
    fixed |= {
        v
        for link in links
        for name, v in link.attributes
        if _is_degree(name, axioms, link.axiom) and isinstance(v, int)
    }
    sizes = set(_sizes(goal, every, axioms))
    occurrences = max(
        sum(part.attribute("degree") is not None for part in applications(term)) for term in every
    )
    if len(open_) == 1:
        return tuple({open_[0]: value} for value in _single(fixed, sizes, occurrences))
    if len(open_) == 2 and not fixed and not sizes:
        one, other = open_
        return tuple({one: a, other: b} for a, b in _pairs(occurrences))
    raise UnknownCasesError("more degrees, or degrees beside numbers")


def _is_degree(name: str, axioms: Sequence[Equation], axiom: str) -> bool:
    return any(
        part.attribute("degree") == AttributeVariable(name)
        for equation in axioms
        if equation.name == axiom
        for part in equation.applications
    )


def _sizes(goal: Equation, every: Sequence[Term], axioms: Sequence[Equation]) -> Iterator[int]:
    """Numbers that sizes are or are compared with."""
    for _, declared in goal.types:
        yield from (size for size in declared.shape if isinstance(size, int))
    for part in applications(*every):
        for name, value in part.attributes:
            if name in ("shape", "kernel", "stride", "dilation", "padding", "size", "channels", "sizes"):
                numbers = value if isinstance(value, tuple) else (value,)
                yield from (number for number in numbers if isinstance(number, int) and number > 1)
    for condition in (*goal.conditions, *(c for axiom in axioms for c in axiom.conditions)):
        for side in (condition.left, condition.right):
            if (
                isinstance(side, int)
                and side > 1
                and not any(c.function == "rank" for c in _calls(condition))
            ):
                yield side


def _single(fixed: set[int], sizes: set[int], occurrences: int) -> Sequence[int]:
    if not fixed and not sizes:
        return (2,)
    new = next(p for p in itertools.count(2) if _is_prime(p) and all(n % p for n in fixed | sizes))
    found = {new}
    for number in sizes:
        found.update(d for d in range(2, number + 1) if number % d == 0)
    for prime in (p for p in range(2, max(fixed | sizes) + 1) if _is_prime(p)):
        most = sum(_exponent(number, prime) for number in fixed | sizes)
        if most:
            found.update(prime**k for k in range(1, most * max(occurrences, 1) + 2))
    whole = math.prod(fixed)
    found.update(d for d in range(2, whole + 1) if whole % d == 0)
    return sorted(found)


def _pairs(occurrences: int) -> Iterator[tuple[int, int]]:
    most = max(occurrences, 1)
    borders = sorted(
        {(a / b, a, b) for a in range(1, most + 1) for b in range(1, most + 1) if math.gcd(a, b) == 1}
    )
    exponents = [(a, b) for _, a, b in borders]
    exponents = [(1, most + 1), *exponents, (most + 1, 1)]
    between = [(a + c, b + d) for (a, b), (c, d) in itertools.pairwise(exponents)]
    for a, b in (*exponents, *between):
        yield 2**a, 2**b
    yield 2, 3


def _exponent(number: int, prime: int) -> int:
    exponent = 0
    while number and number % prime == 0:
        number //= prime
        exponent += 1
    return exponent


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % d for d in range(2, math.isqrt(number) + 1))


__all__ = ["degrees", "highest_rank"]
