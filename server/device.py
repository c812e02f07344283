"""The machine, as far as the result of a job depends on it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from typing import cast

from server.child import Limits, run_in_child
from server.endings import Done
from superopt.errors import MissingServiceError

_LIMITS = Limits(seconds=300.0, bytes=64 << 30, grace_seconds=0.0)
_asking = threading.Lock()


@dataclass(frozen=True, slots=True)
class Device:
    """``name`` says processor, cores, accelerator and runtime; ``targets`` what can be optimised for here,
    apart from recorded profiles.
    """

    name: tuple[str, ...]
    targets: tuple[str, ...]


def this_device() -> Device:
    """What is here; asked once, of a process that has the runtime loaded.

    Raises MissingServiceError when that process does not answer.
    """
    with _asking:
        return _asked()


@cache
def _asked() -> Device:
    ending = run_in_child("server.description:describe", {}, _LIMITS)
    if isinstance(ending, Done):
        name, targets = (tuple(cast("list[str]", ending.result[key])) for key in ("name", "targets"))
        return Device(name, targets)
    raise MissingServiceError(f"this machine cannot be described: {ending}")
