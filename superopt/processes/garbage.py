"""Tuning of Python's cyclic garbage collector, and of what the C library keeps of freed memory."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Generator
from contextlib import contextmanager, suppress

_OBJECTS = 20_000
"""Allocations between collections."""


def collect_and_trim() -> None:
    """Returns to the system what unreachable objects occupied, where the C library can do that."""
    gc.collect()
    trim()


def trim() -> None:
    """Returns freed memory to the system, where the C library can do that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def not_collecting() -> Generator[None]:
    """Disables garbage collection during imports, where it takes a sixth of the time and finds nothing."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def seldom_collecting() -> Generator[None]:
    """Reduces garbage collection during searches and replays of proofs: graphs and terms have no cycles, and
    collections took a tenth of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
