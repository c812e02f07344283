"""Conditions solved before sampling, so that equations such as ``dim(x, 1) = dim(w, 1)`` are always met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from superopt.ir.dimensions import (
    Dimension,
    FloorDivision,
    SymbolicDimension,
    floor_divide,
    solve,
    substitute,
)
from superopt.ir.terms import Condition, ConditionCall, ConditionName, ConditionTerm
from superopt.ir.types import TensorType


def implied_sizes(
    conditions: Sequence[Condition], types: Mapping[str, TensorType], attributes: Mapping[str, object]
) -> dict[str, Dimension]:
    """Symbols solved for so that dimensions which conditions equate are equal; the other conditions, and
    those about tensors without a type, are left to be checked."""
    found: dict[str, Dimension] = {}
    for condition in conditions:
        if condition.relation != "=" or condition.right is None:
            continue
        sides = [_dimension(operand, types, attributes) for operand in (condition.left, condition.right)]
        if None in sides:
            continue
        left, right = (substitute(side, found) for side in cast("list[Dimension]", sides))
        solution = solve(left, right)
        if solution:
            found = {name: substitute(size, solution) for name, size in found.items()} | solution
    return found


def solve_rounded(left: Dimension, right: Dimension) -> dict[str, Dimension] | None:
    """A solution of ``floor(a / d) + c = floor(b / d) + c``, namely ``a = b``: enough to find instances."""
    difference = left - right
    if isinstance(difference, int) or len(difference.terms) != 2:
        return None
    (first, one), (second, other) = difference.terms
    if len(first) != 1 or len(second) != 1 or one + other != 0:
        return None
    a, b = first[0], second[0]
    if not isinstance(a, FloorDivision) or not isinstance(b, FloorDivision) or a.denominator != b.denominator:
        return None
    return solve(a.numerator, b.numerator)


def _dimension(
    operand: ConditionTerm, types: Mapping[str, TensorType], attributes: Mapping[str, object]
) -> Dimension | None:
    match operand:
        case int():
            return operand
        case ConditionName(name):
            value = attributes.get(name)
            return value if isinstance(value, int | SymbolicDimension) else None
        case ConditionCall("dim" | "channels", (ConditionName(name), *rest)) if name in types:
            axis = rest[0] if rest else 1
            if isinstance(axis, ConditionName):
                axis = attributes.get(axis.name)
            shape = types[name].shape
            return shape[axis] if isinstance(axis, int) and -len(shape) <= axis < len(shape) else None
        case ConditionCall("groups", (ConditionName(data), ConditionName(weight))):
            return _groups(types.get(data), types.get(weight))
        case ConditionCall("outputs_per_group", (ConditionName(data), ConditionName(weight))):
            groups = _groups(types.get(data), types.get(weight))
            return None if groups is None or groups == 0 else floor_divide(types[weight].shape[0], groups)
        case _:
            return None


def _groups(data: TensorType | None, weight: TensorType | None) -> Dimension | None:
    if data is None or weight is None or data.rank < 2 or weight.rank < 2 or weight.shape[1] == 0:
        return None
    return floor_divide(data.shape[1], weight.shape[1])
