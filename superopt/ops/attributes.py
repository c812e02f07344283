"""Operator attributes: normal form, and the values that each attribute name accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension, SymbolicDimension, substitute

PAIRS = frozenset(("kernel", "stride", "dilation"))
"""Attributes that hold one number for rows and one for columns."""

NUMBERS = frozenset(("alpha", "beta", "bias", "epsilon", "exponent", "high", "low", "value"))
"""Attributes of which every number is a value, and on which no type depends."""

PADDING_WORDS = ("valid", "same", "same_upper", "same_lower")


@dataclass(frozen=True, slots=True)
class AttributeKind:
    """The kinds of values that attributes take."""

    description: str
    accepts: Callable[[object], bool]


def normalise_attribute(name: str, value: object) -> object:
    """The normal form of an attribute: ``kernel=3`` is ``(3, 3)``, a whole fraction is an int. Raises
    IllTypedError for a float that is not a number."""
    if name in PAIRS and isinstance(value, int):
        return (value, value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise IllTypedError(f"attribute {name}: expected a finite number, got {value}")
        value = _shortest_fraction(value)
    if isinstance(value, Fraction) and value.denominator == 1:
        return int(value)
    return value


def substituted(value: object, assignment: Mapping[str, Dimension]) -> object:
    """An attribute with sizes substituted for symbols; those missing in the assignment are kept."""
    if not assignment:
        return value
    if isinstance(value, tuple):
        return tuple(substituted(part, assignment) for part in cast("tuple[object, ...]", value))
    return substitute(value, assignment) if isinstance(value, SymbolicDimension) else value


def checked_attribute(operator: str, name: str, value: object) -> object:
    """The attribute in normal form; raises IllTypedError when it is of the wrong kind."""
    value = normalise_attribute(name, value)
    kind = ATTRIBUTE_KINDS.get(name)
    if kind is not None and not kind.accepts(value):
        raise IllTypedError(f"{operator}: expected {name} to be {kind.description}, got {value}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | Fraction)


def _is_integer(value: object) -> bool:
    return isinstance(value, int)


def _is_size(value: object) -> bool:
    return isinstance(value, SymbolicDimension) or (isinstance(value, int) and value >= 0)


def _is_extent(value: object) -> bool:
    """A positive number; or a symbol, where a rule leaves it open and only types matter."""
    return isinstance(value, SymbolicDimension) or (isinstance(value, int) and value > 0)


def _tuple_of(accepts: Callable[[object], bool], length: int | None = None) -> Callable[[object], bool]:
    def accepts_tuple(value: object) -> bool:
        if not isinstance(value, tuple):
            return False
        parts = cast("tuple[object, ...]", value)
        return length in (None, len(parts)) and all(accepts(part) for part in parts)

    return accepts_tuple


def _is_padding(value: object) -> bool:
    return value in PADDING_WORDS or _tuple_of(_is_size, 4)(value)


_PAIR = AttributeKind("two positive integers", _tuple_of(_is_extent, 2))
_NUMBER = AttributeKind("a number", _is_number)
_SIZE = AttributeKind("a size", _is_size)
_SIZES = AttributeKind("a tuple of sizes", _tuple_of(_is_size))
ATTRIBUTE_KINDS: Mapping[str, AttributeKind] = {
    **dict.fromkeys(PAIRS, _PAIR),
    **dict.fromkeys(NUMBERS, _NUMBER),
    **dict.fromkeys(("channels", "size"), _SIZE),
    **dict.fromkeys(("shape", "sizes"), _SIZES),
    "activation": AttributeKind("a word", lambda value: isinstance(value, str)),
    "approximate": AttributeKind("none or tanh", lambda value: value in ("none", "tanh")),
    "axis": AttributeKind("an integer", _is_integer),
    "degree": AttributeKind("an integer of at least 2", lambda value: isinstance(value, int) and value > 1),
    "includes_padding": AttributeKind("0 or 1", lambda value: value in (0, 1)),
    "padding": AttributeKind(f"{', '.join(PADDING_WORDS)} or four sizes (t, l, b, r)", _is_padding),
    "perm": AttributeKind("a tuple of axes", _tuple_of(_is_integer)),
    "to": AttributeKind("f16, bf16, f32 or f64", lambda value: value in ("f16", "bf16", "f32", "f64")),
}


def _shortest_fraction(value: float) -> Fraction:
    """The simplest fraction that rounds to the float."""
    for limit in (100, 10**4, 10**6, 10**9):
        simple = Fraction(value).limit_denominator(limit)
        if float(simple) == value:
            return simple
    return min(Fraction(value), Fraction(repr(value)), key=lambda fraction: fraction.denominator)
