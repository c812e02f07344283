"""Python objects that an earlier process computed, in the user's cache directory: one file for each purpose.

Like the database, the files are trusted: they are read only if they belong to this user and nobody else may
write them. What decides whether a proof is valid does not use them.
"""

from __future__ import annotations

import hashlib
import os
import pickle  # nosec B403: only files that this user alone can write are read
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TypeVar, cast

from platformdirs import user_cache_path

from superopt.errors import InvalidOptionError
from superopt.files import write_atomically

T = TypeVar("T")

_KINDS = (".axioms", ".lark", ".py")
_UNREADABLE = (
    OSError,
    EOFError,
    ImportError,
    AttributeError,
    IndexError,
    TypeError,
    ValueError,
    pickle.PickleError,
)


def cached(purpose: str, parts: Iterable[str], compute: Callable[[], T]) -> T:
    """What ``compute`` returns, or what it returned to an earlier process for the same ``parts``, which must
    be all that it depends on. The file holds the last result only. Write errors are ignored.
    """
    key = _digest(parts)
    path = user_cache_path("superopt", appauthor=False) / "objects" / f"{purpose}.pickle"
    with suppress(*_UNREADABLE):
        content = _own_bytes(path)
        if content.startswith(key):
            return cast("T", pickle.loads(content[len(key) :]))  # nosec B301: as above
    found = compute()
    with suppress(OSError, InvalidOptionError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, key + pickle.dumps(found))
    return found


@cache
def source_key(*packages: str) -> str:
    """A hash of the sources and data of packages of superopt, and of the version of Python."""
    root = Path(str(resources.files("superopt")))
    files = sorted(path for name in packages for path in (root / name).rglob("*") if path.suffix in _KINDS)
    parts = (part for path in files for part in (path.relative_to(root).as_posix(), path.read_text("utf-8")))
    return _digest((sys.version, *parts)).decode()


def _digest(parts: Iterable[str]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode()
        digest.update(f"{len(content)} ".encode() + content)
    return digest.hexdigest().encode()


def _own_bytes(path: Path) -> bytes:
    """The content of a file of this user that nobody else may write; empty for another."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        is_own = status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return file.read() if is_own else b""
