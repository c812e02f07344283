"""Typings of an equation for concrete input types: one for each choice of open attributes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import cast

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension
from superopt.ir.terms import Application, Equation, Variable, applications
from superopt.ir.types import TensorType
from superopt.rewriting.concrete import require_sizes, with_numbers
from superopt.rewriting.typing import Typing, infer_terms, leaves_shape_out

MAX_ELEMENTS = 1500
MAX_IMPLICIT = 8
"""How many choices of what the types leave open (cuts of halves, shapes of constants) make one instance."""

_MOST_CHOICES = 512


def typings_of(
    equation: Equation, types: Mapping[str, TensorType], attributes: Mapping[str, object]
) -> tuple[tuple[Typing, ...], bool]:
    """The typings of both sides for types without symbols, one for each choice of what these leave open, and
    whether the equation claims something there: it does not where choices are open and all make the outputs'
    types differ.

    Outputs have equal types where that can be; where it cannot, the typings show how they differ. Empty when
    a side is ill-typed, or a tensor has no elements or too many.
    """
    is_claim = True
    terms = (*equation.left, *equation.right)
    pairs = list(zip(equation.left, equation.right, strict=True))
    try:
        typing = infer_terms(terms, types, attributes, equal=pairs)
    except IllTypedError:
        try:
            typing = infer_terms(terms, types, attributes)
        except IllTypedError:
            return (), False
        is_claim = not typing.unresolved and not any(map(leaves_shape_out, applications(*terms)))
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
    return tuple(found), is_claim


def _resolved(
    typing: Typing, ordered: Sequence[Application], numbers: Mapping[str, Dimension]
) -> Typing | None:
    """The typing with numbers for what was open, every size positive; None when they do not fit."""
    types = {term.name: type_ for term, type_ in typing.types.items() if isinstance(term, Variable)}
    try:
        found = with_numbers(typing, ordered, types, numbers)
        for type_ in found.types.values():
            require_sizes(type_)
    except IllTypedError:
        return None
    is_large = any(cast("int", type_.elements) > MAX_ELEMENTS for type_ in found.types.values())
    return None if is_large else found
