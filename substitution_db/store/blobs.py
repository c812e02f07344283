"""Blob store: models, results and reports by content hash, in a directory or a remote store.

A blob is written to ``incoming/``, synced and then renamed to ``ab/abcdef...``, so that it appears
atomically. Blobs are read-only and immutable. With a remote store, the remote object is authoritative and the
directory is a cache.
"""

from __future__ import annotations

import errno
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
from superopt.substitution_db.store.remote import RemoteStore

_CHUNK_BYTES = 1 << 20
_READ_ONLY = 0o444


@dataclass(frozen=True, slots=True)
class Blob:
    """SHA-256 and size in bytes of a stored blob."""

    sha256: str
    bytes: int


class BlobStore:
    """Blobs in a directory (created on first use) or in ``remote``."""

    def __init__(self, directory: Path, remote: RemoteStore | None = None) -> None:
        self.directory = directory
        self._remote = remote

    def writer(self) -> BlobWriter:
        """A writer for a new blob."""
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

    def holds(self, blob: Blob) -> bool:
        """Whether a blob is stored completely. Raises MissingServiceError."""
        if self._remote is not None:
            return self._remote.size(blob.sha256) == blob.bytes
        try:
            return self._path(blob.sha256).stat().st_size == blob.bytes
        except FileNotFoundError:
            return False

    def path(self, sha256: str) -> Path:
        """The path of a read-only file with the content of a blob, fetched from the remote store if
        necessary. The file does not exist if the blob is not stored. Raises MissingServiceError.
        """
        path = self._path(sha256)
        if self._remote is not None:
            try:
                os.utime(path)
            except FileNotFoundError:
                self._fetch(self._remote, sha256)
        return path

    def place(self, sha256: str, target: Path) -> None:
        """Places a blob at ``target``, as a hard link if possible, else as a copy."""
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
        """The hashes of all blobs. Raises MissingServiceError."""
        return self._in_directory() if self._remote is None else self._remote.stored()

    def remove_abandoned(self, older_than_seconds: float) -> None:
        """Removes partial uploads not written to for that many seconds."""
        incoming = self.directory / "incoming"
        limit = time.time() - older_than_seconds
        for entry in incoming.iterdir() if incoming.is_dir() else ():
            try:
                if entry.stat().st_mtime < limit:
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            except FileNotFoundError:
                continue  # finished by its writer meanwhile

    def remove_unused(self, hashes: Iterable[str], older_than_seconds: float) -> None:
        """Removes unreferenced blobs, except those stored again within the last ``young_seconds``."""
        limit = time.time() - older_than_seconds
        if self._remote is not None:
            self._remote.remove(hashes, limit)
        else:
            self._remove_files(hashes, limit)

    def remove_copies(self, older_than_seconds: float) -> None:
        """Removes cached copies of remote blobs not used for that many seconds."""
        if self._remote is not None:
            self._remove_files(self._in_directory(), time.time() - older_than_seconds)

    def free_bytes(self) -> int:
        """Free disk space of the blob directory in bytes."""
        return shutil.disk_usage(self._made("incoming")).free

    def incoming(self) -> Path:
        """The path of a new file, not yet created."""
        return self._made("incoming") / secrets.token_hex(16)

    def keep(self, path: Path, blob: Blob) -> None:
        """Moves a complete, synced file into the store as that blob. Raises MissingServiceError."""
        if self._remote is not None and self._remote.size(blob.sha256) != blob.bytes:
            self._remote.upload(path, blob.sha256)
        self._take(path, blob.sha256)

    def _path(self, sha256: str) -> Path:
        return self.directory / sha256[:2] / sha256

    def _in_directory(self) -> frozenset[str]:
        return frozenset(path.name for path in self.directory.glob("[0-9a-f][0-9a-f]/*"))

    def _take(self, path: Path, sha256: str) -> None:
        target = self._path(sha256)
        self._made(sha256[:2])
        path.replace(target)
        _sync_directory(target.parent)

    def _fetch(self, remote: RemoteStore, sha256: str) -> None:
        path = self.incoming()
        try:
            with path.open("xb") as copy:
                for chunk in remote.read(sha256):
                    copy.write(chunk)
            path.chmod(_READ_ONLY)
            self._take(path, sha256)
        except FileNotFoundError:
            return
        finally:
            path.unlink(missing_ok=True)

    def _remove_files(self, hashes: Iterable[str], limit: float) -> None:
        for sha256 in hashes:
            removed = self.incoming()
            try:
                self._path(sha256).replace(removed)
            except FileNotFoundError:
                continue
            if removed.stat().st_mtime > limit:
                removed.replace(self._path(sha256))
            else:
                removed.unlink()

    def _made(self, name: str) -> Path:
        directory = self.directory / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            raise InvalidOptionError(
                f"blob directory {directory}: cannot be created: {error.strerror}"
            ) from error
        return directory


class BlobWriter:
    """Writer of a blob; removes it at the end of the ``with`` block unless finished."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._path = store.incoming()
        self._file = self._path.open("xb")
        self._hash = hashlib.sha256()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """The number of bytes written."""
        return self._bytes

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes written."""
        return self._hash.hexdigest()

    def write(self, chunk: bytes | memoryview) -> None:
        """Appends to the blob."""
        self._file.write(chunk)
        self._hash.update(chunk)
        self._bytes += len(chunk)

    def seal(self) -> None:
        """Syncs the file to disk; nothing can be written afterwards."""
        if not self._file.closed:
            self._file.flush()
            os.fchmod(self._file.fileno(), _READ_ONLY)
            os.fsync(self._file.fileno())
            self._file.close()

    def place(self, target: Path) -> None:
        """Links the file to ``target`` too, to be read before it is stored."""
        self.seal()
        target.hardlink_to(self._path)

    def finish(self) -> Blob:
        """Stores the blob."""
        self.seal()
        blob = Blob(self._hash.hexdigest(), self._bytes)
        self._store.keep(self._path, blob)
        return blob

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    """Syncs a directory, so that renames in it are durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
