"""Detection of variables that stand for divided tensors: those combined, reduced or batched.

Everywhere else a variable stands for a tensor in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from superopt.ir.terms import Equation, Variable
from superopt.ir.types import Division, ShardedType, TensorType
from superopt.ops.base import OPERATORS
from superopt.ops.roles import Divided
from superopt.ops.sharded.sharding import UNDIVIDED

_DEGREES = (2, 3, 4)


def demanding(equation: Equation) -> Mapping[str, frozenset[Divided]]:
    """The variables to which such operators are applied, with what these gather."""
    found: dict[str, set[Divided]] = {}
    for term in equation.applications:
        operator = OPERATORS[term.operator]
        if operator.gathers and operator.divides and isinstance(term.inputs[0], Variable):
            found.setdefault(term.inputs[0].name, set()).add(operator.divides)
    return {name: frozenset(gathered) for name, gathered in found.items()}


def divided_forms(type_: TensorType, gathered: frozenset[Divided]) -> Iterator[TensorType]:
    """The type with one thing divided that is gathered, or that and another.

    Sizes of divided axes become multiples; they must be symbols.
    """
    axes = range(type_.rank)
    if Divided.REPLICAS in gathered:
        for replicas in _DEGREES:
            yield _divided(type_, {}, replicas)
        for axis in axes:
            yield _divided(type_, {axis: Division(2)}, 2)
    for degree, axis in product(_DEGREES, axes):
        if Divided.DEGREE in gathered:
            yield _divided(type_, {axis: Division(degree)}, 1)
        if Divided.BATCHES in gathered:
            yield _divided(type_, {axis: Division(1, degree)}, 1)
    for axis in axes:
        if Divided.DEGREE in gathered:
            yield _divided(type_, {axis: Division(2)}, 2)
            if type_.rank > 1:
                yield _divided(type_, {axis: Division(2), (axis + 1) % type_.rank: Division(2)}, 1)
        if Divided.BATCHES in gathered:
            yield _divided(type_, {axis: Division(2, 2)}, 1)
            if Divided.REPLICAS in gathered:
                yield _divided(type_, {axis: Division(1, 2)}, 2)


def _divided(type_: TensorType, divisions: Mapping[int, Division], replicas: int) -> TensorType:
    every = tuple(divisions.get(axis, UNDIVIDED) for axis in range(type_.rank))
    shape = tuple(size * division.parts for size, division in zip(type_.shape, every, strict=True))
    return ShardedType(type_.element, shape, every, replicas)
