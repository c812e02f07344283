"""Command-line options of an optimization, generated from ``superopt.options``.

For local commands omitted options have the command's defaults, for a service the service's.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias, cast

import typer

from superopt.cli.output import destination
from superopt.errors import InvalidOptionError
from superopt.option import Kind, Option, Surface
from superopt.option_table import REPEATED
from superopt.options import offered

OptionalOutputOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        *("--output", "-o"),
        help="The file to write, with external data beside it; - is standard output.",
        parser=destination,
        metavar="FILE",
    ),
]
ReportOption: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(help="Write a report, JSON or HTML by its ending; may be repeated."),
]
GivenOptions: TypeAlias = Mapping[str, object]
"""The options given to a command, by their JSON names."""

Command: TypeAlias = Callable[..., None]

_TYPES: Mapping[Kind, object] = {
    "number": float | None,
    "integer": int | None,
    "file": Path | None,
    "flag": bool | None,
}
_UNITS = {"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def with_options(options: Sequence[Option], command: Command) -> Command:
    """The command with these options in place of its parameter ``given``, a mapping of those that were given
    by their JSON names."""
    signature = inspect.signature(command, eval_str=True)

    def run(**arguments: object) -> None:
        command(given=_given(options, arguments), **arguments)

    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        flags = [flag for option in options for flag in _flags(option)]
        added = map(_parameter, flags) if parameter.name == "given" else (parameter,)
        parameters += [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in added]
    run.__doc__ = command.__doc__
    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    return run


def _flags(option: Option) -> Sequence[Option]:
    """The options that are flags of their own: settings are given one by one."""
    if not option.members:
        return (option,)
    return [
        replace(one, default=None, optional=True, unset=one.unset or str(one.default))
        for one in option.members
    ]


def _given(options: Iterable[Option], arguments: dict[str, object]) -> dict[str, object]:
    """Takes what was given out of the arguments; settings are given one by one."""
    values: dict[str, object] = {}
    for option in options:
        if option.members:
            values[option.name] = _given(option.members, arguments) or None
        else:
            values[option.name] = _read(option, arguments.pop(option.name))
    return {name: value for name, value in values.items() if value is not None}


_HERE = offered(Surface.COMMAND_LINE)
_THERE = [replace(_HERE[name], default=None) for name in (*offered(Surface.HTTP), "cluster")]

takes_options = partial(with_options, tuple(_HERE.values()))
"""Adds all options to a command, in place of its parameter ``given``."""

takes_submitted_options = partial(with_options, _THERE)
"""Adds the options that a service accepts, without defaults."""


def _parameter(option: Option) -> inspect.Parameter:
    type_ = list[str] | None if option.kind in REPEATED else _TYPES.get(option.kind, str | None)
    unset = f" Default: {option.unset}." if option.optional else ""
    flags = (f"--{option.name.replace('_', '-')}",) if option.kind == "flag" else ()
    described = typer.Option(*flags, help=f"{option.description}{unset}", metavar=option.unit.upper() or None)
    annotation = Annotated[str | None if option.unit == "bytes" else type_, described]
    if option.word and option.kind == "number":
        annotation = Annotated[str | None, described]
    default = None if option.kind in REPEATED else option.default
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _read(option: Option, value: object) -> object:
    """The JSON value of a command-line option; None if omitted."""
    if value is None or value == [] or value is False:
        return None
    if option.word and value == [option.word]:
        return option.word
    if option.kind == "sizes":
        return dict(read_size(option.name, text) for text in cast("list[str]", value))
    if option.word and option.kind == "number":
        return _number_or_word(option, str(value))
    if option.unit == "bytes":
        return _bytes(option.name, str(value))
    return str(value) if option.kind == "file" else value


def _number_or_word(option: Option, text: str) -> object:
    if text == option.word:
        return text
    try:
        return float(text)
    except ValueError:
        raise InvalidOptionError(f"{option.name}: expected a number{option.or_word}, got {text!r}") from None


def read_size(name: str, text: str) -> tuple[str, int]:
    """Name and size of a dimension from ``batch=8``, the value of the option ``name``. Raises
    InvalidOptionError."""
    dimension, _, size = text.rpartition("=")
    if not dimension or re.fullmatch(r"-?[0-9]{1,19}", size) is None:
        raise InvalidOptionError(f"{name}: expected NAME=SIZE, as in batch=8, got {text!r}")
    return dimension, int(size)


def _bytes(name: str, text: str) -> int:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)", text.strip())
    if found is None or found[2] not in _UNITS:
        raise InvalidOptionError(f"{name}: expected bytes, as in '2 GiB' or 500000000, got {text!r}")
    return int(float(found[1]) * _UNITS[found[2]])
