"""Models, results and reports by the hash of their content, in a directory.

A blob is written to ``incoming/``, made durable and then renamed to ``ab/abcdef...``: it is there completely
or not at all. Blobs are read-only and never change.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from superopt.errors import InvalidOptionError

_CHUNK_BYTES = 1 << 20
_READ_ONLY = 0o444


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored content: its SHA-256 and size."""

    sha256: str
    bytes: int


class BlobStore:
    """Blobs in a directory, which is made when it is first needed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def writer(self) -> BlobWriter:
        """Something to write a new blob to, piece by piece."""
        return BlobWriter(self)

    def put_bytes(self, content: bytes) -> Blob:
        """Stores bytes."""
        with self.writer() as writer:
            writer.write(content)
            return writer.finish()

    def put_file(self, path: Path) -> Blob:
        """Stores a copy of a file."""
        with self.writer() as writer, path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                writer.write(chunk)
            return writer.finish()

    def path(self, sha256: str) -> Path:
        """Where a blob is (to be read only)."""
        return self.directory / sha256[:2] / sha256

    def place(self, sha256: str, target: Path) -> None:
        """Makes a blob appear at ``target``: as a hard link, or as a copy where that is impossible."""
        source = self.path(sha256)
        try:
            target.hardlink_to(source)
        except OSError:
            shutil.copyfile(source, target)

    def work_directory(self, name: str) -> Path:
        """A new empty directory on the same file system as the blobs."""
        directory = self._made("work") / name
        directory.mkdir()
        return directory

    def work_directories(self) -> frozenset[str]:
        """The names of all working directories."""
        work = self.directory / "work"
        return frozenset(entry.name for entry in work.iterdir()) if work.is_dir() else frozenset()

    def remove_work(self, names: Iterable[str]) -> None:
        """Removes working directories."""
        for name in names:
            shutil.rmtree(self.directory / "work" / name, ignore_errors=True)

    def stored(self) -> frozenset[str]:
        """The hashes of all blobs."""
        return frozenset(path.name for path in self.directory.glob("[0-9a-f][0-9a-f]/*"))

    def remove_abandoned(self, older_than_seconds: float) -> None:
        """Removes pieces of uploads that nobody has written to for that long."""
        incoming = self.directory / "incoming"
        limit = time.time() - older_than_seconds
        for entry in incoming.iterdir() if incoming.is_dir() else ():
            try:
                if entry.stat().st_mtime < limit:
                    entry.unlink()
            except FileNotFoundError:
                continue  # its writer finished

    def remove_unused(self, hashes: Iterable[str], older_than_seconds: float) -> None:
        """Removes blobs that no job uses any more; one stored again meanwhile is young, and stays."""
        limit = time.time() - older_than_seconds
        for sha256 in hashes:
            removed = self.incoming()
            try:
                self.path(sha256).replace(removed)
            except FileNotFoundError:
                continue
            if removed.stat().st_mtime > limit:
                removed.replace(self.path(sha256))
            else:
                removed.unlink()

    def free_bytes(self) -> int:
        """Free space where the blobs are."""
        return shutil.disk_usage(self._made("incoming")).free

    def incoming(self) -> Path:
        """A path for a new file, not there yet."""
        return self._made("incoming") / secrets.token_hex(16)

    def keep(self, path: Path, sha256: str) -> None:
        """Takes over a complete, durable file as the blob with that hash."""
        target = self.path(sha256)
        self._made(sha256[:2])
        path.replace(target)
        _sync_directory(target.parent)

    def _made(self, name: str) -> Path:
        directory = self.directory / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidOptionError(
                f"blob directory {directory}: cannot be made: {error.strerror}"
            ) from error
        return directory


class BlobWriter:
    """A blob being written; what is not finished when the ``with`` block ends is removed."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._path = store.incoming()
        self._file = self._path.open("xb")
        self._hash = hashlib.sha256()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """How much was written."""
        return self._bytes

    @property
    def sha256(self) -> str:
        """The hash of what was written."""
        return self._hash.hexdigest()

    def write(self, chunk: bytes | memoryview) -> None:
        """Appends to the blob."""
        self._file.write(chunk)
        self._hash.update(chunk)
        self._bytes += len(chunk)

    def seal(self) -> None:
        """Makes what was written durable; nothing can be written after that."""
        if not self._file.closed:
            self._file.flush()
            os.fchmod(self._file.fileno(), _READ_ONLY)
            os.fsync(self._file.fileno())
            self._file.close()

    def finish(self) -> Blob:
        """Stores what was written."""
        self.seal()
        blob = Blob(self._hash.hexdigest(), self._bytes)
        self._store.keep(self._path, blob.sha256)
        return blob

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    """Makes renames in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
