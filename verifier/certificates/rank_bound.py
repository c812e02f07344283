"""Rank bound: the largest rank to check so that a proof holds at every rank.

A tensor of a higher rank has an axis that nothing in the proof distinguishes from its neighbours: no
operator's position, no fixed axis number, no value of an axis variable, and no failing step. If that axis is
removed from every tensor that has it, the same step fails at the next lower rank.
"""

from __future__ import annotations

from collections.abc import Iterable

from superopt.errors import IllTypedError
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import (
    Application,
    ConditionCall,
    Equation,
    Term,
    applications,
)
from superopt.ops.base import OPERATORS
from superopt.rewriting.claims import most_rank


def largest_rank(goal: Equation, used: Iterable[Equation] = (), met: Iterable[Term] = ()) -> int:
    """Return the rank bound for a rule with a proof that uses these axioms and passes through these terms.

    Without them, the bound covers the rule itself only. Raises IllTypedError if no bound is known.
    """
    limit = most_rank(goal)
    if limit is not None:
        return limit
    axioms = tuple(used)
    every = (goal, *axioms)
    terms = [*applications(*met, *(term for equation in every for term in equation.terms))]
    places = [_positions(term) for term in terms]
    axes = [value for term in terms for value in _axes(term)] + [n for each in every for n in _named(each)]
    left = max([0, *places, *(axis + 1 for axis in axes if axis >= 0)])
    right = max([0, *places, *(-axis for axis in axes if axis < 0)])
    variables = sum(1 for name in goal.attribute_variables if _is_axis(goal, name))
    levels = 1 + sum(1 for term in terms if OPERATORS[term.operator].repeats)
    said = [number + 1 for equation in every for number in _ranks(equation)]
    return max([levels * (left + variables) + right + 2, *said])


def _positions(term: Application) -> int:
    places, perm = OPERATORS[term.operator].positions, term.attribute("perm")
    if places is None:
        raise IllTypedError(f"at which ranks {term.operator} is well-typed is not known for all ranks")
    return max(places, len(perm) if isinstance(perm, tuple) else 0)


def _axes(term: Application) -> Iterable[int]:
    value = term.attribute("axis")
    return (value,) if isinstance(value, int) else ()


def _is_axis(goal: Equation, name: str) -> bool:
    return any(
        attribute == "axis" and value == AttributeVariable(name)
        for term in goal.applications
        for attribute, value in term.attributes
    )


def _named(equation: Equation) -> Iterable[int]:
    """Yield the axes in conditions, as in ``dim(x, -1)`` and ``axis(x, a) != 2``."""
    for call in _calls(equation):
        yield from (each for each in call.arguments if isinstance(each, int))
    for condition in equation.conditions:
        sides = (condition.left, condition.right)
        if any(isinstance(side, ConditionCall) and side.function == "axis" for side in sides):
            yield from (side for side in sides if isinstance(side, int))


def _ranks(equation: Equation) -> Iterable[int]:
    """Yield the ranks in the conditions and declared types of an equation."""
    yield from (len(type_.shape) for _, type_ in equation.types)
    for condition in equation.conditions:
        sides = (condition.left, condition.right)
        if any(isinstance(side, ConditionCall) for side in sides):
            yield from (abs(side) for side in sides if isinstance(side, int))


def _calls(equation: Equation) -> Iterable[ConditionCall]:
    sides = (side for each in equation.conditions for side in (each.left, each.right))
    return (side for side in sides if isinstance(side, ConditionCall))


__all__ = ["largest_rank"]
