"""Resource usage of a command: wall and processor seconds, peak memory, including child processes."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

_UNIT = 1 if sys.platform == "darwin" else 1024
"""Unit of ``ru_maxrss`` in bytes."""


def _cpu_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


@dataclass(frozen=True)
class ResourceUsage:
    """Resource usage since creation. Peak memory is that of this process plus the largest ended child."""

    _started: float = field(default_factory=time.perf_counter)
    _spent: float = field(default_factory=_cpu_seconds)

    @property
    def seconds(self) -> float:
        """Wall time."""
        return time.perf_counter() - self._started

    @property
    def cpu_seconds(self) -> float:
        """Processor time, including ended children."""
        return _cpu_seconds() - self._spent

    def document(self) -> Mapping[str, object]:
        """The usage as members of a JSON document."""
        return {
            "seconds": round(self.seconds, 2),
            "cpu_seconds": round(self.cpu_seconds, 2),
            "peak_memory_bytes": _peak_bytes(),
        }

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s (processor {self.cpu_seconds:.1f} s), {_peak_bytes() / 1e6:.0f} MB"


def _peak_bytes() -> int:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_maxrss for each in used) * _UNIT


__all__ = ["ResourceUsage"]
