"""Terms and equations changed part by part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from superopt.equations.canonical import renamed_condition
from superopt.errors import IllTypedError
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    AttributeVariable,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Equation,
    Term,
    Variable,
    attribute_variables,
    variables,
)
from superopt.ops.terms import application


def mapped(term: Term, change: Callable[[Application], Term]) -> Term:
    """The term with every application changed, inputs first."""
    if isinstance(term, Variable):
        return term
    return change(replace(term, inputs=tuple(mapped(child, change) for child in term.inputs)))


def with_terms(term: Term, terms: Mapping[str, Term]) -> Term:
    """The term with terms for its variables."""
    if isinstance(term, Variable):
        return terms.get(term.name, term)
    return replace(term, inputs=tuple(with_terms(child, terms) for child in term.inputs))


def with_values(term: Term, values: Mapping[str, AttributeTerm]) -> Term:
    """The term with values for its attribute variables; raises IllTypedError for one of the wrong kind."""

    def change(each: Application) -> Term:
        own = {
            name: values.get(value.name, value) if isinstance(value, AttributeVariable) else value
            for name, value in each.attributes
        }
        return application(each.operator, own, *each.inputs)

    return mapped(term, change)


def in_equation(equation: Equation, change: Callable[[Term], Term]) -> Equation:
    """The equation with both sides changed."""
    left, right = (tuple(map(change, side)) for side in (equation.left, equation.right))
    return replace(equation, left=left, right=right)


def with_attribute_values(equation: Equation, values: Mapping[str, AttributeTerm]) -> Equation | None:
    """The equation with values for attribute variables, in conditions too; None where one does not fit."""
    try:
        changed = in_equation(equation, lambda term: with_values(term, values))
    except IllTypedError:
        return None
    conditions = tuple(
        replace(
            each,
            left=_of_values(each.left, values),
            right=None if each.right is None else _of_values(each.right, values),
        )
        for each in equation.conditions
    )
    return replace(changed, conditions=conditions)


def _of_values(operand: ConditionTerm, values: Mapping[str, AttributeTerm]) -> ConditionTerm:
    match operand:
        case ConditionName(name) if name in values:
            value = values[name]
            if isinstance(value, AttributeVariable):
                return ConditionName(value.name)
            return value if isinstance(value, int | str | tuple) else operand
        case ConditionCall(function, arguments):
            return ConditionCall(function, tuple(_of_values(argument, values) for argument in arguments))
        case _:
            return operand


def renamed_apart(equation: Equation, other: Equation) -> Equation:
    """The equation with variables that the other one has not."""
    taken = {*all_names(other)}
    tensors, attributes = {}, {}
    for name in all_names(equation):
        new = name
        while new in taken:
            new += "1"
        taken.add(new)
        tensors[name], attributes[name] = Variable(new), AttributeVariable(new)
    changed = in_equation(equation, lambda term: with_values(with_terms(term, tensors), attributes))
    conditions = tuple(
        renamed_condition(each, {name: v.name for name, v in tensors.items()}) for each in equation.conditions
    )
    types = tuple((tensors[name].name, type_) for name, type_ in equation.types)
    return replace(changed, conditions=conditions, types=types)


def all_names(equation: Equation) -> tuple[str, ...]:
    """The names of tensors and attributes."""
    sides = equation.terms
    return (*variables(*sides), *sorted(attribute_variables(*sides)))
