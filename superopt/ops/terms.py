"""Normal form of terms: attributes normalised, defaults omitted, fields in declaration order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from superopt.errors import IllTypedError
from superopt.ir.numbers import AttributeVariable, NumberExpression, substituted_number
from superopt.ir.terms import Application, AttributeTerm, Term, Variable
from superopt.ops.attributes import NUMBERS, checked_attribute, normalise_attribute
from superopt.ops.base import OPERATORS, attribute_defaults, attribute_names


def application(operator: str, attributes: Mapping[str, AttributeTerm], *inputs: Term) -> Application:
    """The operator applied to terms, in normal form. Raises IllTypedError for an unknown operator or
    attribute, a missing attribute that neither has a default nor is determined by types, or a value of the
    wrong kind."""
    if operator not in OPERATORS:
        raise IllTypedError(f"unknown operator {operator}; known: {', '.join(sorted(OPERATORS))}")
    names = attribute_names(operator)
    for name in attributes:
        if name not in names:
            raise IllTypedError(f"{operator} has no attribute {name}; it has: {', '.join(names) or 'none'}")
    defaults = attribute_defaults(operator)
    kept: list[tuple[str, AttributeTerm]] = []
    for name in names:
        if name not in attributes:
            if name not in defaults and name not in OPERATORS[operator].implicit:
                raise IllTypedError(f"{operator} needs the attribute {name}")
            continue
        value = attributes[name]
        if isinstance(value, NumberExpression) and name not in NUMBERS:
            raise IllTypedError(f"{operator}: {name} is not a number that can be calculated, got {value}")
        if not isinstance(value, AttributeVariable | NumberExpression):
            value = cast("AttributeTerm", checked_attribute(operator, name, value))
            if name in defaults and normalise_attribute(name, defaults[name]) == value:
                continue
        kept.append((name, value))
    return Application(operator, tuple(kept), tuple(inputs))


def instantiate(term: Term, terms: Mapping[str, Term], attributes: Mapping[str, AttributeTerm]) -> Term:
    """The term with terms for all of its variables and values for all of its attribute variables. Raises
    IllTypedError for a value of the wrong kind."""
    if isinstance(term, Variable):
        return terms[term.name]
    values = {
        name: cast("AttributeTerm", substituted_number(value, attributes)) for name, value in term.attributes
    }
    return application(
        term.operator, values, *(instantiate(child, terms, attributes) for child in term.inputs)
    )
