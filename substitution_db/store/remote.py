"""Remote blob store: a bucket or other fsspec file system, with one object per content hash."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, Self, cast

from superopt.errors import InvalidOptionError, MissingServiceError

_CHUNK_BYTES = 4 << 20


class _File(Protocol):
    def __enter__(self) -> Self: ...
    def __exit__(self, *failure: object) -> None: ...
    def read(self, size: int) -> bytes: ...
    def write(self, content: bytes, /) -> object: ...
    def commit(self) -> None: ...


class _FileSystem(Protocol):
    """The used part of ``fsspec.AbstractFileSystem``, with types."""

    def open(self, path: str, mode: str, *, autocommit: bool = True) -> _File: ...
    def makedirs(self, path: str, exist_ok: bool) -> None: ...  # noqa: FBT001
    def info(self, path: str) -> dict[str, object]: ...
    def find(self, path: str) -> list[str]: ...
    def modified(self, path: str) -> datetime: ...
    def rm_file(self, path: str) -> None: ...
    def invalidate_cache(self, path: str | None = None) -> None: ...


class RemoteStore:
    """Objects named ``ab/abcdef...`` under a URL; they appear atomically.

    Every method raises MissingServiceError if the store is not available.
    """

    def __init__(self, url: str) -> None:
        """Raises InvalidOptionError for a URL unknown to fsspec, MissingServiceError without fsspec or the
        package for the URL."""
        self.url = url
        try:
            from fsspec.core import url_to_fs  # pyright: ignore[reportUnknownVariableType]

            found = cast("tuple[_FileSystem, str]", url_to_fs(url))
        except ValueError as error:
            raise InvalidOptionError(f"blob store {url}: {error}") from error
        except ImportError as error:
            raise MissingServiceError(
                f"blob store {url}: {error}; run `pip install fsspec` and the package for this store, "
                "such as s3fs for s3://"
            ) from error
        self._files, self._root = found

    def size(self, sha256: str) -> int | None:
        """The size of a blob in bytes; None if it is not stored."""
        with self._answering():
            try:
                return int(str(self._files.info(self._path(sha256))["size"]))
            except FileNotFoundError:
                return None

    def upload(self, source: Path, sha256: str) -> None:
        """Stores a complete file as the blob with that hash."""
        path = self._path(sha256)
        with source.open("rb") as content, self._answering():
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            with self._files.open(path, "wb", autocommit=False) as target:
                shutil.copyfileobj(content, target, _CHUNK_BYTES)
            target.commit()
            self._files.invalidate_cache()

    def read(self, sha256: str) -> Iterator[bytes]:
        """Yields a blob in chunks. Raises FileNotFoundError if it is not stored."""
        with self._answering(), self._files.open(self._path(sha256), "rb") as source:
            while chunk := source.read(_CHUNK_BYTES):
                yield chunk

    def stored(self) -> frozenset[str]:
        """The hashes of all blobs."""
        with self._answering():
            self._files.invalidate_cache()
            names = (path.rpartition("/")[2] for path in self._files.find(self._root))
            return frozenset(name for name in names if len(name) == 64)

    def remove(self, hashes: Iterable[str], before: float) -> None:
        """Removes those of the blobs that were written before ``before`` (seconds since 1970)."""
        limit = datetime.fromtimestamp(before, UTC)
        with self._answering():
            for sha256 in hashes:
                path = self._path(sha256)
                try:
                    written = self._files.modified(path)
                    if written.replace(tzinfo=written.tzinfo or UTC) < limit:
                        self._files.rm_file(path)
                except FileNotFoundError:
                    continue

    def _path(self, sha256: str) -> str:
        return f"{self._root}/{sha256[:2]}/{sha256}"

    @contextmanager
    def _answering(self) -> Generator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise MissingServiceError(f"blob store {self.url} cannot be used: {error}") from error
