"""Timing of kernel runs: number of repeats, cache state, and the statistic that is used."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from superopt.optimizer.cost.kernel import Kernel
from superopt.optimizer.cost.machine import Residence, evicting_bytes
from superopt.optimizer.cost.runtime import Array, BoundRun

_LOOKS = 3
_MIN_RUNS = 3
_MOST_RUNS = {Residence.CORE: 60, Residence.SHARED: 10, Residence.MEMORY: 6}
_SLOW = 50_000.0
"""Microseconds of a run that is not repeated often."""

_RECENT = 512 * 2**10


@dataclass(frozen=True, slots=True)
class Timed:
    """A run: its microseconds, and the share of the wall time that they are."""

    microseconds: float
    share: float


class Caches:
    """Puts the caches into the state that a kernel finds in the middle of a model: what it computes with was
    just made, its weights were last read when the model last ran."""

    def __init__(self, kernel: Kernel, feeds: Mapping[str, Array]) -> None:
        size = evicting_bytes(kernel.residence)
        self._evicted = _scratch(size) if size else None
        self.most_runs = _MOST_RUNS[kernel.residence]
        arrays = {id(array): array for array in feeds.values()}
        self._recent = [array for array in arrays.values() if 0 < array.nbytes <= _RECENT]

    def prepare(self) -> None:
        """Evicts the weights of a kernel that has many: from the core's own cache, or from all of them."""
        if self._evicted is not None:
            self._evicted.max()
            for array in self._recent:
                array.max()


def look(run: BoundRun) -> list[Timed]:
    """A few runs, one of a slow model, which tell roughly how long one takes."""
    times = [Timed(*run.microseconds_and_share())]
    more = 0 if fastest(times) > _SLOW else _LOOKS - 1
    return times + [Timed(*run.microseconds_and_share()) for _ in range(more)]


def timed(run: BoundRun, caches: Caches, budget_microseconds: float) -> list[Timed]:
    """Many runs, fewer of a slow model."""
    times = [_once(run, caches)]
    if fastest(times) <= _SLOW:
        times.append(_once(run, caches))
    usual = max(fastest(times), 1.0)
    least = _MIN_RUNS if usual <= _SLOW else 1
    count = int(min(caches.most_runs, max(least, budget_microseconds / usual)))
    return times + [_once(run, caches) for _ in range(count)]


def _once(run: BoundRun, caches: Caches) -> Timed:
    caches.prepare()
    return Timed(*run.microseconds_and_share())


def fastest(times: Sequence[Timed]) -> float:
    """The time of a run that nothing disturbed: nearly the smallest, as a clock may once be wrong."""
    return sorted(run.microseconds for run in times)[len(times) // 16]


@cache
def _scratch(size: int) -> Array:
    """Memory in pages of the usual size, so that reading it evicts their addresses, too."""
    memory = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    scratch = np.frombuffer(memory, np.int64)
    scratch[:] = 1
    return scratch
