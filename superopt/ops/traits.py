"""Which operators have a trait: what the heads of axiom schemas are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from superopt.ops.base import OPERATORS, Operator, attribute_names

_DECLARED = tuple(
    name
    for name, annotation in Operator.__annotations__.items()
    if annotation == "ClassVar[bool]" and name != "foldable"
)
_COUNTED: Mapping[str, Callable[[type[Operator]], bool]] = {
    "unary": lambda operator: operator.inputs == 1,
    "binary": lambda operator: operator.inputs == 2,
    "ternary": lambda operator: operator.inputs == 3,
    "of_one": lambda operator: operator.inputs - operator.side_inputs == 1,
    "of_two": lambda operator: operator.inputs - operator.side_inputs == 2,
}
"""How many inputs there are, and how many when side inputs do not count."""

_ATTRIBUTE = "has_"


def trait_names() -> tuple[str, ...]:
    """All traits but those of one operator each: class variables, numbers of inputs, attributes."""
    attributes = sorted(
        {f"{_ATTRIBUTE}{name}" for operator in OPERATORS for name in attribute_names(operator)}
    )
    return (*_DECLARED, *_COUNTED, *attributes)


def operators_with(trait: str) -> frozenset[str] | None:
    """The operators that have the trait; the name of an operator is a trait of it alone; None if unknown."""
    if trait in OPERATORS:
        return frozenset((trait,))
    if trait in _DECLARED:
        return frozenset(name for name, operator in OPERATORS.items() if getattr(operator, trait))
    if trait in _COUNTED:
        return frozenset(name for name, operator in OPERATORS.items() if _COUNTED[trait](operator))
    if trait in trait_names():
        attribute = trait.removeprefix(_ATTRIBUTE)
        return frozenset(name for name in OPERATORS if attribute in attribute_names(name))
    return None
