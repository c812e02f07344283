"""Messages about wrong usage: what was given, what was expected."""

from __future__ import annotations

import re
from collections.abc import Sequence

from typer.exceptions import TyperException

_EXPECTED = (
    (r"Input should be a valid number, .*", "expected a number"),
    (r"Input should be a valid integer, .*", "expected a whole number"),
    (r"Input should be greater than or equal to (\S+)", r"expected at least \1"),
    (r"Input should be less than or equal to (\S+)", r"expected at most \1"),
    (r"Input should be greater than (\S+)", r"expected more than \1"),
    (r"Input should be less than (\S+)", r"expected less than \1"),
    (r"Value error, '(?P<got>.*)' is not one of (.*)\.", r"expected one of \2"),
)
"""What the parser of options says of a value, and how superopt says it everywhere."""


def usage_message(error: TyperException, arguments: Sequence[str]) -> str:
    """The message of an error of the command line, given its arguments."""
    message = getattr(error, "format_message", error.__str__)()
    extra = re.fullmatch(r"Got unexpected extra argument\(s\) \((.*)\)", message)
    if extra:
        return f"unexpected argument {extra[1].split()[0]!r}{_hint(error)}"
    wrong = re.fullmatch(r"Invalid value for '([^']*)'(?: / '[^']*')*: (.*)", message)
    return message if wrong is None else _of_value(wrong[1], wrong[2], arguments) or message


def _of_value(option: str, said: str, arguments: Sequence[str]) -> str:
    """The message about a value of which the parser said that; empty for what is not in the table."""
    for pattern, expected in _EXPECTED:
        found = re.fullmatch(pattern, said)
        if found:
            got = found.groupdict().get("got") or _value_of(option, arguments)
            return f"{option}: {found.expand(expected)}" + ("" if got is None else f", got {got!r}")
    return ""


def _hint(error: TyperException) -> str:
    """The usage of the command, and how to say what is written if it writes a file."""
    context = getattr(error, "ctx", None)
    if context is None:
        return ""
    flags = {flag for option in context.command.params for flag in option.opts}
    writing = "; -o FILE names the file to write" if "-o" in flags else ""
    return f"; {context.get_usage().replace('Usage', 'usage', 1)}{writing}"


def _value_of(flag: str, arguments: Sequence[str]) -> str | None:
    """What the command line gives last for an option; None if it is not found."""
    for place, argument in reversed(list(enumerate(arguments))):
        if argument == flag and place + 1 < len(arguments):
            return arguments[place + 1]
        if argument.startswith(f"{flag}="):
            return argument.partition("=")[2]
    return None
