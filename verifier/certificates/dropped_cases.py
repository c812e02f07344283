"""Tests that a case which the analysis drops is ill-typed for numbers, too.

An operator refuses types with symbols if it cannot tell that they fit: a size that is not known to be 1, to
divide another or to equal it. Where numbers for the symbols fit, dropping the case would lose them. Some
numbers are tried here. This is no proof that none fit, which is what the operators are trusted for; it is a
second look at each of them, in the direction in which a mistake leaves a rule unproved.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import cast

from superopt.errors import DimensionMismatchError, SuperoptError
from superopt.ir.dimensions import Dimension, SymbolicDimension, substitute, symbol, symbols_of
from superopt.ir.types import TensorType
from superopt.ops.attributes import substituted
from superopt.ops.base import Operator
from superopt.verifier.certificates.partial_typing import UndecidedCasesError

_FEW = 3
_VALUES = (1, 2, 3)
_LONG = 12
"""A size above that of most windows."""

_SIZES = (1, 2), (1, 2, 2, 3, 4, 6), (1, 2, _LONG)
_TRIED = 16


def ways_to_fit(operator: Operator, mismatch: DimensionMismatchError) -> list[tuple[Dimension, Dimension]]:
    """Pairs of sizes of which one must be equal: those that differ, or that of an axis that may be 1."""
    pairs = [(mismatch.left, mismatch.right)]
    if operator.repeats:
        pairs.append((mismatch.left, 1))
    if operator.narrows:
        pairs.append((mismatch.right, 1))
    return pairs


def require_unfit(
    operator: Operator, inputs: Sequence[TensorType], unless: Sequence[tuple[Dimension, Dimension]] = ()
) -> None:
    """Raises UndecidedCasesError if the operator accepts the types for some numbers for which none of the
    equations holds."""
    if _may_fit(operator, tuple(inputs), tuple(unless)):
        raise UndecidedCasesError(f"for which sizes {operator.name} is well-typed is not known")


@lru_cache(maxsize=65536)
def _may_fit(
    operator: Operator,
    inputs: tuple[TensorType, ...],
    unless: tuple[tuple[Dimension, Dimension], ...],
) -> bool:
    """Whether the operator accepts the types for some numbers, among those for which each of the equations
    ``unless`` is false, whatever symbols that are not of the types stand for."""
    names = dict.fromkeys(
        name for type_ in inputs for size in type_.shape for name in sorted(symbols_of(size))
    )
    names |= dict.fromkeys(_symbols(operator))
    renamed = {name: symbol(f"n{number}") for number, name in enumerate(names)}
    equations = tuple((substitute(left, renamed), substitute(right, renamed)) for left, right in unless)
    types = tuple(type_.substitute(renamed) for type_ in inputs)
    return bool(names) and _fits(_substituted(operator, renamed), types, equations, len(names))


@lru_cache(maxsize=65536)
def _fits(
    operator: Operator,
    inputs: tuple[TensorType, ...],
    unless: tuple[tuple[Dimension, Dimension], ...],
    count: int,
) -> bool:
    for chosen in _assignments(count):
        equations = ((substitute(left, chosen), substitute(right, chosen)) for left, right in unless)
        if not all(isinstance(a, int) and isinstance(b, int) and a != b for a, b in equations):
            continue
        try:
            _substituted(operator, chosen).infer(*(type_.substitute(chosen) for type_ in inputs))
        except (SuperoptError, ArithmeticError):
            continue
        return True
    return False


@lru_cache
def _assignments(count: int) -> Sequence[Mapping[str, Dimension]]:
    names = [f"n{number}" for number in range(count)]
    if count <= _FEW:
        return [dict(zip(names, v, strict=True)) for v in itertools.product(_VALUES, repeat=count)]
    ones = dict.fromkeys(names, 1)
    chooser = random.Random(count)  # nosec B311: the same numbers each time
    return [
        ones,
        *({**ones, name: size} for name in names for size in (2, _LONG)),
        *({**dict.fromkeys(names, _LONG), name: 2} for name in names),
        *({name: chooser.choice(values) for name in names} for values in _SIZES for _ in range(_TRIED)),
    ]


def _symbols(operator: Operator) -> Iterator[str]:
    """Yield the symbols in an operator's attributes."""
    for field in fields(operator):  # type: ignore[arg-type]
        value = cast("object", getattr(operator, field.name))
        for part in cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,):
            if isinstance(part, SymbolicDimension):
                yield from sorted(part.symbols)


def _substituted(operator: Operator, chosen: Mapping[str, Dimension]) -> Operator:
    names = [field.name for field in fields(operator)]  # type: ignore[arg-type]
    return type(operator)(**{name: substituted(getattr(operator, name), chosen) for name in names})


__all__ = ["require_unfit", "ways_to_fit"]
