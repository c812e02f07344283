"""Tables of options: the fields of a dataclass with what each of them means and may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, TypeAlias, cast, get_args, get_type_hints

from superopt.errors import InvalidOptionError
from superopt.option import Kind, Mismatch, Option, plain

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_KINDS: Mapping[object, Kind] = {
    float: "number",
    int: "integer",
    str: "text",
    Path: "file",
    bool: "flag",
}
_ENTRIES: Mapping[object, Kind] = {
    tuple[str, ...]: "names",
    Mapping[str, int]: "sizes",
    Mapping[str, object]: "settings",
}
REPEATED: tuple[Kind, ...] = ("names", "sizes")
"""The kinds of options that a command line may repeat."""


OptionTable: TypeAlias = "Mapping[str, Option]"


def declared(settings: type[DataclassInstance]) -> OptionTable:
    """The options that are the fields of a dataclass, by their names in JSON."""
    hints = get_type_hints(settings, include_extras=True)
    return {option.name: option for option in (_option(one, hints[one.name]) for one in fields(settings))}


def _option(declaration: Field[object], annotated: object) -> Option:
    hint, option = cast("tuple[object, Option]", get_args(annotated))
    first = hint if hint in _ENTRIES else (*get_args(hint), hint)[0]
    return replace(
        option,
        name=option.name or declaration.name,
        field=declaration.name,
        kind=_ENTRIES.get(first) or _KINDS[first],
        optional=NoneType in get_args(hint),
        default={} if declaration.default is MISSING else declaration.default,
    )


def mismatches(table: OptionTable, values: Mapping[str, object], *, is_cluster: bool) -> Iterator[Mismatch]:
    """Everything that is wrong with values by their names in JSON."""
    for name, value in values.items():
        if name in table:
            yield from table[name].mismatches(value, is_cluster=is_cluster)
        else:
            yield Mismatch("", f"options among {', '.join(sorted(table))}", name)


def require(found: Iterable[Mismatch]) -> None:
    """Raises InvalidOptionError for the first mismatch, if there is one."""
    for mismatch in found:
        raise InvalidOptionError(str(mismatch))


def keep_plain(table: OptionTable, settings: DataclassInstance) -> None:
    """Puts whole numbers of Python in place of other ones, as those of numpy, into frozen settings."""
    for option in table.values():
        if option.kind in ("integer", "sizes", "settings"):
            object.__setattr__(settings, option.field, plain(getattr(settings, option.field)))
