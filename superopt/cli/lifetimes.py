"""Lifetimes as given on the command line: 30d, 12h, 2w."""

from __future__ import annotations

import re
from datetime import timedelta

from superopt.errors import InvalidOptionError

_HOURS = {"h": 1, "d": 24, "w": 7 * 24}
_MOST_DIGITS = 6


def lifetime(text: str) -> timedelta:
    """The time of a number of hours, days or weeks. Raises InvalidOptionError."""
    found = re.fullmatch(rf"([0-9]{{1,{_MOST_DIGITS}}})([hdw])", text.strip())
    if found is None or not int(found[1]):
        raise InvalidOptionError(f"expires: expected hours, days or weeks, as in 12h, 30d, 8w, got {text!r}")
    return timedelta(hours=int(found[1]) * _HOURS[found[2]])
