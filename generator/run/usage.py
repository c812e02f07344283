"""What a run costs: processor seconds and peak memory, of this process and of those that work for it."""

from __future__ import annotations

import resource
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from os import getpid
from pathlib import Path
from typing import Generic, TypeVar

Value = TypeVar("Value", covariant=True)

_STARTS: list[float] = []
_PEAK_AGAIN = "5"
"""Written to ``clear_refs``, it makes ``VmHWM`` count from now on (proc(5))."""


@dataclass(frozen=True, slots=True)
class Measured(Generic[Value]):
    """A value with what it took to compute: in which process, and the peak memory of that one meanwhile."""

    value: Value
    process: str
    cpu_seconds: float
    peak_memory_bytes: int


@dataclass
class Usage:
    """Sums over tasks. Peaks are of processes, which may all have been at theirs at once."""

    cpu_seconds: float = 0.0
    peaks: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, measured: Measured[object]) -> None:
        """Takes one task into account."""
        self.cpu_seconds += measured.cpu_seconds
        before = self.peaks.get(measured.process, 0)
        self.peaks[measured.process] = max(before, measured.peak_memory_bytes)

    @property
    def peak_memory_bytes(self) -> int:
        """The sum of the peaks of all processes: no run needs more at any moment."""
        return sum(self.peaks.values())


def measured(compute: Callable[[], Value]) -> Measured[Value]:
    """Computes in a process that does nothing else, and measures."""
    restart_peak()
    started = _STARTS.pop() if _STARTS else time.process_time()
    value = compute()
    return Measured(value, process_name(), time.process_time() - started, peak_memory_bytes())


def count_start() -> None:
    """The first task of this process will be said to have cost its start as well."""
    _STARTS.append(0.0)


def process_name() -> str:
    """Host and number of this process."""
    return f"{socket.gethostname()}:{getpid()}"


def restart_peak() -> None:
    """Makes the peak count from now on, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text(_PEAK_AGAIN, "ascii")


def peak_memory_bytes() -> int:
    """The most that this program had in memory; ``getrusage`` would count what started it as well."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text("ascii", "replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
