"""Whether one form of a rule is another with values put in for its attribute variables."""

from __future__ import annotations

from superopt.ir.terms import AttributeTerm, AttributeVariable, Equation, Term, Variable
from superopt.ops.attributes import normalise_attribute
from superopt.ops.base import attribute_defaults, attribute_names


def is_instance(special: Equation, general: Equation) -> bool:
    """Whether the special form is the general one for some values of its attribute variables.

    Names of tensors may differ. False also where that is not plain to see: for several outputs in another
    order, or when the general form has conditions or declared types.
    """
    if general.conditions or general.types or len(special.left) != len(general.left):
        return False
    values: dict[str, object] = {}
    names: dict[str, str] = {}
    pairs = zip((*special.left, *special.right), (*general.left, *general.right), strict=True)
    matched = all(_matches(one, other, values, names) for one, other in pairs)
    return matched and len(set(names.values())) == len(names)


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
        elif own != wanted:
            return False
    return all(
        _matches(one, other, values, names) for one, other in zip(special.inputs, general.inputs, strict=True)
    )


def _written(name: str, value: AttributeTerm | None, default: object) -> object:
    chosen = default if value is None else value
    if chosen is None or isinstance(chosen, AttributeVariable):
        return chosen
    return normalise_attribute(name, chosen)


__all__ = ["is_instance"]
