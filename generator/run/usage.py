"""Resource usage of a run: processor seconds and peak memory of all its processes."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from os import getpid
from pathlib import Path
from typing import Generic, TypeVar

from superopt.processes.peak import peak_memory_bytes

Value = TypeVar("Value", covariant=True)

_STARTS: list[float] = []
_PEAK_AGAIN = "5"
"""Written to ``clear_refs``, it makes ``VmHWM`` count from now on (proc(5))."""


@dataclass(frozen=True, slots=True)
class Measured(Generic[Value]):
    """A value with its cost: process, processor seconds, peak memory of the process."""

    value: Value
    process: str
    cpu_seconds: float
    peak_memory_bytes: int


@dataclass
class Usage:
    """Sums over tasks; peaks are per process and may coincide."""

    cpu_seconds: float = 0.0
    peaks: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, measured: Measured[object]) -> None:
        """Adds one task."""
        self.cpu_seconds += measured.cpu_seconds
        before = self.peaks.get(measured.process, 0)
        self.peaks[measured.process] = max(before, measured.peak_memory_bytes)

    @property
    def peak_memory_bytes(self) -> int:
        """The sum of the peaks of all processes, an upper bound of the run's memory."""
        return sum(self.peaks.values())


def measured(compute: Callable[[], Value]) -> Measured[Value]:
    """Calls a function in a dedicated process and measures it."""
    restart_peak()
    started = _STARTS.pop() if _STARTS else time.process_time()
    value = compute()
    return Measured(value, process_name(), time.process_time() - started, peak_memory_bytes())


def count_start() -> None:
    """Charges the start of this process to its first task."""
    _STARTS.append(0.0)


def process_name() -> str:
    """Host and id of this process."""
    return f"{socket.gethostname()}:{getpid()}"


def restart_peak() -> None:
    """Resets the peak memory counter, if the system supports it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text(_PEAK_AGAIN, "ascii")
