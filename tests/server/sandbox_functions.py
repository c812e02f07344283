"""What a model could make its reader do."""

# ruff: noqa: ARG001

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from superopt.errors import InvalidModelError

Json = dict[str, object]
Progress = Callable[[Json], None]


def answer(arguments: Json, progress: Progress) -> Json:
    """Does what is asked."""
    return {"given": arguments}


def niceness(arguments: Json, progress: Progress) -> Json:
    """How nice the fork is."""
    return {"niceness": os.nice(0)}


def refuse(arguments: Json, progress: Progress) -> Json:
    """Says what is wrong."""
    raise InvalidModelError(f"{arguments['name']} is no model")


def loop(arguments: Json, progress: Progress) -> Json:
    """Never ends."""
    while True:
        arguments = dict(arguments)


def sleep(arguments: Json, progress: Progress) -> Json:
    """Waits without using the processor."""
    time.sleep(1000)
    return arguments


def take_memory(arguments: Json, progress: Progress) -> Json:
    """Takes what there is, outside of Python's own control."""
    return {"length": len(bytearray(1 << 36))}


def crash(arguments: Json, progress: Progress) -> Json:
    """Dies as a native library does."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return arguments


def recurse(arguments: Json, progress: Progress) -> Json:
    """Goes too deep."""
    return recurse(arguments, progress)


def write(arguments: Json, progress: Progress) -> Json:
    """Writes a file."""
    Path(str(arguments["path"])).write_text("x" * 1000)
    return arguments


def open_many(arguments: Json, progress: Progress) -> Json:
    """Opens files without end."""
    return {"files": len([os.open("/dev/null", os.O_RDONLY) for _ in range(10_000)])}


def have_a_bug(arguments: Json, progress: Progress) -> Json:
    """Fails as no code should."""
    return {"x": arguments["nothing"]}
