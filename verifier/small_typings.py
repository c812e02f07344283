"""The typings of an equation for types without symbols: one for each choice of what these leave open."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import cast

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension
from superopt.ir.terms import Application, Equation, Term, Variable, applications
from superopt.ir.types import TensorType
from superopt.ops.attributes import substituted
from superopt.ops.base import Operator, attributes_of, operator_from_attributes
from superopt.rewriting.typing import Typing, infer_terms
from superopt.verifier.concrete import require_sizes

MAX_ELEMENTS = 1500
MAX_IMPLICIT = 8
"""How many choices of what the types leave open (cuts of halves, shapes of constants) make one instance."""

_MOST_CHOICES = 512


def typings_of(
    equation: Equation, types: Mapping[str, TensorType], attributes: Mapping[str, object]
) -> tuple[Typing, ...]:
    """The typings of both sides for types without symbols, one for each choice of what these leave open.

    Outputs have equal types where that can be; where it cannot, the typings show how they differ. Empty when
    a side is ill-typed, or a tensor has no elements or too many.
    """
    terms = (*equation.left, *equation.right)
    pairs = list(zip(equation.left, equation.right, strict=True))
    try:
        typing = infer_terms(terms, types, attributes, equal=pairs)
    except IllTypedError:
        try:
            typing = infer_terms(terms, types, attributes)
        except IllTypedError:
            return ()
    ordered = tuple(applications(*terms))
    implicit = sorted(typing.unresolved)
    largest = max((d for t in types.values() for d in t.shape if isinstance(d, int)), default=1)
    numbers = itertools.product(range(1, largest + 1), repeat=len(implicit))
    found: list[Typing] = []
    for chosen in itertools.islice(numbers, _MOST_CHOICES):
        resolved = _resolved(typing, ordered, dict(zip(implicit, chosen, strict=True)))
        if resolved is not None:
            found.append(resolved)
        if len(found) == MAX_IMPLICIT:
            break
    return tuple(found)


def _resolved(
    typing: Typing, ordered: Sequence[Application], numbers: Mapping[str, Dimension]
) -> Typing | None:
    """The typing with numbers for what was open, every size positive; None when they do not fit."""
    types: dict[Term, TensorType] = {t: type_ for t, type_ in typing.types.items() if isinstance(t, Variable)}
    operators: dict[Application, Operator] = {}
    try:
        for term in ordered:
            operator = typing.operators[term]
            if numbers:
                values = {
                    name: substituted(value, numbers) for name, value in attributes_of(operator).items()
                }
                operator = operator_from_attributes(operator.name, values)
            operators[term] = operator
            (types[term],) = operator.infer(*(types[child] for child in term.inputs))
        for type_ in types.values():
            require_sizes(type_)
    except IllTypedError:
        return None
    if any(cast("int", type_.elements) > MAX_ELEMENTS for type_ in types.values()):
        return None
    return Typing(types, operators, {})
