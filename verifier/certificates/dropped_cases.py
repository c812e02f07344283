"""Which cases the analysis may drop.

An operator refuses types by an error that says for what it holds: for all numbers that their symbols may
stand for (``UnfitTypesError``), or unless two sizes are equal (``DimensionMismatchError``). If it says
neither, the case is not dropped, and the rule is unproved. The operators are trusted for this; a second look
tries some numbers, in the direction in which a mistake leaves a rule unproved.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import cast

from superopt.errors import (
    DimensionMismatchError,
    IllTypedError,
    RankMismatchError,
    SuperoptError,
    UnfitTypesError,
)
from superopt.ir.dimensions import Dimension, SymbolicDimension, substitute, symbol, symbols_of
from superopt.ir.types import TensorType
from superopt.ops.attributes import substituted
from superopt.ops.base import Operator, known_operator
from superopt.verifier.certificates.partial_typing import UndecidedCasesError

_FEW = 3
_VALUES = (1, 2, 3)
_LONG = 12
"""A size above that of most windows."""

_SIZES = (1, 2), (1, 2, 2, 3, 4, 6)
_TRIED = 16
_NOT_KNOWN = "for which sizes {} is well-typed is not known"


def ways_to_fit(operator: Operator, mismatch: DimensionMismatchError) -> list[tuple[Dimension, Dimension]]:
    """Pairs of sizes of which one must be equal: those that differ, or that of an axis that may be 1."""
    pairs = [(mismatch.left, mismatch.right)]
    if operator.repeats:
        pairs.append((mismatch.left, 1))
    if operator.narrows:
        pairs.append((mismatch.right, 1))
    return pairs


def applied(name: str, attributes: Mapping[str, object]) -> Operator:
    """Return the operator with these attributes. Raises IllTypedError if it does not have them, and
    UndecidedCasesError if that may depend on symbols among them."""
    try:
        return known_operator(name, tuple(attributes.items()))
    except IllTypedError:
        if any(map(_symbols_of, attributes.values())):
            raise UndecidedCasesError(f"with which sizes {name} is well-formed is not known") from None
        raise


def require_refused(
    operator: Operator,
    inputs: Sequence[TensorType],
    refusal: IllTypedError,
    unless: Sequence[tuple[Dimension, Dimension]] = (),
) -> None:
    """Raises UndecidedCasesError if the operator refuses types with symbols that it may accept for some
    numbers for which none of the equations holds."""
    if isinstance(refusal, RankMismatchError):
        return
    if isinstance(refusal, UnfitTypesError):
        require_unfit(operator, inputs, unless)
    elif any(type_.symbols for type_ in inputs) or any(True for _ in _symbols(operator)):
        raise UndecidedCasesError(_NOT_KNOWN.format(operator.name))


def require_unfit(
    operator: Operator, inputs: Sequence[TensorType], unless: Sequence[tuple[Dimension, Dimension]] = ()
) -> None:
    """Raises UndecidedCasesError if the operator accepts the types for some numbers for which none of the
    equations holds."""
    if _may_fit(operator, tuple(inputs), tuple(unless)):
        raise UndecidedCasesError(_NOT_KNOWN.format(operator.name))


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
    renamed = {name: symbol(f"number {number}") for number, name in enumerate(names)}
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
    numbers = [size for type_ in inputs for size in type_.shape if isinstance(size, int)]
    for chosen in _assignments(count, max([_LONG, *(2 * number for number in numbers)])):
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
def _assignments(count: int, long: int) -> Sequence[Mapping[str, Dimension]]:
    names = [f"number {number}" for number in range(count)]
    if count <= _FEW and long == _LONG:
        return [dict(zip(names, v, strict=True)) for v in itertools.product(_VALUES, repeat=count)]
    ones = dict.fromkeys(names, 1)
    chooser = random.Random(count)  # nosec B311: the same numbers each time
    return [
        ones,
        *({**ones, name: size} for name in names for size in (2, long)),
        *({**dict.fromkeys(names, long), name: 2} for name in names),
        *(
            {name: chooser.choice(values) for name in names}
            for values in (*_SIZES, (1, 2, long))
            for _ in range(_TRIED)
        ),
    ]


def _symbols(operator: Operator) -> Iterator[str]:
    """Yield the symbols in an operator's attributes."""
    for field in fields(operator):  # type: ignore[arg-type]
        yield from _symbols_of(getattr(operator, field.name))


def _symbols_of(value: object) -> list[str]:
    parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    return [name for part in parts if isinstance(part, SymbolicDimension) for name in sorted(part.symbols)]


def _substituted(operator: Operator, chosen: Mapping[str, Dimension]) -> Operator:
    names = [field.name for field in fields(operator)]  # type: ignore[arg-type]
    return type(operator)(**{name: substituted(getattr(operator, name), chosen) for name in names})


__all__ = ["applied", "require_refused", "require_unfit", "ways_to_fit"]
