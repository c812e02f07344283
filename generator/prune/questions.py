"""Questions of derivability about enumerated equations, at generic sizes and several values of attributes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from superopt.errors import IllTypedError
from superopt.generator.generalise.generic_sizes import generic_typing
from superopt.generator.generalise.sampling import Shapes
from superopt.generator.generalise.terms import map_terms
from superopt.instances.values import FEW_FRACTIONS, FEW_INTEGERS, FEW_VALUES
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import AttributeTerm, Direction, Equation, Variable
from superopt.ops.attributes import NUMBERS
from superopt.ops.terms import instantiate
from superopt.rewriting.conditions import holds, names_in
from superopt.rewriting.derivability import Question

_SETTINGS = 3


def generic_question(equation: Equation, shapes: Shapes) -> Question | None:
    """The equation at sizes that are equal only where it requires it; None where no such sizes are found."""
    typing = generic_typing(equation, shapes, {})
    return None if typing is None else Question(equation, typing)


def settings(general: Equation, direction: Direction) -> Iterator[Equation]:
    """The equation with its attribute variables set to several values; none if it has no such variables."""
    names = {
        value.name: name
        for term in general.applications
        for name, value in term.attributes
        if isinstance(value, AttributeVariable)
    }
    terms = {name: Variable(name) for name in general.variables}
    for step in range(_SETTINGS if names else 0):
        values = {
            variable: _few_values(name, step, place)
            for place, (variable, name) in enumerate(sorted(names.items()))
        }
        about_values = [clause for clause in general.conditions if names_in(clause) <= values.keys()]
        if not all(holds(clause, {}, values) for clause in about_values):
            continue
        rest = tuple(clause for clause in general.conditions if clause not in about_values)
        with suppress(IllTypedError):  # a number divides by 0
            closed = map_terms(general, partial(instantiate, terms=terms, attributes=values))
            yield replace(closed, direction=direction, conditions=rest)


def _few_values(attribute: str, step: int, place: int) -> AttributeTerm:
    """One of a few values; different ones for attributes that stand at different places and are numbers."""
    values = FEW_VALUES.get(attribute)
    if values is not None:
        return values[step % len(values)]
    numbers = FEW_FRACTIONS if attribute in NUMBERS else FEW_INTEGERS
    return numbers[(step + place) % len(numbers)]
