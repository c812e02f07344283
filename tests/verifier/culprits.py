"""Judgements that end badly, to be run in worker processes: each does for real what it is named after."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path


def crash() -> str:
    """Ends as a process does whose solver writes where it must not."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return "unreachable"


def leave() -> str:
    """Ends the process quietly."""
    sys.exit(3)


def be_killed() -> str:
    """Ends as a process does that the machine has no memory for."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "unreachable"


def hang() -> str:
    """Never answers."""
    while True:
        time.sleep(1)


def recurse() -> str:
    """Needs more stack than there is."""
    return recurse() + ""


def swallow() -> str:
    """Asks for more memory than a worker may have."""
    return "x" * (1 << 40)


def hoard() -> str:
    """Keeps 300 megabytes for ever, as caches do that nothing bounds."""
    HOARD.append(bytes(300 << 20))
    return "kept"


HOARD: list[bytes] = []


class Unpicklable:
    """An answer that cannot be sent."""

    def __reduce__(self) -> str:
        raise RecursionError("too deep to send")


CULPRITS: Mapping[str, Callable[[], object]] = {
    "crash": crash,
    "be killed": be_killed,
    "leave": leave,
    "hang": hang,
    "recurse": recurse,
    "swallow": swallow,
    "hoard": hoard,
    "unpicklable": Unpicklable,
}


def judge(item: str) -> object:
    """What the culprit of that name does; of ``once PATH`` and ``slow once PATH`` only the first time; else
    the item in capitals."""
    name, _, path = item.partition(" /")
    if path and not Path(f"/{path}").exists():
        Path(f"/{path}").touch()
        return hang() if name == "slow once" else crash()
    return CULPRITS[name]() if name in CULPRITS else name.upper()
