"""Relations between forms of a rule: instances by attribute values, matrix forms."""

from __future__ import annotations

from dataclasses import replace

from superopt.ir.numbers import AttributeVariable, NumberExpression, has_value, names_of
from superopt.ir.terms import (
    AttributeTerm,
    Condition,
    ConditionCall,
    ConditionName,
    Equation,
    Term,
    Variable,
)
from superopt.ops.attributes import normalise_attribute
from superopt.ops.base import attribute_defaults, attribute_names
from superopt.ops.terms import application
from superopt.ops.traits import named

_AXES_OF_MATRICES = 2
_OF_MATRICES = named(lambda operator: operator.positions == _AXES_OF_MATRICES)
_CONSTANTS = named(lambda operator: operator.constant)


def is_instance(special: Equation, general: Equation) -> bool:
    """Whether the special form is the general one for some values of its attribute variables.

    Names of tensors may differ. Also False if this is not easily decided: if several outputs are in another
    order, or the general form has conditions or declared types.
    """
    if general.conditions or general.types or len(special.left) != len(general.left):
        return False
    values: dict[str, object] = {}
    names: dict[str, str] = {}
    pairs = zip(special.terms, general.terms, strict=True)
    matched = all(_matches(one, other, values, names) for one, other in pairs)
    return matched and len(set(names.values())) == len(names)


def with_matrix_axes(equation: Equation) -> Equation | None:
    """Rewrite a rule about constant matrices so that axes 0 and 1 count from the end, as in matrix products.

    It claims the same for matrices, and more for batches. None for other rules.
    """
    operators = {term.operator for term in equation.applications}
    if not operators & _OF_MATRICES or not operators & _CONSTANTS:
        return None
    left, right = (tuple(map(_from_the_end, side)) for side in (equation.left, equation.right))
    if (left, right) == (equation.left, equation.right):
        return None
    return replace(equation, left=left, right=right)


def with_bounded_ranks(equation: Equation, most: int) -> Equation:
    """The equation claimed only for tensors with at most that many axes."""
    bounds = (
        Condition(ConditionCall("rank", (ConditionName(name),)), "<=", most) for name in equation.variables
    )
    return replace(equation, conditions=(*equation.conditions, *bounds))


def _from_the_end(term: Term) -> Term:
    if isinstance(term, Variable):
        return term
    values = {
        name: value - 2 if name == "axis" and value in (0, 1) and isinstance(value, int) else value
        for name, value in term.attributes
    }
    return application(term.operator, values, *map(_from_the_end, term.inputs))


def _matches(special: Term, general: Term, values: dict[str, object], names: dict[str, str]) -> bool:
    if isinstance(special, Variable) or isinstance(general, Variable):
        if not isinstance(special, Variable) or not isinstance(general, Variable):
            return False
        return names.setdefault(general.name, special.name) == special.name
    if special.operator != general.operator or len(special.inputs) != len(general.inputs):
        return False
    defaults = attribute_defaults(general.operator)
    for name in attribute_names(general.operator):
        own, wanted = (
            _written(name, term.attribute(name), defaults.get(name)) for term in (special, general)
        )
        if isinstance(wanted, AttributeVariable):
            if own is None or values.setdefault(wanted.name, own) != own:
                return False
        elif isinstance(wanted, NumberExpression):
            if names_of(wanted) - values.keys() or not has_value(wanted, values, own):
                return False
        elif own != wanted:
            return False
    return all(
        _matches(one, other, values, names) for one, other in zip(special.inputs, general.inputs, strict=True)
    )


def _written(name: str, value: AttributeTerm | None, default: object) -> object:
    chosen = default if value is None else value
    if chosen is None or names_of(chosen):
        return chosen
    return normalise_attribute(name, chosen)


__all__ = ["is_instance", "with_matrix_axes"]
