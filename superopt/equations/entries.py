"""Entries of an equation file: text, line, preceding comment, head of the enclosing schema."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from superopt.errors import InvalidEquationError

_HEAD = re.compile(r"for\b.*:\s*(#.*)?")


@dataclass(frozen=True, slots=True)
class Entry:
    """An equation as written, starting at ``line``. ``comment`` is the comment directly above it, or above
    adjacent equations above it, lines joined. ``head`` is the line ``for f in ...:`` of the schema that
    contains it; the comment above that is used where the equation has none."""

    line: int
    text: str
    comment: str = ""
    head: str = ""


def entries(text: str, first_line: int = 1) -> Iterator[Entry]:
    """All entries of a file: each starts in the first column, continuation lines are indented, as are
    equations of a schema below its head. Comments and blank lines before a continuation line belong to the
    equation that they interrupt. Raises InvalidEquationError for an indented line without an entry to
    continue."""
    lines = text.splitlines()
    comment, index = "", 0
    while index < len(lines):
        line, number = lines[index], first_line + index
        end = _end(lines, index)
        if line.startswith("#"):
            above = comment if index and lines[index - 1].startswith("#") else ""
            comment = f"{above} {line.lstrip('#').strip()}".strip()
        elif not line.strip():
            comment = ""
        elif line[0].isspace():
            raise InvalidEquationError(f"line {number}: an equation starts in the first column, got {line!r}")
        elif _HEAD.fullmatch(line):
            body = textwrap.dedent("\n".join(lines[index + 1 : end]))
            if not body:
                raise InvalidEquationError(f"line {number}: expected indented equations below {line!r}")
            for entry in entries(body, number + 1):
                yield replace(entry, comment=entry.comment or comment, head=line.strip())
            index = end
            continue
        else:
            yield Entry(number, "\n".join(lines[index:end]), comment)
            index = end
            continue
        index += 1


def _end(lines: Sequence[str], start: int) -> int:
    """The line after the last indented one that continues the line at ``start``."""
    end = index = start + 1
    while index < len(lines):
        line = lines[index]
        if line.strip() and not line.lstrip().startswith("#"):
            if not line[0].isspace():
                break
            end = index + 1
        index += 1
    return end
