"""Pagination cursors: the encoded position of the last item returned, stable when items are added."""

from __future__ import annotations

import base64
import binascii

from superopt.server.http.problems import Problem
from superopt.server.problem_types import ProblemType


def cursor_of(list_: str, place: str) -> str:
    """The opaque cursor after ``place`` in the list of that name."""
    return base64.urlsafe_b64encode(f"{list_}:{place}".encode()).decode().rstrip("=")


def place_of(list_: str, cursor: str) -> str:
    """The place encoded in a cursor of ``cursor_of``. Raises Problem unless it is a cursor of that list."""
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
    """``place_of`` as an integer in the range of database integers."""
    place = place_of(list_, cursor)
    if not place.isdecimal() or len(place) > len("999999999999999999"):
        raise _foreign(cursor)
    return int(place)


def _foreign(cursor: str) -> Problem:
    return Problem(
        ProblemType.CURSOR, f"expected the `next` value of a page of this list, got {cursor[:40]!r}"
    )
