"""The forms of conditions whose cases are known: what a rule says of ranks and axes stands in plain sight.

A clause that hides a rank or an axis in a calculation, or looks a number up in a list by a rank, could hold
at one high rank only, which no bound on ranks sees.
"""

from __future__ import annotations

from collections.abc import Iterator

from superopt.errors import IllTypedError
from superopt.ir.numbers import AttributeVariable, NumberExpression, names_of
from superopt.ir.terms import Condition, ConditionCall, ConditionName, ConditionTerm, Equation

_OF_TENSORS = ("rank", "shape", "leading", "channels", "groups", "outputs_per_group")
_AT_AXES = ("axis", "dim")
_SIZES = ("dim", "channels", "groups", "outputs_per_group")


def require_known_forms(goal: Equation) -> None:
    """Raises IllTypedError for a rule with a clause of another form."""
    axes = axis_variables(goal)
    if not all(_is_known(condition, axes) for condition in goal.conditions):
        raise IllTypedError("a condition is not of a form of which all cases are known")


def axis_variables(goal: Equation) -> frozenset[str]:
    """Return the attribute variables that are axes."""
    values = (value for term in goal.applications for name, value in term.attributes if name == "axis")
    return frozenset(value.name for value in values if isinstance(value, AttributeVariable))


def sides_of(condition: Condition) -> Iterator[ConditionTerm]:
    """Yield both sides, or the one of a clause without a relation."""
    yield condition.left
    if condition.right is not None:
        yield condition.right


def calls_in(condition: Condition) -> Iterator[ConditionCall]:
    """Yield all calls, also those that are arguments of others."""
    waiting = list(sides_of(condition))
    while waiting:
        term = waiting.pop()
        if isinstance(term, ConditionCall):
            yield term
            waiting.extend(term.arguments)


def sizes_in(condition: Condition) -> Iterator[int]:
    """Yield the whole numbers of a clause, also those in lists and calls, unless it is about ranks or
    axes."""
    about_ranks = any(call.function in ("rank", "axis") for call in calls_in(condition))
    waiting = [] if about_ranks else list(sides_of(condition))
    while waiting:
        term = waiting.pop()
        if isinstance(term, int):
            yield term
        elif isinstance(term, ConditionCall | tuple):
            waiting.extend(term.arguments if isinstance(term, ConditionCall) else term)


def _is_known(condition: Condition, axes: frozenset[str]) -> bool:
    sides = list(sides_of(condition))
    bare = [isinstance(side, ConditionName) and side.name in axes for side in sides]
    if any(bare) and not all(one or isinstance(side, int) for one, side in zip(bare, sides, strict=True)):
        return False
    return _compares_ranks(sides) and all(_is_known_side(side, axes) for side in sides)


def _compares_ranks(sides: list[ConditionTerm]) -> bool:
    """Whether ranks and axes are compared with numbers and with their like only."""
    kinds = [side.function for side in sides if isinstance(side, ConditionCall)]
    for kind in ("rank", "axis"):
        if kind in kinds and kinds != [kind] * 2 and not any(isinstance(side, int) for side in sides):
            return False
    return True


def _is_known_side(side: ConditionTerm, axes: frozenset[str]) -> bool:
    match side:
        case ConditionCall("odd" | "even", (ConditionCall() as inner,)):
            return inner.function in ("dim", "shape", "leading", "channels") and _is_known_side(inner, axes)
        case ConditionCall("odd" | "even", (argument,)):
            return isinstance(argument, int) or _is_name(argument, axes)
        case ConditionCall("composed", arguments):
            return all(_is_name(argument, axes) for argument in arguments)
        case ConditionCall("product", arguments):
            return all(_is_factor(argument, axes) for argument in arguments)
        case ConditionCall(function, (tensor, axis)) if function in _AT_AXES:
            return isinstance(tensor, ConditionName) and (
                isinstance(axis, int) or (isinstance(axis, ConditionName) and axis.name in axes)
            )
        case ConditionCall(function, arguments) if function in _OF_TENSORS:
            return all(isinstance(argument, ConditionName) for argument in arguments)
        case ConditionCall():
            return False
        case NumberExpression():
            return names_of(side).isdisjoint(axes)
        case _:
            return True


def _is_name(term: ConditionTerm, axes: frozenset[str]) -> bool:
    return isinstance(term, ConditionName) and term.name not in axes


def _is_factor(term: ConditionTerm, axes: frozenset[str]) -> bool:
    if isinstance(term, ConditionCall):
        return term.function in _SIZES and _is_known_side(term, axes)
    return isinstance(term, int) or _is_name(term, axes)


__all__ = ["axis_variables", "calls_in", "require_known_forms", "sides_of", "sizes_in"]
