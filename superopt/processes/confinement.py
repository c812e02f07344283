"""System limits that a process sets for itself; they hold even if the process that started it is stuck."""

from __future__ import annotations

import ctypes
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from superopt.processes.priority import lower_priority

_FIRST_TO_GO = "900"
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Confinement:
    """Wall and processor seconds, after which the process is killed; bytes of private memory, without mapped
    files (``RLIMIT_DATA``), and of each written file; number of open files; niceness added. None: unlimited.
    """

    seconds: float | None = None
    cpu_seconds: float | None = None
    bytes: int | None = None
    file_bytes: int | None = None
    open_files: int | None = None
    niceness: int = 0

    def enter(self) -> None:
        """Sets the limits of this process, a session leader. It writes no core file either."""
        lower_priority(self.niceness)
        if self.seconds is not None:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, self.seconds)
        cpu_seconds = None if self.cpu_seconds is None else max(1, round(self.cpu_seconds))
        for kind, limit in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_CPU, cpu_seconds),
            (resource.RLIMIT_DATA, self.bytes),
            (resource.RLIMIT_FSIZE, self.file_bytes),
            (resource.RLIMIT_NOFILE, self.open_files),
        ):
            hard = resource.getrlimit(kind)[1]
            if limit is not None:
                allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
                resource.setrlimit(kind, (allowed, allowed))


def depend_on_parent() -> None:
    """Makes Linux kill this process when the thread that started it ends, and first of all processes when
    memory runs out. The parent handles interrupts.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, "ascii")


def private_bytes() -> int:
    """Bytes of private memory of this process, as its limit counts them."""
    import psutil  # not needed by most processes

    memory = psutil.Process().memory_info()
    return int(getattr(memory, "data", memory.vms))
