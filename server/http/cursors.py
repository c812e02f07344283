"""Cursors of lists: the place of the last item that was shown, which no later item changes."""

from __future__ import annotations

import base64
import binascii

from superopt.server.http.problems import Problem
from superopt.server.problem_types import ProblemType


def cursor_of(list_: str, place: str) -> str:
    """The cursor behind ``place`` of the list of that name; nothing to people but something to send back."""
    return base64.urlsafe_b64encode(f"{list_}:{place}".encode()).decode().rstrip("=")


def place_of(list_: str, cursor: str) -> str:
    """What ``cursor_of`` was given; ends the request unless the cursor is of that list."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode(
            "ascii"
        )
    except (binascii.Error, ValueError):
        raise _foreign(cursor) from None
    name, _, place = text.partition(":")
    if name != list_ or not place.isalnum():
        raise _foreign(cursor)
    return place


def number_of(list_: str, cursor: str) -> int:
    """``place_of`` as a number that a database can compare with."""
    place = place_of(list_, cursor)
    if not place.isdecimal() or len(place) > len("999999999999999999"):
        raise _foreign(cursor)
    return int(place)


def _foreign(cursor: str) -> Problem:
    return Problem(ProblemType.CURSOR, f"expected `next` of a page of this list, got {cursor[:40]!r}")
