"""Attributes in preset files: numbers calculated from named ones, lists of alternatives."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import cast

from superopt.equations import parse_number
from superopt.errors import IllTypedError, InvalidEquationError, InvalidFileError
from superopt.ir.numbers import names_of, substituted_number
from superopt.ir.terms import AttributeTerm
from superopt.ops.attributes import NUMBERS


def named_numbers(table: object, where: str) -> dict[str, object]:
    """The numbers that a preset names. Raises InvalidFileError."""
    if not isinstance(table, dict):
        raise InvalidFileError(f'{where}: expected numbers = {{ name = "7/5" }}, got {table!r}')
    entries = cast("Mapping[str, object]", table)
    return {name: _number(value, f"{where}, {name}", {}) for name, value in entries.items()}


def variants_of(
    entry: object, where: str, numbers: Mapping[str, object]
) -> Iterator[dict[str, AttributeTerm]]:
    """Attributes of one operator; one of each combination if numbers are lists of alternatives."""
    if not isinstance(entry, dict):
        raise InvalidFileError(f"{where}: expected a table of attributes, got {entry!r}")
    table = cast("Mapping[str, object]", entry)
    choices = [_alternatives(name, value, f"{where}, {name}", numbers) for name, value in table.items()]
    for chosen in itertools.product(*choices):
        yield dict(zip(table, chosen, strict=True))


def _alternatives(name: str, value: object, where: str, numbers: Mapping[str, object]) -> list[AttributeTerm]:
    if name in NUMBERS:
        parts = cast("list[object]", value) if isinstance(value, list) else [value]
        return [_number(part, where, numbers) for part in parts]
    return [_attribute(value, where)]


def _number(value: object, where: str, numbers: Mapping[str, object]) -> int | Fraction:
    try:
        found = parse_number(str(value))
        missing = names_of(found) - numbers.keys()
        if missing:
            known = ", ".join(numbers) or "none"
            raise InvalidFileError(f"{where}: unknown number {min(missing)}; named numbers: {known}")
        return cast("int | Fraction", substituted_number(found, numbers))
    except (InvalidEquationError, IllTypedError) as error:
        raise InvalidFileError(f'{where}: expected a number such as "1/6" or "a*b", got {value!r}') from error


def _attribute(value: object, where: str) -> AttributeTerm:
    if isinstance(value, list):
        items = cast("list[object]", value)
        if all(isinstance(item, int) for item in items):
            return tuple(cast("list[int]", items))
    if isinstance(value, int | float | str):
        return value
    raise InvalidFileError(f"{where}: expected a number, a word or a list of whole numbers, got {value!r}")
