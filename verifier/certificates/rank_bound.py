"""Rank bound: the largest rank to check so that a proof holds at every rank.

A tensor of a higher rank has an axis that nothing in the proof distinguishes from its neighbours: no
operator's position, no fixed axis number, no value of an axis variable, and no failing step. If that axis is
removed from every tensor that has it, the same step fails at the next lower rank. An axis variable follows,
because all tensors that it is an axis of have one rank (``rank_classes``).
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from superopt.errors import IllTypedError
from superopt.ir.terms import (
    Application,
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Equation,
    Term,
    applications,
)
from superopt.ops.base import OPERATORS
from superopt.rewriting.claims import most_rank
from superopt.rewriting.typing import leaves_shape_out
from superopt.verifier.certificates.condition_forms import axis_variables, calls_in, sides_of
from superopt.verifier.certificates.rank_classes import RankClasses

_AXES_OF_FUNCTIONS = {"channels": 1, "groups": 1, "outputs_per_group": 1, "leading": -1}

HIGHEST = 32
"""A rule whose numbers ask for more ranks is unproved: the cases would be too many."""


def largest_rank(goal: Equation, used: Iterable[Equation] = (), met: Iterable[Term] = ()) -> int:
    """Return the rank bound for a rule with a proof that uses these axioms and passes through these terms.

    Without them, the bound covers the rule itself only. Raises IllTypedError if no bound is known, or
    one above ``HIGHEST``.
    """
    limit = most_rank(goal)
    if limit is not None:
        _require_bounded_shapes(goal)
        return limit
    axioms = tuple(used)
    every = (goal, *axioms)
    own = [*applications(*goal.terms, *met)]
    terms = [*own, *applications(*(term for equation in axioms for term in equation.terms))]
    RankClasses(own, goal).require_axes_apart()
    places = [_positions(term) for term in terms]
    axes = [value for term in terms for value in _axes(term)] + [n for each in every for n in _named(each)]
    fixed = [rank for term in terms for rank in _lengths(term)] + [n for each in every for n in _ranks(each)]
    left = max([0, *places, *fixed, *(axis + 1 for axis in axes if axis >= 0)])
    right = max([0, *places, *fixed, *(-axis for axis in axes if axis < 0)])
    levels = 1 + sum(1 for term in terms if OPERATORS[term.operator].repeats)
    bound = levels * (left + len(axis_variables(goal))) + right + 2
    bound = max([bound, *(number + 1 for each in every for number in _most(each))])
    if bound > HIGHEST:
        raise IllTypedError(f"expected numbers that ask for ranks up to {HIGHEST} to be checked, got {bound}")
    return bound


def highest_rank(goal: Equation, largest_rank: int) -> int:
    """Return the highest rank of any term of a rule whose variables have at most that rank."""
    lengths = [rank for term in goal.applications for rank in _lengths(term)]
    raising = sum(OPERATORS[term.operator].positions is None for term in goal.applications)
    return max([largest_rank, *lengths]) + raising


def _require_bounded_shapes(goal: Equation) -> None:
    """Raises IllTypedError if an omitted shape is not that of a term whose rank is limited."""
    if any(map(leaves_shape_out, goal.applications)):
        classes = RankClasses([*applications(*goal.terms)], goal)
        if not all(classes.is_limited(term) for term in goal.applications if leaves_shape_out(term)):
            raise IllTypedError("a shape that is left out may be of any rank")


def _positions(term: Application) -> int:
    places, perm = OPERATORS[term.operator].positions, term.attribute("perm")
    if places is None:
        raise IllTypedError(f"at which ranks {term.operator} is well-typed is not known for all ranks")
    return max(places, len(perm) if isinstance(perm, tuple) else 0)


def _axes(term: Application) -> Iterable[int]:
    value = term.attribute("axis")
    return (value,) if isinstance(value, int) else ()


def _lengths(term: Application) -> Iterable[int]:
    """Yield the rank that a constant's shape gives as numbers."""
    shape = term.attribute("shape")
    return (len(shape),) if isinstance(shape, tuple) else ()


def _named(equation: Equation) -> Iterable[int]:
    """Yield the axes in conditions, as in ``dim(x, -1)``, ``axis(x, a) != 2`` and ``a > 2``; channels and
    outputs are axes 1 and 0, and ``leading`` speaks of the last one."""
    axes = axis_variables(equation)
    for condition in equation.conditions:
        for call in calls_in(condition):
            yield from (argument for argument in call.arguments if isinstance(argument, int))
            if call.function in _AXES_OF_FUNCTIONS:
                yield _AXES_OF_FUNCTIONS[call.function]
        sides = list(sides_of(condition))
        if any(_is_axis(side, axes) for side in sides):
            yield from (side for side in sides if isinstance(side, int))


def _is_axis(side: ConditionTerm, axes: Set[str]) -> bool:
    if isinstance(side, ConditionCall):
        return side.function == "axis"
    return isinstance(side, ConditionName) and side.name in axes


def _ranks(equation: Equation) -> Iterable[int]:
    """Yield the ranks in conditions and declared types; ``leading`` leaves out one axis."""
    yield from (len(type_.shape) for _, type_ in equation.types)
    for condition in equation.conditions:
        sides = (condition.left, condition.right)
        yield from (len(side) + 1 for side in sides if isinstance(side, tuple))
        if not _is_most(condition):
            yield from _compared_ranks(condition)


def _most(equation: Equation) -> Iterable[int]:
    """Yield the ranks that conditions give as the highest: tensors with an axis less fulfil them, too."""
    for condition in equation.conditions:
        if _is_most(condition):
            yield from _compared_ranks(condition)


def _is_most(condition: Condition) -> bool:
    return isinstance(condition.right, int) and condition.relation in ("<", "<=")


def _compared_ranks(condition: Condition) -> Iterable[int]:
    sides = (condition.left, condition.right)
    if any(isinstance(side, ConditionCall) and side.function == "rank" for side in sides):
        yield from (abs(side) for side in sides if isinstance(side, int))


__all__ = ["HIGHEST", "highest_rank", "largest_rank"]
