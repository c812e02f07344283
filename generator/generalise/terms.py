"""Terms with their attributes written out, left out, or changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, cast

from superopt.ir.terms import Application, AttributeTerm, Equation, Term, Variable
from superopt.ops import attribute_defaults, attribute_names, normalise_attribute
from superopt.ops.terms import application

Attributes: TypeAlias = "tuple[tuple[str, AttributeTerm], ...]"


def explicit(term: Term) -> Term:
    """The term with every attribute that has a default written out."""
    return with_attributes(term, _all_attributes)


def _all_attributes(term: Application) -> Attributes:
    defaults = attribute_defaults(term.operator).items()
    values = {name: cast("AttributeTerm", normalise_attribute(name, value)) for name, value in defaults}
    values.update(term.attributes)
    return tuple((name, values[name]) for name in attribute_names(term.operator) if name in values)


def brief(term: Term) -> Term:
    """The term with attributes at their defaults left out."""
    if isinstance(term, Variable):
        return term
    return application(term.operator, dict(term.attributes), *(brief(child) for child in term.inputs))


def with_attributes(term: Term, attributes: Callable[[Application], Attributes]) -> Term:
    """The term with other attributes for each of its applications."""
    if isinstance(term, Variable):
        return term
    inputs = tuple(with_attributes(child, attributes) for child in term.inputs)
    return Application(term.operator, attributes(term), inputs)


def map_terms(equation: Equation, change: Callable[[Term], Term]) -> Equation:
    """The equation with each of its terms changed."""
    return replace(equation, left=tuple(map(change, equation.left)), right=tuple(map(change, equation.right)))
