"""Spilling of arrays to an unlinked temporary file, which vanishes with its process."""

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
    """Position, shape and dtype of an array in the file."""

    offset: int
    dtype: str
    shape: tuple[int, ...]


class Overflow:
    """A temporary file for all arrays, created on the first write."""

    def write(self, array: Array) -> Written:
        """Appends an array."""
        offset = self._file.seek(0, 2)
        self._file.write(np.ascontiguousarray(array).data)
        self._file.flush()
        return Written(offset, array.dtype.str, array.shape)

    def mapped(self, written: Written) -> Array:
        """The array, memory-mapped."""
        if 0 in written.shape:
            return np.empty(written.shape, written.dtype)
        return np.memmap(self._file, written.dtype, "r", written.offset, written.shape)

    @cached_property
    def _file(self) -> IO[bytes]:
        file = TemporaryFile()  # noqa: SIM115 - it is open as long as this object is there
        weakref.finalize(self, file.close)
        return file
