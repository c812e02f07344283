"""Variables that stand for divided tensors: those that an equation combines, reduces or batches.

Everywhere else a variable stands for a tensor in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from superopt.ir.terms import Equation, Variable, applications
from superopt.ir.types import Division, ShardedType, TensorType
from superopt.ops.sharding import UNDIVIDED

_DEGREES = (2, 3, 4)


def demanding(equation: Equation) -> Mapping[str, frozenset[str]]:
    """The variables to which such operators are applied, with the operators' names."""
    found: dict[str, set[str]] = {}
    for term in applications(*equation.left, *equation.right):
        if term.operator in ("combine", "reduce", "batch") and isinstance(term.inputs[0], Variable):
            found.setdefault(term.inputs[0].name, set()).add(term.operator)
    return {name: frozenset(operators) for name, operators in found.items()}


def divided_forms(type_: TensorType, operators: frozenset[str]) -> Iterator[TensorType]:
    """The type with one thing divided that one of the operators puts together, or that and another.

    Sizes of divided axes become multiples; they must be symbols.
    """
    axes = range(type_.rank)
    if "reduce" in operators:
        for replicas in _DEGREES:
            yield _divided(type_, {}, replicas)
        for axis in axes:
            yield _divided(type_, {axis: Division(2)}, 2)
    for degree, axis in product(_DEGREES, axes):
        if "combine" in operators:
            yield _divided(type_, {axis: Division(degree)}, 1)
        if "batch" in operators:
            yield _divided(type_, {axis: Division(1, degree)}, 1)
    for axis in axes:
        if "combine" in operators:
            yield _divided(type_, {axis: Division(2)}, 2)
            if type_.rank > 1:
                yield _divided(type_, {axis: Division(2), (axis + 1) % type_.rank: Division(2)}, 1)
        if "batch" in operators:
            yield _divided(type_, {axis: Division(2, 2)}, 1)


def _divided(type_: TensorType, divisions: Mapping[int, Division], replicas: int) -> TensorType:
    every = tuple(divisions.get(axis, UNDIVIDED) for axis in range(type_.rank))
    shape = tuple(size * division.parts for size, division in zip(type_.shape, every, strict=True))
    return ShardedType(type_.element, shape, every, replicas)
