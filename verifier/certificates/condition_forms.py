"""The forms of conditions whose cases are known: what a rule says of ranks and axes stands in plain sight.

A clause that hides a rank or an axis in a calculation, or looks a number up in a list by a rank, could hold
at one high rank only, which no bound on ranks sees. So could clauses that tie one axis variable to several
tensors, since an axis out of range is no error in a clause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from superopt.errors import IllTypedError
from superopt.ir.numbers import NumberExpression, names_of
from superopt.ir.terms import Condition, ConditionCall, ConditionName, ConditionTerm, Equation
from superopt.verifier.certificates.rank_bound import axis_variables

_OF_TENSORS = ("rank", "shape", "leading", "channels", "groups", "outputs_per_group")
_AT_AXES = ("axis", "dim")
_SIZES = ("dim", "channels", "groups", "outputs_per_group")


def require_known_forms(goal: Equation) -> None:
    """Raises IllTypedError for a rule with a clause of another form."""
    axes = axis_variables(goal)
    tensors: dict[str, set[str]] = defaultdict(set)
    for condition in goal.conditions:
        if not _is_known(condition, axes):
            raise IllTypedError("a condition is not of a form of which all cases are known")
        for call in _calls(condition):
            match call:
                case ConditionCall("axis" | "dim", (ConditionName(tensor), ConditionName(axis))):
                    tensors[axis].add(tensor)
                case _:
                    pass
    if any(len(found) > 1 for found in tensors.values()):
        raise IllTypedError("conditions relate an axis to several tensors")


def _is_known(condition: Condition, axes: frozenset[str]) -> bool:
    sides = [side for side in (condition.left, condition.right) if side is not None]
    bare = [isinstance(side, ConditionName) and side.name in axes for side in sides]
    if any(bare) and not all(one or isinstance(side, int) for one, side in zip(bare, sides, strict=True)):
        return False
    return all(_is_known_side(side, axes) for side in sides)


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


def _calls(condition: Condition) -> Iterator[ConditionCall]:
    sides: Iterable[ConditionTerm] = [side for side in (condition.left, condition.right) if side is not None]
    waiting = list(sides)
    while waiting:
        term = waiting.pop()
        if isinstance(term, ConditionCall):
            yield term
            waiting.extend(term.arguments)


__all__ = ["require_known_forms"]
