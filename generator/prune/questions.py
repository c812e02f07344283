"""Questions of derivability about enumerated equations, at generic sizes and several values of attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from superopt.generator.generalise.generalisation import map_terms
from superopt.generator.generalise.generic_sizes import generic_typing
from superopt.generator.generalise.sampling import Shapes
from superopt.instances.values import FEW_FRACTIONS, FEW_INTEGERS, FEW_VALUES, NUMERIC
from superopt.ir.terms import AttributeTerm, AttributeVariable, Direction, Equation, Variable
from superopt.ops.terms import instantiate
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
        closed = map_terms(general, partial(instantiate, terms=terms, attributes=values))
        yield replace(closed, direction=direction)


def _few_values(attribute: str, step: int, place: int) -> AttributeTerm:
    """One of a few values; different ones for attributes that stand at different places and are numbers."""
    values = FEW_VALUES.get(attribute)
    if values is not None:
        return values[step % len(values)]
    numbers = FEW_FRACTIONS if attribute in NUMERIC else FEW_INTEGERS
    return numbers[(step + place) % len(numbers)]
