"""Arrays that memory has no room for, in a file without a name: nothing of it outlives its process."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cached_property
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from superopt.domains import Array


@dataclass(frozen=True, slots=True)
class Written:
    """Where an array is in the file."""

    offset: int
    dtype: str
    shape: tuple[int, ...]


class Overflow:
    """One file for all, made when the first array is written, in the directory for temporary files."""

    def write(self, array: Array) -> Written:
        """Adds an array at the end."""
        offset = self._file.seek(0, 2)
        self._file.write(np.ascontiguousarray(array).data)
        self._file.flush()
        return Written(offset, array.dtype.str, array.shape)

    def mapped(self, written: Written) -> Array:
        """The array, of which only what is looked at is read."""
        if 0 in written.shape:
            return np.empty(written.shape, written.dtype)
        return np.memmap(self._file, written.dtype, "r", written.offset, written.shape)

    @cached_property
    def _file(self) -> IO[bytes]:
        file = TemporaryFile()  # noqa: SIM115 - it is open as long as this object is there
        weakref.finalize(self, file.close)
        return file
