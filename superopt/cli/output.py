"""What commands print: text for people on standard output, or one JSON document; progress goes to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

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

NoDatabaseOption = Annotated[
    str | None,
    typer.Option("--database", metavar="URL", help="Taken by every command; this one needs none."),
]

Row: TypeAlias = "Sequence[object]"


@dataclass(frozen=True)
class Output:
    """Where a command's answer goes."""

    as_json: bool

    def document(self, content: object) -> None:
        """The JSON document, when JSON was asked for."""
        if self.as_json:
            sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def line(self, text: str = "") -> None:
        """A line for people."""
        if not self.as_json:
            sys.stdout.write(text + "\n")

    def pairs(self, pairs: Mapping[str, object]) -> None:
        """Names and values, aligned."""
        width = max((len(name) for name in pairs), default=0)
        for name, value in pairs.items():
            self.line(f"{name:<{width}}  {value}")

    def table(self, headings: Sequence[str], rows: Sequence[Row]) -> None:
        """A table for people; numbers are right-aligned."""
        if self.as_json:
            return
        table = Table(box=None, pad_edge=False, show_edge=False)
        for index, heading in enumerate(headings):
            numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
            table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*("" if cell is None else str(cell) for cell in row))
        plain_console().print(table, markup=False, highlight=False)


def plain_console() -> Console:
    """Standard output; as wide as the terminal, or unlimited when it is none."""
    return Console(
        file=sys.stdout, width=None if sys.stdout.isatty() else 10_000, highlight=False, markup=False
    )


def progress_console() -> Console:
    """Standard error: logs and progress."""
    return Console(file=sys.stderr, highlight=False)
