"""Downloads with conditional and range requests (RFC 9110, sections 13 and 14)."""

from __future__ import annotations

import hashlib
import re

from fastapi import Request, Response
from fastapi.responses import FileResponse

from superopt.server.http.problems import Problem
from superopt.server.http.state import state_of
from superopt.server.problem_types import ProblemType
from superopt.substitution_db.store.records import JobFile, JobRole

_RANGE = re.compile(r"\s*(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))\s*")
_MOST_RANGES = 16
_NEVER_CHANGES = "private, max-age=86400, immutable"
"""Results never change, but shared caches must not serve them to holders of other keys."""


def unless_known(request: Request, content: bytes) -> Response:
    """A JSON response with an entity tag, or 304 if the client has this version."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if _known(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type="application/json")


def download(request: Request, file: JobFile, kind: str) -> Response:
    """A file of an optimization; the entity tag is the hash of its content."""
    path = state_of(request).database.blobs.path(file.sha256)
    if not path.exists():
        raise Problem(ProblemType.ARCHIVE_UNAVAILABLE, f"{file.name} was removed from the blob store")
    tag = f'"{file.sha256}"'
    headers = {"ETag": tag, "Cache-Control": _NEVER_CHANGES, "Vary": "Authorization"}
    if _known(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    _settle_range(request, file.bytes, tag)
    disposition = "inline" if file.role is JobRole.REPORT else "attachment"
    return FileResponse(
        path, headers=headers, media_type=kind, filename=file.name, content_disposition_type=disposition
    )


def _known(condition: str, tag: str) -> bool:
    tags = (part.strip().removeprefix("W/") for part in condition.split(","))
    return any(part in ("*", tag) for part in tags)


def _settle_range(request: Request, size: int, tag: str) -> None:
    """Removes a ``Range`` header that must be ignored (for another version of the file, or malformed). Raises
    Problem if the range is not satisfiable.
    """
    text = request.headers.get("range")
    if text is None:
        return
    inside = [start < size for start in _starts(text, size)]
    if request.headers.get("if-range", tag) == tag and inside and not any(inside):
        detail = f"the file has {size} bytes"
        raise Problem(ProblemType.RANGE, detail, headers={"Content-Range": f"bytes */{size}"})
    if request.headers.get("if-range", tag) != tag or not inside or not all(inside):
        headers = [(name, value) for name, value in request.scope["headers"] if name != b"range"]
        request.scope["headers"] = headers


def _starts(text: str, size: int) -> list[int]:
    """First byte of each range; empty for a malformed list of ranges."""
    unit, _, ranges = text.partition("=")
    found = [_RANGE.fullmatch(part) for part in ranges.split(",")]
    if unit.strip().lower() != "bytes" or len(found) > _MOST_RANGES:
        return []
    starts: list[int] = []
    for match in found:
        if match is None or (match[1] and match[2] and int(match[2]) < int(match[1])):
            return []
        starts.append(int(match[1]) if match[1] else _start_of_last(int(match[3]), size))
    return starts


def _start_of_last(count: int, size: int) -> int:
    return max(0, size - count) if count else size
