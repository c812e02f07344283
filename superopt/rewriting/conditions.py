"""What ``where`` clauses mean: arithmetic over attributes, ranks and dimensions, decided or not fulfilled."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from superopt.errors import InvalidEquationError
from superopt.ir.dimensions import Dimension, floor_divide
from superopt.ir.terms import Condition, ConditionCall, ConditionName, ConditionTerm
from superopt.ir.types import TensorType

Quantity: TypeAlias = "Dimension | str | tuple[Dimension, ...] | TensorType"


def holds(condition: Condition, types: Mapping[str, TensorType], attributes: Mapping[str, object]) -> bool:
    """Whether the clause is fulfilled; one about symbols that cannot be decided is not.

    Raises InvalidEquationError for an unknown name or function.
    """
    left = _quantity(condition.left, types, attributes)
    if condition.right is None:
        return left == 1
    right = _quantity(condition.right, types, attributes)
    if condition.relation == "=":
        return left == right
    if condition.relation == "!=":
        return (isinstance(left, int) and isinstance(right, int) and left != right) or _different_words(
            left, right
        )
    if isinstance(left, int) and isinstance(right, int):
        return _ORDER[condition.relation](left, right)
    return False


def _different_words(left: Quantity, right: Quantity) -> bool:
    return (isinstance(left, str | tuple) or isinstance(right, str | tuple)) and left != right


def _quantity(
    term: ConditionTerm, types: Mapping[str, TensorType], attributes: Mapping[str, object]
) -> Quantity:
    match term:
        case ConditionName(name):
            if name in types:
                return types[name]
            if name in attributes:
                return cast("Quantity", attributes[name])
            raise InvalidEquationError(f"where: unknown name {name}")
        case ConditionCall(function, arguments):
            implementation = FUNCTIONS.get(function)
            if implementation is None:
                raise InvalidEquationError(
                    f"where: unknown function {function}; known: {', '.join(sorted(FUNCTIONS))}"
                )
            return implementation(*(_quantity(argument, types, attributes) for argument in arguments))
        case _:
            return term


def _rank(*arguments: Quantity) -> Quantity:
    return _tensor("rank", arguments, 0).rank


def _dim(*arguments: Quantity) -> Quantity:
    tensor, axis = _tensor("dim", arguments, 0), arguments[1]
    if not isinstance(axis, int):
        raise InvalidEquationError(f"where: dim takes an axis, got {axis}")
    return tensor.shape[axis] if -tensor.rank <= axis < tensor.rank else 0


def _axis(*arguments: Quantity) -> Quantity:
    """An axis of a tensor counted from 0, so that axes can be compared; -1 when there is no such axis."""
    tensor, axis = _tensor("axis", arguments, 0), arguments[1]
    return axis % tensor.rank if isinstance(axis, int) and -tensor.rank <= axis < tensor.rank else -1


def _channels(*arguments: Quantity) -> Quantity:
    tensor = _tensor("channels", arguments, 0)
    return tensor.shape[1] if tensor.rank > 1 else 0


def _groups(*arguments: Quantity) -> Quantity:
    data, weight = _tensor("groups", arguments, 0), _tensor("groups", arguments, 1)
    if data.rank < 2 or weight.rank < 2 or weight.shape[1] == 0:
        return 0
    return floor_divide(data.shape[1], weight.shape[1])


def _odd(*arguments: Quantity) -> Quantity:
    return int(all(isinstance(n, int) and n % 2 == 1 for n in _numbers(arguments[0])))


def _even(*arguments: Quantity) -> Quantity:
    return int(all(isinstance(n, int) and n % 2 == 0 for n in _numbers(arguments[0])))


def _numbers(quantity: Quantity) -> tuple[Dimension, ...]:
    if isinstance(quantity, tuple):
        return quantity
    if isinstance(quantity, str | TensorType):
        raise InvalidEquationError(f"where: expected a number, got {quantity}")
    return (quantity,)


def _tensor(function: str, arguments: tuple[Quantity, ...], index: int) -> TensorType:
    if index >= len(arguments) or not isinstance(arguments[index], TensorType):
        raise InvalidEquationError(f"where: {function} takes a tensor as argument {index + 1}")
    return cast("TensorType", arguments[index])


FUNCTIONS: Mapping[str, Callable[..., Quantity]] = {
    "axis": _axis,
    "channels": _channels,
    "dim": _dim,
    "even": _even,
    "groups": _groups,
    "odd": _odd,
    "rank": _rank,
}

_ORDER: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
