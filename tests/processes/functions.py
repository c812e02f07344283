"""What child processes do in these tests."""

# ruff: noqa: ARG001

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from superopt.errors import SuperoptError

Json = dict[str, object]
Progress = Callable[[Json], None]


def print_much(arguments: Json, progress: Progress) -> Json:
    """Prints to standard output, from Python and from native code."""
    sys.stdout.write("printed by Python\n")
    sys.stdout.flush()
    os.write(1, b"printed by native code\n")
    return {}


def return_an_object(arguments: Json, progress: Progress) -> Json:
    """Returns what JSON cannot express."""
    return {"object": object()}


def fill_the_disk(arguments: Json, progress: Progress) -> Json:
    """Finds the disk full."""
    raise OSError(errno.ENOSPC, "No space left on device")


def take_memory(arguments: Json, progress: Progress) -> Json:
    """Asks for more memory than it may have."""
    return {"length": len(bytearray(1 << 36))}


class LocalError(SuperoptError):
    """An error that the parent does not know."""


def raise_a_local_error(arguments: Json, progress: Progress) -> Json:
    """Raises an error of a class that only the child has."""
    kind = type("NeverSeenError", (LocalError,), {"__module__": "nowhere"})
    raise kind("said in the child")


def start_and_hang(arguments: Json, progress: Progress) -> Json:
    """Starts a process, then hangs in native code with the interpreter's lock."""
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    progress({"pids": [os.getpid(), started.pid]})
    ctypes.PyDLL(None).pause()
    return {}


def hang(arguments: Json, progress: Progress) -> Json:
    """Hangs in native code with the interpreter's lock."""
    progress({"pids": [os.getpid()]})
    ctypes.PyDLL(None).pause()
    return {}


def loop(arguments: Json, progress: Progress) -> Json:
    """Computes for ever."""
    progress({"pids": [os.getpid()]})
    while True:
        time.sleep(0.01)


class OddError(Exception):
    """An exception that cannot be read again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def judge(item: str) -> object:
    """What the item asks for."""
    match item:
        case "odd":
            raise OddError("not", "readable")
        case "raise":
            raise ZeroDivisionError("a bug")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "wait":
            time.sleep(1000)
        case "pid":
            return os.getpid()
        case _:
            pass
    return item.upper()
