"""The machine, as far as the result of a job depends on it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import cast

from superopt.errors import MissingServiceError
from superopt.server.process.child import ResourceLimits, run_in_child
from superopt.server.process.endings import Done, Stopped

_LIMITS = ResourceLimits(seconds=60.0, bytes=64 << 30, grace_seconds=0.0)
_FAILURE_SECONDS = 60.0
"""For how long a failure is the answer to all who ask."""

_asking = threading.Lock()


@dataclass(frozen=True, slots=True)
class Device:
    """``name`` says processor, cores, accelerator and runtime; ``targets`` what can be optimised for here,
    apart from recorded profiles.
    """

    name: tuple[str, ...]
    targets: tuple[str, ...]


class UnknownDeviceError(MissingServiceError):
    """What is here could not be found out."""


class Description:
    """What is here, or why that is not known."""

    def __init__(self) -> None:
        self._known: Device | str = ""
        self._failed = float("-inf")

    def device(self) -> Device:
        """Raises UnknownDeviceError; asks again when the last failure is old."""
        if isinstance(self._known, str) and time.monotonic() - self._failed > _FAILURE_SECONDS:
            self._known = _asked()
            self._failed = time.monotonic()
        if isinstance(self._known, str):
            raise UnknownDeviceError(f"this machine cannot be described: {self._known}")
        return self._known


_description = Description()


def this_device() -> Device:
    """What is here; asked once, of a process that has the runtime loaded.

    Raises UnknownDeviceError when that process does not answer, or did not a short while ago.
    """
    with _asking:
        return _description.device()


def _asked() -> Device | str:
    """The device, or why there was no answer."""
    ending = run_in_child("superopt.server.worker.device_probe:describe", {}, _LIMITS)
    if isinstance(ending, Done):
        name, targets = (tuple(cast("list[str]", ending.result[key])) for key in ("name", "targets"))
        return Device(name, targets)
    return "it was stopped" if isinstance(ending, Stopped) else str(ending.problem["detail"])
