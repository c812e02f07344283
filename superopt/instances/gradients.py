"""Instances of adjoint statements: the gradient that a statement gives for operands of given types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from superopt.equations import Adjoint
from superopt.errors import IllTypedError
from superopt.instances.instance import Instance
from superopt.ir.terms import Condition, ConditionCall, ConditionName, ConditionTerm
from superopt.ir.types import TensorType
from superopt.rewriting.conditions import computed, holds
from superopt.rewriting.typing import infer_terms

INVERSE = "inverse"
"""In conditions of adjoint statements, ``q = inverse(p)`` is the inverse of a permutation of axes."""


def gradient_instance(
    adjoint: Adjoint,
    operands: Sequence[TensorType],
    result: TensorType,
    attributes: Mapping[str, object],
    fixed: frozenset[str] = frozenset(),
) -> Instance:
    """The statement for operands of these types and values of its attribute variables.

    ``result`` is the type of the application and of the cotangent; it determines implicit attributes of the
    application. Symbols in ``fixed`` are sizes of a model, which are not solved for. Raises IllTypedError
    where the statement does not apply: a condition does not hold, the gradient has another type than its
    operand, or the types leave a size open.
    """
    types = {operand.name: type_ for operand, type_ in zip(adjoint.operands, operands, strict=True)}
    types[adjoint.cotangent.name] = result
    values = with_computed(adjoint.conditions, attributes, types)
    for condition in adjoint.conditions:
        if _inversion(condition) is None and not holds(condition, types, values):
            raise IllTypedError(f"{adjoint.name}: a condition does not hold")
    equal = ((adjoint.application, result), (adjoint.gradient, types[adjoint.operand.name]))
    terms = (adjoint.application, adjoint.gradient)
    typing = infer_terms(terms, types, values, equal=equal, fixed=fixed)
    if typing.unresolved - fixed:
        raise IllTypedError(f"{adjoint.name}: the types leave sizes open")
    return Instance(types, values, typing)


def with_computed(
    conditions: Iterable[Condition], attributes: Mapping[str, object], types: Mapping[str, TensorType]
) -> dict[str, object]:
    """The attributes, and those that conditions compute from them and from types. Raises IllTypedError for
    the inverse of what is no permutation, and for a size that is no number."""
    conditions = tuple(conditions)
    values = {**attributes, **computed(conditions, attributes)}
    for name, argument in _inversions(conditions):
        values[name] = _inverse(
            values.get(argument.name) if isinstance(argument, ConditionName) else argument
        )
    for condition in conditions:
        match condition:
            case Condition(ConditionName(name), "=", ConditionCall("dim", (ConditionName(tensor), *_))):
                if name not in values:
                    values[name] = _size(condition, name, types[tensor], types, values)
            case _:
                pass
    return values


def _size(
    condition: Condition,
    name: str,
    type_: TensorType,
    types: Mapping[str, TensorType],
    values: Mapping[str, object],
) -> int:
    """The size that a clause ``n = dim(x, a)`` defines."""
    for size in {size for size in type_.shape if isinstance(size, int) and size > 0}:
        if holds(condition, types, {**values, name: size}):
            return size
    raise IllTypedError(f"{name}: expected a known size in {type_}")


def _inversions(conditions: Iterable[Condition]) -> Iterator[tuple[str, ConditionTerm]]:
    return (found for condition in conditions if (found := _inversion(condition)) is not None)


def _inversion(condition: Condition) -> tuple[str, ConditionTerm] | None:
    """The name and the argument of a clause ``q = inverse(p)``; None for another clause."""
    match condition:
        case Condition(ConditionName(name), "=", ConditionCall(function, (argument,))):
            return (name, argument) if function == INVERSE else None
        case _:
            return None


def _inverse(permutation: object) -> tuple[int, ...]:
    """The inverse; a swap of the last two axes, written (), is its own."""
    axes = cast("tuple[int, ...]", permutation) if isinstance(permutation, tuple) else None
    if axes is None or sorted(axes) != list(range(len(axes))):
        raise IllTypedError(f"{INVERSE}: expected a permutation, got {permutation}")
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


__all__ = ["INVERSE", "gradient_instance", "with_computed"]
