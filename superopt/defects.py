"""What is wrong with a document that pydantic refuses, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

_SAY_WHAT_WAS_FOUND = ("missing", "json_invalid", "value_error")
"""Kinds of defects that have no value, or name it in their message."""


def first_defect(error: ValidationError, whole: str = "the document") -> str:
    """The place of the first defect, or ``whole`` where the document itself is meant, what is expected there,
    and what was found. Places in lists are numbered from 0."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"])) or whole
    found = "" if first["type"] in _SAY_WHAT_WAS_FOUND else f", got {first['input']!r:.60}"
    return f"{place}: {first['msg']}{found}"


__all__ = ["first_defect"]
