"""What an equation says about ranks and sizes before any are tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from superopt.ir.terms import (
    Application,
    AttributeVariable,
    Condition,
    ConditionCall,
    ConditionName,
    Equation,
    Term,
    Variable,
    applications,
    subterms,
)
from tests.verifier.brute.meaning import IMPLICIT, RANKS

MOST_RANK = 9
MOST_REARRANGED = 5
"""A rule that reshapes, or permutes axes in a way that it leaves open, speaks of no more axes than that."""


@lru_cache(maxsize=1024)
def most_rank(equation: Equation) -> int:
    """The most axes of a tensor of which the equation speaks."""
    for term in equation.applications:
        if term.operator == "reshape" or isinstance(term.attribute("perm"), AttributeVariable):
            return MOST_REARRANGED
    return MOST_RANK


def ranks_to_try(equation: Equation, axes: Sequence[int]) -> list[int]:
    """The ranks at which two axes of different signs meet, then those where an axis is the first or last."""
    front, back = [a for a in axes if a >= 0], [a for a in axes if a < 0]
    meeting = [a - b for a in front for b in back]
    borders = [*(a + 1 for a in front), *(-b for b in back), *(a + 2 for a in front)]
    declared = [len(type_.shape) for _, type_ in equation.types]
    found = [*meeting, *declared, *borders, 2, 3, 1, 4]
    return [rank for rank in dict.fromkeys(found) if 0 <= rank <= MOST_RANK]


@lru_cache(maxsize=1024)
def pinned(
    conditions: tuple[Condition, ...],
) -> tuple[Mapping[str, int], Mapping[str, Mapping[int, int]]]:
    """Ranks and sizes of variables that conditions say as numbers."""
    ranks: dict[str, int] = {}
    sizes: dict[str, dict[int, int]] = {}
    for condition in conditions:
        match condition:
            case Condition(ConditionCall("rank", (ConditionName(name),)), "=", int(rank)):
                ranks[name] = rank
            case Condition(ConditionCall("rank", (ConditionName(name),)), ">", int(rank)):
                ranks[name] = rank + 1
            case Condition(ConditionCall("dim", (ConditionName(name), int(axis))), "=", int(size)):
                sizes.setdefault(name, {})[axis] = size
            case _:
                pass
    return ranks, sizes


@lru_cache(maxsize=1024)
def only_ranks(equation: Equation) -> Mapping[str, int]:
    """The ranks of variables to which an operator is applied that takes one rank only."""
    found: dict[str, int] = {}
    for term in equation.applications:
        for child, allowed in zip(term.inputs, RANKS.get(term.operator, ()), strict=False):
            if isinstance(child, Variable) and len(allowed) == 1:
                (found[child.name],) = allowed
    return found


@lru_cache(maxsize=4096)
def variables_in(term: Term) -> tuple[Variable, ...]:
    """The distinct variables of a term."""
    return tuple(each for each in subterms(term) if isinstance(each, Variable))


@lru_cache(maxsize=4096)
def open_in(term: Term) -> frozenset[str] | None:
    """The attribute variables of a term; None where it leaves out a size that types around it determine."""
    inside = tuple(applications(term))
    if any(_leaves_out(each) for each in inside):
        return None
    values = (value for each in inside for _, value in each.attributes)
    return frozenset(value.name for value in values if isinstance(value, AttributeVariable))


def _leaves_out(term: Application) -> bool:
    return term.operator in IMPLICIT and term.attribute(IMPLICIT[term.operator]) is None
