"""Relations between the numbers of an equation: numbers of its target as expressions of those of its source.

An equation is found at fixed numbers, such as ``scale(scale(x, 7/5), 5/11) = scale(x, 7/11)``. Each number
that only the target has is solved for: all small expressions over the numbers of the source that have its
value are tried, the shortest first. The equation with open numbers is kept if it holds for numbers of both
signs, or for numbers of one sign if it says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from superopt.errors import IllTypedError
from superopt.generator.generalise.sampling import Sampler, Shapes
from superopt.generator.generalise.terms import map_terms, with_attributes
from superopt.ir.numbers import (
    AttributeVariable,
    Number,
    divisors,
    larger,
    minus,
    names_of,
    over,
    plus,
    smaller,
    times,
)
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Condition,
    ConditionName,
    Direction,
    Equation,
    Term,
    applications,
    calculated,
)
from superopt.ops.attributes import NUMBERS
from superopt.rewriting import why_unusable

Constant: TypeAlias = "int | Fraction"

_MOST_NUMBERS = 4
_MOST_FORMS = 12
_SPECIAL = frozenset((0, 1, -1))
_SETTINGS: Sequence[Sequence[Constant]] = (
    (Fraction(3, 5), Fraction(5, 7), Fraction(7, 4), Fraction(2, 9)),
    (Fraction(-3, 7), Fraction(5, 3), Fraction(-7, 5), Fraction(2, 11)),
    (Fraction(5, 7), Fraction(-3, 2), Fraction(2, 9), Fraction(-7, 5)),
    (Fraction(-7, 9), Fraction(-5, 2), Fraction(-3, 4), Fraction(-2, 13)),
    (2, 3, 5, 7),
)
"""Numbers at which an equation with open numbers is tested."""


def with_related_numbers(
    equation: Equation, shapes: Shapes, others: Mapping[str, object], sampler: Sampler
) -> Iterator[Equation]:
    """Yield the equation with open numbers, in each direction in which its source determines its target's.

    ``others`` are values of attribute variables that are open already. Nothing if no relation holds, or if
    the numbers of both sides are the same and may be any.
    """
    if len(equation.left) > 1:
        return
    directions: list[tuple[tuple[Term, ...], tuple[Term, ...]]] = [(equation.left, equation.right)]
    if equation.direction is not Direction.FORWARD:
        directions.append((equation.right, equation.left))
    for source, target in directions:
        if why_unusable(source, target) is None:
            written = replace(equation, left=source, right=target, direction=Direction.FORWARD)
            forms = itertools.islice(_related(written), _MOST_FORMS)
            held = (_held(form, shapes, others, sampler) for form in forms)
            found = next((form for form in held if form is not None), None)
            if found is None:
                continue
            if found.conditions != written.conditions or any(calculated(*found.terms)):
                yield found


def has_open_numbers(equation: Equation) -> bool:
    """Whether the equation has numbers that could be open: others than those which axioms name."""
    return not _SPECIAL.issuperset(_numbers(equation.terms))


def _related(equation: Equation) -> Iterator[Equation]:
    """The equation with the numbers of its source open, and those that only its target has calculated from
    them in all ways; before that as they are, if axioms name them."""
    left = _numbers(equation.left)
    given = [number for number in left if number not in _SPECIAL]
    sought = [number for number in _numbers(equation.right) if number not in left]
    if not given or len(given) > _MOST_NUMBERS:
        return
    names: dict[Constant, Number] = {n: AttributeVariable(f"n{i}") for i, n in enumerate(given)}
    values = {variable.name: n for n, variable in names.items() if isinstance(variable, AttributeVariable)}
    expressions = list(_expressions(values)) if sought else []
    choices = [
        [*((number,) if number in _SPECIAL else ()), *(e for e, value in expressions if value == number)]
        for number in sought
    ]
    for chosen in itertools.product(*choices):
        yield _opened(equation, names | dict(zip(sought, chosen, strict=True)))


def _expressions(values: Mapping[str, Constant]) -> Iterator[tuple[Number, Constant]]:
    """Expressions over variables with their values, short ones first: of one, two and three numbers."""
    ones: list[tuple[Number, Constant]] = [(AttributeVariable(name), value) for name, value in values.items()]
    yield from ones
    pairs = list(_combined(ones, ones))
    signed = [(times(-1, e), -v) for e, v in ones] + [(over(1, e), 1 / Fraction(v)) for e, v in ones if v]
    yield from signed
    yield from pairs
    yield from _combined(pairs, ones)
    yield from _combined(ones, pairs)
    constants: list[tuple[Number, Constant]] = [(2, 2), (1, 1), (-1, -1), (Fraction(1, 2), Fraction(1, 2))]
    yield from _combined([*ones, *pairs], constants)
    yield from _combined(constants, ones)


def _combined(
    left: Sequence[tuple[Number, Constant]], right: Sequence[tuple[Number, Constant]]
) -> Iterator[tuple[Number, Constant]]:
    for (one, first), (other, second) in itertools.product(left, right):
        yield times(one, other), first * second
        yield plus(one, other), first + second
        yield minus(one, other), first - second
        if second and all(isinstance(each, AttributeVariable) for each in divisors(over(1, other))):
            yield over(one, other), Fraction(first) / second
        if one != other:
            yield smaller(one, other), min(first, second)
            yield larger(one, other), max(first, second)


def _held(form: Equation, shapes: Shapes, others: Mapping[str, object], sampler: Sampler) -> Equation | None:
    """The form, with clauses about signs where it needs them; None if it is false with any."""
    names = sorted(_names_of_numbers(form))
    if _holds(form, names, shapes, others, sampler):
        return form
    for count in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, count):
            clauses = tuple(_not_negative(form, name) for name in chosen)
            conditional = replace(form, conditions=(*form.conditions, *clauses))
            if _holds(conditional, names, shapes, others, sampler, frozenset(chosen)):
                return conditional
    return None


def _not_negative(form: Equation, name: str) -> Condition:
    """The clause that a number is not negative; nor 0, if another is divided by it."""
    values = (value for term in form.applications for _, value in term.attributes)
    divides = any(AttributeVariable(name) in divisors(value) for value in values)
    return Condition(ConditionName(name), ">" if divides else ">=", 0)


def _holds(
    form: Equation,
    names: Sequence[str],
    shapes: Shapes,
    others: Mapping[str, object],
    sampler: Sampler,
    positive: frozenset[str] = frozenset(),
) -> bool:
    met = 0
    for numbers in _SETTINGS:
        values: dict[str, object] = {**others} | {
            name: abs(number) if name in positive else number
            for name, number in zip(names, numbers, strict=False)
        }
        try:
            result = sampler.holds(form, shapes, values, samples=1)
        except IllTypedError:
            continue
        if result is False:
            return False
        met += result is True
    return met > 1


def _names_of_numbers(form: Equation) -> frozenset[str]:
    """The names of its open numbers."""
    values = (v for term in form.applications for name, v in term.attributes if name in NUMBERS)
    return frozenset[str]().union(*map(names_of, values))


def _numbers(terms: Sequence[Term]) -> list[Constant]:
    """The different numbers in attributes of which no type depends."""
    values = (v for term in applications(*terms) for name, v in term.attributes if name in NUMBERS)
    return list(dict.fromkeys(v for v in values if isinstance(v, int | Fraction)))


def _opened(equation: Equation, names: Mapping[Constant, Number]) -> Equation:
    def opened(term: Application) -> tuple[tuple[str, AttributeTerm], ...]:
        return tuple(
            (
                name,
                names.get(value, value) if name in NUMBERS and isinstance(value, int | Fraction) else value,
            )
            for name, value in term.attributes
        )

    return map_terms(equation, lambda term: with_attributes(term, opened))
