"""Unpacking of results with external data: archives of ``model.onnx`` and its data files."""

from __future__ import annotations

import secrets
import shutil
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from superopt.client.errors import DownloadDamagedError
from superopt.errors import InvalidOptionError
from superopt.files import atomic_path, is_stream

_MODEL = "model.onnx"


def unpack(archive: Path, target: Path) -> tuple[Path, ...]:
    """Writes the model of the archive to ``target`` and its data files beside it, where the model refers to
    them.

    Files appear atomically, the model last; returns their paths, the model first. Raises DownloadDamagedError
    for an invalid archive or one with paths outside of its directory.
    """
    try:
        with zipfile.ZipFile(archive) as packed:
            names = sorted(packed.namelist(), key=lambda name: name == _MODEL)
            places = {name: target if name == _MODEL else target.parent / _inside(name) for name in names}
            for name, place in places.items():
                place.parent.mkdir(parents=True, exist_ok=True)
                with atomic_path(place) as part, packed.open(name) as source, part.open("wb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
    except zipfile.BadZipFile as error:
        raise DownloadDamagedError(f"the downloaded archive is damaged: {error}") from error
    return tuple(reversed(places.values()))


@contextmanager
def temporary_beside(target: Path) -> Generator[Path]:
    """A temporary path in the directory of ``target``, removed at the end.

    Raises InvalidOptionError if ``target`` is a stream.
    """
    if is_stream(target):
        raise InvalidOptionError(f"{target}: the optimised model has external data: expected a file path")
    path = target.absolute().parent / f".{target.name}.{secrets.token_hex(8)}.zip"
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\\" in name:
        raise DownloadDamagedError(f"the downloaded archive holds a path outside of its directory: {name!r}")
    return path
