"""Rank bound: the largest rank to check so that a proof holds at every rank.

A tensor of a higher rank has an axis that nothing in the proof distinguishes from its neighbours: no
operator's position, no fixed axis number, no value of an axis variable, and no failing step. If that axis is
removed from every tensor that has it, the same step fails at the next lower rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from superopt.errors import IllTypedError
from superopt.ir.numbers import AttributeVariable
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

HIGHEST = 32
"""A rule whose numbers ask for more ranks is unproved: the cases would be too many."""


def largest_rank(goal: Equation, used: Iterable[Equation] = (), met: Iterable[Term] = ()) -> int:
    """Return the rank bound for a rule with a proof that uses these axioms and passes through these terms.

    Without them, the bound covers the rule itself only. Raises IllTypedError if no bound is known, or
    one above ``HIGHEST``.
    """
    limit = most_rank(goal)
    if limit is not None:
        return limit
    axioms = tuple(used)
    every = (goal, *axioms)
    terms = [*applications(*met, *(term for equation in every for term in equation.terms))]
    places = [_positions(term) for term in terms]
    axes = [value for term in terms for value in _axes(term)] + [n for each in every for n in _named(each)]
    fixed = [rank for term in terms for rank in _lengths(term)] + [n for each in every for n in _ranks(each)]
    left = max([0, *places, *(axis + 1 for axis in axes if axis >= 0)])
    right = max([0, *places, *(-axis for axis in axes if axis < 0), *fixed])
    levels = 1 + sum(1 for term in terms if OPERATORS[term.operator].repeats)
    bound = levels * (left + len(axis_variables(goal))) + right + 2
    if bound > HIGHEST:
        raise IllTypedError(f"expected numbers that ask for ranks up to {HIGHEST} to be checked, got {bound}")
    return max([bound, *(number + 1 for each in every for number in _most(each))])


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


def axis_variables(goal: Equation) -> frozenset[str]:
    """Return the attribute variables that are axes."""
    values = (value for term in goal.applications for name, value in term.attributes if name == "axis")
    return frozenset(value.name for value in values if isinstance(value, AttributeVariable))


def _named(equation: Equation) -> Iterable[int]:
    """Yield the axes in conditions, as in ``dim(x, -1)``, ``axis(x, a) != 2`` and ``a > 2``."""
    axes = axis_variables(equation)
    for condition in equation.conditions:
        sides = [side for side in (condition.left, condition.right) if side is not None]
        for side in sides:
            yield from _within(side)
        if any(_is_axis(side, axes) for side in sides):
            yield from (side for side in sides if isinstance(side, int))


def _within(term: ConditionTerm) -> Iterable[int]:
    """Yield the numbers among the arguments of calls."""
    for argument in term.arguments if isinstance(term, ConditionCall) else ():
        if isinstance(argument, int):
            yield argument
        yield from _within(argument)


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


__all__ = ["HIGHEST", "axis_variables", "largest_rank"]
