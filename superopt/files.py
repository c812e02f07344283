"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from superopt.errors import InvalidOptionError


def require_writable(path: Path) -> None:
    """Raises InvalidOptionError unless the path is of a file in a directory that exists."""
    if path.is_dir():
        raise InvalidOptionError(f"{path}: expected a file to write, got a directory")
    if not path.absolute().parent.is_dir():
        raise InvalidOptionError(f"{path}: expected the path of a file in a directory that exists")


@contextmanager
def atomic_path(path: Path) -> Generator[Path]:
    """A temporary path beside ``path``, renamed to it at the end; removed if the block raises.

    Raises InvalidOptionError where the directory is missing or cannot be written, or ``path`` is a directory.
    """
    path = path.absolute()
    require_writable(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise InvalidOptionError(f"{path}: cannot write there: {error.strerror}") from None
    os.close(handle)
    part = Path(name)
    try:
        part.chmod(0o666 & ~_umask())
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Writes the file whole or not at all; raises InvalidOptionError where it cannot."""
    try:
        with atomic_path(path) as part:
            part.write_bytes(content)
    except OSError as error:
        raise InvalidOptionError(f"{path}: cannot be written: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
