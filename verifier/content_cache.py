"""Content-addressed cache of results between runs: JSON files in the user's cache directory.

A key is a hash of everything that the answer depends on, so entries never become stale. Losing the cache
costs only time: unreadable entries are recomputed, and write errors are ignored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from superopt.errors import InvalidOptionError
from superopt.files import write_atomically


@dataclass(frozen=True)
class ContentCache:
    """JSON documents by key; without a directory nothing is stored."""

    directory: Path | None

    def get(self, key: str) -> object | None:
        """Return the document stored under the key, or None if there is no readable one."""
        if self.directory is None:
            return None
        try:
            return json.loads(self._path(self.directory, key).read_text("utf-8"))
        except (OSError, ValueError):
            return None

    def put(self, key: str, document: object) -> None:
        """Store a JSON document atomically."""
        if self.directory is None:
            return
        path = self._path(self.directory, key)
        with suppress(OSError, InvalidOptionError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(document).encode())

    def _path(self, directory: Path, key: str) -> Path:
        return directory / key[:2] / f"{key}.json"


def content_key(parts: Iterable[str]) -> str:
    """Return 32 hex digits that depend on every part and on the boundaries between parts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(f"{len(data)} ".encode() + data)
    return digest.hexdigest()[:32]


def user_cache(purpose: str) -> ContentCache:
    """Return the cache for one purpose in the user's cache directory."""
    return ContentCache(user_cache_path("superopt", appauthor=False) / purpose)


__all__ = ["ContentCache", "content_key", "user_cache"]
