"""The tensor ranks for which a rule is claimed, where its text alone does not limit them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import cast

from superopt.ir.terms import AttributeVariable, Equation, applications
from superopt.ir.types import TensorType
from superopt.ops.base import OPERATORS

MOST_RANK = 5
"""Of tensors in rules that reshape, or permute axes in a way that they leave open."""


@lru_cache(maxsize=65536)
def most_rank(equation: Equation) -> int | None:
    """The highest rank of tensors that a rule speaks of; None when it speaks of all ranks.

    Where every axis may matter, ranks are gone through one by one when the rule is proved, and it is not
    applied beyond.
    """
    for term in applications(*equation.left, *equation.right):
        if OPERATORS[term.operator].positions is None or isinstance(
            term.attribute("perm"), AttributeVariable
        ):
            return MOST_RANK
    return None


def speaks_of(equation: Equation, types: Mapping[str, TensorType], attributes: Mapping[str, object]) -> bool:
    """Whether the ranks of its variables, and the shapes that it says, are within what the rule claims."""
    most = most_rank(equation)
    if most is None:
        return True
    lengths = (len(cast("tuple[object, ...]", v)) for v in attributes.values() if isinstance(v, tuple))
    return max([0, *(type_.rank for type_ in types.values()), *lengths]) <= most


__all__ = ["MOST_RANK", "most_rank", "speaks_of"]
