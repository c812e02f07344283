"""Validation of uploaded file names; locations of external data stay inside the job's directory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from superopt.server.http.problems import Problem
from superopt.server.problem_types import ProblemType

_LOCATION_BYTES = 1000
_PART_BYTES = 255
_NAME_CHARACTERS = 200


def check_locations(locations: Sequence[str], model: str) -> None:
    """Raises Problem unless the locations are relative and distinct and none is a directory of another.
    ``model`` is the location of the model itself.
    """
    seen: set[PurePosixPath] = set()
    for location in locations:
        path = _checked(location)
        if path in seen or path == PurePosixPath(model):
            raise Problem(ProblemType.UPLOAD, f"data: duplicate location {location!r}")
        seen.add(path)
    for path in seen:
        for parent in path.parents:
            if parent in seen or parent == PurePosixPath(model):
                raise Problem(ProblemType.UPLOAD, f"data: {str(parent)!r} cannot be a file and a directory")


def display_name(name: str) -> str:
    """A file name that is safe to show and to download, from the name a client sent. Browsers and curl send a
    quotation mark as ``%22``. Of a name that is too long the middle is left out.
    """
    base = re.split(r"[/\\]", name.replace("%22", '"'))[-1]
    printable = "".join(character for character in base if character.isprintable()).strip(" .")
    if len(printable) > _NAME_CHARACTERS:
        half = _NAME_CHARACTERS // 2
        printable = f"{printable[:half]}…{printable[-half:]}"
    return printable or "model.onnx"


def _checked(location: str) -> PurePosixPath:
    path = PurePosixPath(location)
    parts = location.split("/")
    wrong = (
        not location
        or path.is_absolute()
        or any(part in ("", ".", "..") for part in parts)
        or "\\" in location
        or not location.isprintable()
        or len(location.encode()) > _LOCATION_BYTES
        or any(len(part.encode()) > _PART_BYTES for part in parts)
    )
    if wrong:
        raise Problem(
            ProblemType.UPLOAD,
            f"data: expected the location of external data relative to the model as the file name, "
            f"got {location[:100]!r}",
        )
    return path
