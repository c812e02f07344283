"""Resumable downloads, checked by hash."""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from typing import BinaryIO

import httpx

from superopt.client.errors import DownloadDamagedError


class Download:
    """Writes response bodies to a file; resumes after a broken connection."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._tag = ""
        self.bytes = 0

    @property
    def headers(self) -> dict[str, str]:
        """Headers that request the missing part of the same file, uncompressed."""
        plain = {"Accept-Encoding": "identity"}
        return {**plain, "Range": f"bytes={self.bytes}-", "If-Range": self._tag} if self.bytes else plain

    def begin(self, response: httpx.Response) -> None:
        """Handles the head of a successful response: the next part, or the whole file from the start."""
        self._tag = response.headers.get("ETag", "")
        if response.status_code != HTTPStatus.PARTIAL_CONTENT:
            self._file.seek(0)
            self._file.truncate()
            self._hash, self.bytes = hashlib.sha256(), 0

    def write(self, chunk: bytes) -> None:
        """Writes a piece of the body."""
        self._file.write(chunk)
        self._hash.update(chunk)
        self.bytes += len(chunk)

    def finish(self) -> None:
        """Finishes the file. Raises DownloadDamagedError if its hash differs from its entity tag."""
        self._file.flush()
        expected = self._tag.strip('"')
        if expected and expected != self._hash.hexdigest():
            raise DownloadDamagedError(
                f"the downloaded file is damaged: expected sha256 {expected}, got {self._hash.hexdigest()}"
            )
