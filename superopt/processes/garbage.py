"""How often Python looks for cyclic garbage, of which there is little here."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_OBJECTS = 20_000
"""New objects after which garbage is looked for."""


@contextmanager
def not_collecting() -> Generator[None]:
    """While modules are loaded, of which nothing is garbage: looking for it takes a sixth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def seldom_collecting() -> Generator[None]:
    """While graphs are searched: they hold no cycles, and looking took a tenth of all time."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
