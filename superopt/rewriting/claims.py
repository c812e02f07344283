"""The tensor ranks for which a rule is claimed, where its text alone does not limit them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import cast

from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Equation
from superopt.ir.types import TensorType
from superopt.ops.base import OPERATORS

MOST_RANK = 5
"""Maximum rank of tensors in rules that reshape, or that permute axes by an attribute variable."""


@lru_cache(maxsize=65536)
def most_rank(equation: Equation) -> int | None:
    """The highest tensor rank for which a rule is claimed; None for all ranks. Where every axis may matter, a
    rule is proved for each rank separately, and not applied above that rank."""
    for term in equation.applications:
        if OPERATORS[term.operator].positions is None or isinstance(
            term.attribute("perm"), AttributeVariable
        ):
            return MOST_RANK
    return None


def speaks_of(equation: Equation, types: Mapping[str, TensorType], attributes: Mapping[str, object]) -> bool:
    """Whether the ranks of the variables, and the lengths of shape attributes, are within the rule's
    claim."""
    most = most_rank(equation)
    if most is None:
        return True
    lengths = (len(cast("tuple[object, ...]", v)) for v in attributes.values() if isinstance(v, tuple))
    return max([0, *(type_.rank for type_ in types.values()), *lengths]) <= most


__all__ = ["MOST_RANK", "most_rank", "speaks_of"]
