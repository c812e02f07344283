"""Description of this machine, as far as job results depend on it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import cast

from superopt.errors import MissingServiceError
from superopt.processes.child import ResourceLimits, Returned, Stopped
from superopt.server.process.child import run_in_child

_LIMITS = ResourceLimits(seconds=60.0, bytes=64 << 30, grace_seconds=0.0)
_FAILURE_SECONDS = 60.0
"""How long a failure is cached."""

_asking = threading.Lock()


@dataclass(frozen=True, slots=True)
class Device:
    """``name`` names processor, cores, accelerator and runtime; ``targets`` are the devices to optimise for
    here, apart from recorded profiles.
    """

    name: tuple[str, ...]
    targets: tuple[str, ...]


class UnknownDeviceError(MissingServiceError):
    """The device could not be determined."""


class Description:
    """The cached device of this machine, or the reason why it is unknown."""

    def __init__(self) -> None:
        self._known: Device | str = ""
        self._failed = float("-inf")

    def device(self) -> Device:
        """The device; retried once a cached failure has expired. Raises UnknownDeviceError."""
        if isinstance(self._known, str) and time.monotonic() - self._failed > _FAILURE_SECONDS:
            self._known = _asked()
            self._failed = time.monotonic()
        if isinstance(self._known, str):
            raise UnknownDeviceError(f"this machine cannot be described: {self._known}")
        return self._known


_description = Description()


def this_device() -> Device:
    """The device of this machine, determined once in a child process that loads the runtime.

    Raises UnknownDeviceError if that process fails or has failed recently.
    """
    with _asking:
        return _description.device()


def _asked() -> Device | str:
    """The device, or the reason of the failure."""
    ending = run_in_child("superopt.server.worker.device_probe:describe", {}, _LIMITS)
    if isinstance(ending, Returned):
        name, targets = (tuple(cast("list[str]", ending.result[key])) for key in ("name", "targets"))
        return Device(name, targets)
    return "it was stopped" if isinstance(ending, Stopped) else str(ending.problem["detail"])
