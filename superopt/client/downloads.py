"""A file that arrives in pieces, over several connections if need be, and is checked by its hash."""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from typing import BinaryIO

import httpx

from superopt.client.errors import DownloadDamagedError


class Download:
    """Writes the bodies of responses to a file; what a broken connection left is continued."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._tag = ""
        self.bytes = 0

    @property
    def headers(self) -> dict[str, str]:
        """Asks for what is missing, if the file is still the same, as it is (not compressed)."""
        plain = {"Accept-Encoding": "identity"}
        return {**plain, "Range": f"bytes={self.bytes}-", "If-Range": self._tag} if self.bytes else plain

    def begin(self, response: httpx.Response) -> None:
        """The head of a successful response: a part that follows, or the whole file from the start."""
        self._tag = response.headers.get("ETag", "")
        if response.status_code != HTTPStatus.PARTIAL_CONTENT:
            self._file.seek(0)
            self._file.truncate()
            self._hash, self.bytes = hashlib.sha256(), 0

    def write(self, chunk: bytes) -> None:
        """More of the body."""
        self._file.write(chunk)
        self._hash.update(chunk)
        self.bytes += len(chunk)

    def finish(self) -> None:
        """The file is complete; raises DownloadDamagedError if it is not what its entity tag says."""
        self._file.flush()
        expected = self._tag.strip('"')
        if expected and expected != self._hash.hexdigest():
            raise DownloadDamagedError(
                f"the file that arrived is damaged: expected sha256 {expected}, got {self._hash.hexdigest()}"
            )
