"""Command output: text or one JSON document on standard output, progress on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Annotated, TextIO, TypeAlias, cast

import typer
from rich.console import Console
from rich.table import Table

from superopt.errors import InvalidOptionError
from superopt.files import STANDARD_INPUT, STANDARD_OUTPUT, is_standard_output

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="Database of rules, costs and jobs (default: $SUPEROPT_DATABASE_URL, else SQLite in the user "
        "data directory).",
    ),
]

PlannedForOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="The cluster of a plan whose strategy merges or divides gradients; a known machine is found by "
        "its name in the report.",
    ),
]
NoDatabaseOption = Annotated[
    str | None,
    typer.Option("--database", metavar="URL", help="Accepted by every command; unused here."),
]


def destination(text: str) -> Path:
    """The path of a file to write, as given on the command line; ``-`` is standard output."""
    return STANDARD_OUTPUT if text == "-" else Path(text)


def model_source(text: str) -> Path:
    """The path of a model to read, as given on the command line; ``-`` is standard input."""
    return STANDARD_INPUT if text == "-" else Path(text)


ModelArgument = Annotated[
    Path,
    typer.Argument(help="The ONNX model; - is standard input.", parser=model_source, metavar="MODEL"),
]
OutputOption = Annotated[
    Path,
    typer.Option(
        *("--output", "-o"),
        help="The file to write; - is standard output.",
        parser=destination,
        metavar="FILE",
    ),
]


def shown(path: Path) -> str:
    """A written path for display; ``-`` is shown as standard output."""
    return "standard output" if path == STANDARD_OUTPUT else str(path)


def several(count: object, noun: str) -> str:
    """A count with its noun: ``1 node``, ``2 nodes``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def brief(text: str) -> str:
    """The text with the matrices of algorithms abbreviated (``superopt.equations.abbreviated``)."""
    if "(((" not in text:
        return text
    from superopt.equations import abbreviated  # imports the algebra, which most output does not need

    return abbreviated(text)


_WIDEST = 10_000
"""Columns of a table that is not written to a terminal."""

Row: TypeAlias = "Sequence[object]"


@dataclass(frozen=True)
class Output:
    """Destination of a command's output: text or JSON."""

    as_json: bool
    file: TextIO = field(default_factory=lambda: sys.stdout)

    @staticmethod
    def beside(as_json: bool, *written: Path | None) -> Output:
        """Output of a command that writes files; on standard error if one of the files is standard output.

        Raises InvalidOptionError if two results would go to standard output.
        """
        streamed = sum(is_standard_output(path) for path in written if path is not None)
        if streamed > 1:
            raise InvalidOptionError("output: two results cannot both go to standard output")
        if streamed and as_json:
            raise InvalidOptionError("output: --json uses standard output; give a file for the result")
        return Output(as_json, sys.stderr) if streamed else Output(as_json)

    def document(self, content: object) -> None:
        """Prints the document in JSON mode."""
        if self.as_json:
            self.file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def line(self, text: str = "") -> None:
        """Prints a line in text mode, with the matrices of algorithms abbreviated."""
        self.exact_line(brief(text))

    def exact_line(self, text: str) -> None:
        """Prints a line in text mode as it is."""
        if not self.as_json:
            self.file.write(text + "\n")

    def pairs(self, pairs: Mapping[str, object]) -> None:
        """Prints aligned names and values in text mode; each item of a list on its own line."""
        width = max((len(name) for name in pairs), default=0)
        for name, value in pairs.items():
            lines = cast("list[object]", value) if isinstance(value, list) else [value]
            for number, line in enumerate(lines):
                self.line(f"{'' if number else name:<{width}}  {line}")

    def table(self, headings: Sequence[str], rows: Sequence[Row]) -> None:
        """Prints a table in text mode; numbers are right-aligned, matrices of algorithms abbreviated."""
        if self.as_json:
            return
        table = Table(box=None, pad_edge=False, show_edge=False)
        for index, heading in enumerate(headings):
            numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
            table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*("" if cell is None else brief(str(cell)) for cell in row))
        if self.file.isatty():
            Console(file=self.file, highlight=False, markup=False).print(table)
            return
        written = StringIO()
        Console(file=written, width=_WIDEST, highlight=False, markup=False).print(table)
        self.file.write("".join(f"{line.rstrip()}\n" for line in written.getvalue().splitlines()))


def progress_console() -> Console:
    """The console of standard error, for logs and progress."""
    return Console(file=sys.stderr, highlight=False)
