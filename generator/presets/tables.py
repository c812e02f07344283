"""Values in the tables of preset files (TOML), checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from superopt.errors import InvalidFileError


def table_of(where: str, document: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The table under a key. Raises InvalidFileError, as all functions here, with the location."""
    value = document.get(key)
    if not isinstance(value, dict):
        raise InvalidFileError(f"{where}: expected a table [{key}]")
    return cast("Mapping[str, object]", value)


def entries_of(
    where: str, document: Mapping[str, object], key: str
) -> list[tuple[Mapping[str, object], str]]:
    """The tables of a list of tables, each with its location; none where the key is missing."""
    value = document.get(key, [])
    if not isinstance(value, list) or not all(
        isinstance(entry, dict) for entry in cast("list[object]", value)
    ):
        raise InvalidFileError(f"{where}: expected tables [[{key}]]")
    entries = cast("list[Mapping[str, object]]", value)
    return [(entry, f"{where}, {key} {index}") for index, entry in enumerate(entries, 1)]


def text_of(entry: Mapping[str, object], key: str, where: str) -> str:
    """The text under a key."""
    value = entry.get(key)
    if not isinstance(value, str):
        raise InvalidFileError(f"{where}: expected text for {key}, got {value!r}")
    return value


def positive_of(entry: Mapping[str, object], key: str, where: str, default: int) -> int:
    """The positive whole number under a key, ``default`` where it is missing."""
    value = entry.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidFileError(f"{where}: expected a positive whole number for {key}, got {value!r}")
    return value


def names_of(entry: Mapping[str, object], where: str, key: str = "names") -> list[str]:
    """The list of names under a key."""
    value = entry.get(key)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in cast("list[object]", value)):
        raise InvalidFileError(f"{where}: expected a list of names for {key}, got {value!r}")
    return cast("list[str]", value)


def shape_of(value: object, where: str) -> tuple[int, ...]:
    """A shape, as a list of positive sizes."""
    sizes = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in sizes):
        raise InvalidFileError(f"{where}: expected a shape of positive sizes, got {value!r}")
    return tuple(cast("list[int]", sizes))


def signature_of(text: object, where: str) -> tuple[tuple[str, ...], str]:
    """The roles of the arguments and of the result, from text such as ``data, kernel -> data``."""
    parts = text.split("->") if isinstance(text, str) else []
    if len(parts) != 2 or not parts[1].strip():
        raise InvalidFileError(f'{where}: expected a signature like "data, kernel -> data", got {text!r}')
    return tuple(role.strip() for role in parts[0].split(",")), parts[1].strip()


__all__ = [
    "entries_of",
    "names_of",
    "positive_of",
    "shape_of",
    "signature_of",
    "table_of",
    "text_of",
]
