"""Operator traits by name, for terms and graphs, and the operators that have a given trait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

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
"""The number of inputs, and the number without side inputs."""

_ATTRIBUTE = "has_"


def traits(name: str) -> type[Operator]:
    """The class of the operator of that name; ``Operator``, with every trait at its default, for inputs,
    weights and nodes without an operator."""
    return OPERATORS.get(name, Operator)


def sums_products(name: str) -> bool:
    """Whether the operator is a product of matrices, or of an image and a kernel, which is not its first
    operand: a convolution or a transposed one."""
    own = traits(name)
    return own.product is not None or bool(own.kernel_input)


def named(has: Callable[[type[Operator]], bool]) -> frozenset[str]:
    """The names of the operators with a trait."""
    return frozenset(name for name, operator in OPERATORS.items() if has(operator))


HALVES = tuple(sorted(named(lambda operator: operator.half is not None)))
"""The operators that are the first and the second half of a tensor."""

ALIASES = named(lambda operator: operator.renames or operator.repeats)
"""The operators that return the input's elements in place, with another shape."""

GROUPED = named(lambda operator: operator.grouped is not Operator.grouped)
"""The operators whose channels may be grouped."""


def graph_name(operator: str) -> str:
    """The name of the graph operator that a rule's operator matches."""
    return traits(operator).in_graphs or operator


def rule_names(operator: str) -> Iterator[str]:
    """The names of a graph operator in rules, its own first."""
    yield operator
    yield from (name for name in OPERATORS if name != operator and graph_name(name) == operator)


def trait_names() -> tuple[str, ...]:
    """All traits except those that describe a single operator: class variables, numbers of inputs,
    attributes."""
    attributes = sorted(
        {f"{_ATTRIBUTE}{name}" for operator in OPERATORS for name in attribute_names(operator)}
    )
    return (*_DECLARED, *_COUNTED, *attributes)


def operators_with(trait: str) -> frozenset[str] | None:
    """The operators that have the trait; the name of an operator is a trait that only it has; None if
    unknown."""
    if trait in OPERATORS:
        return frozenset((trait,))
    if trait in _DECLARED:
        return named(lambda operator: bool(getattr(operator, trait)))
    if trait in _COUNTED:
        return named(_COUNTED[trait])
    if trait in trait_names():
        attribute = trait.removeprefix(_ATTRIBUTE)
        return frozenset(name for name in OPERATORS if attribute in attribute_names(name))
    return None


__all__ = [
    "ALIASES",
    "GROUPED",
    "HALVES",
    "graph_name",
    "named",
    "operators_with",
    "rule_names",
    "sums_products",
    "trait_names",
    "traits",
]
