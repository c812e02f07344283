"""What the ``where`` of an equation and declared types say about shapes, written anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from operator import mul
from typing import Any

from superopt.ir.terms import Condition, ConditionCall, ConditionName, VariableType
from tests.verifier.brute.basics import Shape


def declared_sizes_agree(declared: Mapping[str, VariableType], shapes: Mapping[str, Shape]) -> bool:
    """Whether sizes are as declared; equal names are equal sizes."""
    sizes: dict[str, int] = {}
    return all(
        sizes.setdefault(wanted, size) == size if isinstance(wanted, str) else wanted == size
        for name, type_ in declared.items()
        for wanted, size in zip(type_.shape, shapes[name], strict=True)
    )


def holds(condition: Condition, shapes: Mapping[str, Shape], attributes: Mapping[str, object]) -> bool:
    """Whether the clause is fulfilled."""
    left = _quantity(condition.left, shapes, attributes)
    if condition.right is None:
        return bool(left)
    right = _quantity(condition.right, shapes, attributes)
    if condition.relation in ("=", "!="):
        return (left == right) == (condition.relation == "=")
    if not isinstance(left, int | Fraction) or not isinstance(right, int | Fraction):
        return False
    match condition.relation:
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case _:
            return left >= right


def _quantity(operand: object, shapes: Mapping[str, Shape], attributes: Mapping[str, object]) -> Any:
    match operand:
        case ConditionName(name):
            return shapes[name] if name in shapes else attributes[name]
        case ConditionCall(function, arguments):
            first, *rest = (_quantity(argument, shapes, attributes) for argument in arguments)
            return FUNCTIONS[function](first, *rest)
        case _:
            return operand


def _every(value: object, remainder: int) -> bool:
    return all(part % 2 == remainder for part in (value if isinstance(value, tuple) else (value,)))


def _whole(number: int, divisor: int) -> int:
    """The quotient, 0 where it is not whole."""
    return number // divisor if divisor and number % divisor == 0 else 0


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "rank": len,
    "dim": lambda shape, axis: shape[axis] if -len(shape) <= axis < len(shape) else 0,
    "axis": lambda shape, axis: axis % len(shape) if -len(shape) <= axis < len(shape) else -1,
    "shape": lambda shape: shape,
    "leading": lambda shape: shape[:-1],
    "channels": lambda shape: shape[1] if len(shape) > 1 else 0,
    "groups": lambda x, w: _whole(x[1], w[1]) if len(x) > 1 and len(w) > 1 else 0,
    "outputs_per_group": lambda x, w: _whole(w[0], FUNCTIONS["groups"](x, w)),
    "composed": lambda first, second: tuple(first[axis] for axis in second),
    "product": lambda x, y: tuple(map(mul, x, y)) if isinstance(x, tuple) else x * y,
    "odd": lambda value: _every(value, 1),
    "even": lambda value: _every(value, 0),
}
