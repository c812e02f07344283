"""Forms of conditions: what hides a rank or an axis, and what relates the ranks of several tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from superopt.ir.numbers import NumberExpression, names_of
from superopt.ir.terms import (
    AttributeVariable,
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Equation,
)
from tests.verifier.second_checker.typing_state import UnknownCasesError

WITH_AXIS = ("dim", "axis")
OF_TENSORS = ("dim", "axis", "channels", "groups", "outputs_per_group")
"""Functions of tensors that say nothing of a rank but whether there is an axis."""
OF_SHAPES = ("rank", "shape", "leading")


@dataclass(frozen=True)
class Names:
    """What the names in the conditions of an equation are."""

    tensors: frozenset[str]
    axes: frozenset[str]
    shapes: frozenset[str]


def names_of_equation(equation: Equation) -> Names:
    """Tensor variables, axis variables (also those that only conditions use as an axis) and open shapes."""
    kinds: dict[str, set[str]] = {"axis": set(), "shape": set()}
    for part in equation.applications:
        for attribute, value in part.attributes:
            if isinstance(value, AttributeVariable) and attribute in kinds:
                kinds[attribute].add(value.name)
    for condition in equation.conditions:
        for call in calls(condition):
            if call.function in WITH_AXIS and isinstance(call.arguments[1], ConditionName):
                kinds["axis"].add(call.arguments[1].name)
    return Names(frozenset(equation.variables), frozenset(kinds["axis"]), frozenset(kinds["shape"]))


def operands(condition: Condition) -> tuple[ConditionTerm, ...]:
    """One or two."""
    return tuple(side for side in (condition.left, condition.right) if side is not None)


def parts(condition: Condition) -> Iterator[ConditionTerm]:
    """Operands, and all arguments of functions in them."""
    waiting = [*operands(condition)]
    while waiting:
        term = waiting.pop()
        yield term
        if isinstance(term, ConditionCall):
            waiting += term.arguments


def calls(condition: Condition) -> Iterator[ConditionCall]:
    """All functions applied."""
    return (term for term in parts(condition) if isinstance(term, ConditionCall))


def is_axis(term: ConditionTerm, axes: Collection[str]) -> bool:
    """Whether the term is an axis variable."""
    return isinstance(term, ConditionName) and term.name in axes


def is_call(term: ConditionTerm, *functions: str) -> bool:
    """Whether the term is one of these functions, applied."""
    return isinstance(term, ConditionCall) and term.function in functions


def require_plain(conditions: Sequence[Condition], names: Names) -> None:
    """Raises UnknownCasesError for a clause that hides a rank or an axis."""
    for condition in conditions:
        _require_plain_calls(condition, names.axes)
        for term in parts(condition):
            if isinstance(term, NumberExpression) and names_of(term) & names.axes:
                raise UnknownCasesError("a condition calculates with an axis")
        _require_like(operands(condition), names.axes)


def _require_plain_calls(condition: Condition, axes: frozenset[str]) -> None:
    for call in calls(condition):
        if any(isinstance(argument, tuple) for argument in call.arguments):
            raise UnknownCasesError("a condition has a list as an argument")
        if any(is_call(argument, "rank", "axis") for argument in call.arguments):
            raise UnknownCasesError("a condition calculates with ranks or axes")
        if call.function in WITH_AXIS:
            tensor, axis = call.arguments
            number = isinstance(axis, int) and not isinstance(axis, bool)
            if not isinstance(tensor, ConditionName) or not (number or is_axis(axis, axes)):
                raise UnknownCasesError("a condition calculates an axis")
        elif any(is_axis(argument, axes) for argument in call.arguments):
            raise UnknownCasesError("a condition calculates with axes")
        of_tensor = call.function in (*OF_TENSORS, *OF_SHAPES)
        if of_tensor and not isinstance(call.arguments[0], ConditionName):
            raise UnknownCasesError("a condition asks for the shape of what is calculated")
        if call.function == "composed" and not all(isinstance(a, ConditionName) for a in call.arguments):
            raise UnknownCasesError("a condition composes what are no permutations")


def _require_like(sides: Sequence[ConditionTerm], axes: frozenset[str]) -> None:
    """Axis variables, ``axis`` and ``rank`` are compared with numbers and each with its like only."""
    likes = (
        [is_axis(side, axes) for side in sides],
        [is_call(side, "axis") for side in sides],
        [is_call(side, "rank") for side in sides],
    )
    for like in likes:
        if any(like) and not (
            len(sides) > 1 and all(is_number(side) or own for side, own in zip(sides, like, strict=True))
        ):
            raise UnknownCasesError("a condition compares a rank or an axis with what is none")


def is_number(term: ConditionTerm) -> bool:
    """Whether the term is a number."""
    return not isinstance(term, str | tuple | ConditionName | ConditionCall | NumberExpression)


def same_ranks(condition: Condition, names: Names) -> tuple[str, str] | None:
    """The two tensors (or a tensor and an open shape) that a condition gives the same rank; None where it
    relates no ranks; raises UnknownCasesError where it does so in another way."""
    sides = operands(condition)
    found = {name for side in sides for name in _shaped(side, names)}
    if len(found) < len(("one", "other")):
        return None
    forms = [_form(side, names) for side in sides]
    if condition.relation == "=" and None not in forms:
        (kind, one), (other_kind, other) = (form for form in forms if form is not None)
        if kind == other_kind and kind != "open shape":
            return one, other
        if {kind, other_kind} == {"shape", "open shape"}:
            return one, other
    raise UnknownCasesError("a condition relates the ranks of several tensors")


def _form(side: ConditionTerm, names: Names) -> tuple[str, str] | None:
    """What an operand says of one tensor, and of which."""
    if isinstance(side, ConditionName):
        if side.name in names.tensors:
            return "tensor", side.name
        return ("open shape", side.name) if side.name in names.shapes else None
    if isinstance(side, ConditionCall) and side.function in OF_SHAPES:
        (of,) = side.arguments
        if isinstance(of, ConditionName) and of.name in names.tensors:
            return side.function, of.name
    return None


def _shaped(term: ConditionTerm, names: Names) -> Iterator[str]:
    """The tensors and open shapes of whose ranks an operand says something."""
    if isinstance(term, ConditionName):
        if term.name in names.tensors | names.shapes:
            yield term.name
    elif isinstance(term, ConditionCall):
        of_tensors = term.function in OF_TENSORS
        for argument in term.arguments:
            if not of_tensors or not isinstance(argument, ConditionName):
                yield from _shaped(argument, names)


__all__ = [
    "Names",
    "calls",
    "is_axis",
    "is_call",
    "is_number",
    "names_of_equation",
    "operands",
    "parts",
    "require_plain",
    "same_ranks",
]
