"""Timing of kernel runs: number of repeats, cache state, and the statistic that is used."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from superopt.optimizer.cost.kernels.kernel import Kernel
from superopt.optimizer.cost.machine import Residence, evicting_bytes
from superopt.optimizer.cost.runtime.session import Array, BoundRun

_LOOKS = 3
_MIN_RUNS, _MIN_RUNS_IF_SLOW = 3, 2
_MOST_RUNS = {Residence.CORE: 60, Residence.SHARED: 10, Residence.MEMORY: 6}
_SLOW = 10_000.0
"""Microseconds above which a run is repeated only a few times."""

_RECENT = 512 * 2**10


@dataclass(frozen=True, slots=True)
class Timed:
    """One run: its microseconds, and their share of the wall time."""

    microseconds: float
    share: float


class Caches:
    """Prepares the caches as in the middle of a model: a kernel's inputs were just computed, its weights were
    last read in the previous run."""

    def __init__(self, kernel: Kernel, feeds: Mapping[str, Array]) -> None:
        size = evicting_bytes(kernel.residence)
        self._evicted = _scratch(size) if size else None
        self.most_runs = _MOST_RUNS[kernel.residence]
        arrays = {id(array): array for array in feeds.values()}
        self._recent = [array for array in arrays.values() if 0 < array.nbytes <= _RECENT]

    @property
    def are_evicted(self) -> bool:
        """Whether a kernel's weights are evicted before each run."""
        return self._evicted is not None

    def prepare(self) -> None:
        """Evicts a kernel's weights from the core's own cache or from all caches, if there are many."""
        if self._evicted is not None:
            self._evicted.max()
            for array in self._recent:
                array.max()


def look(run: BoundRun) -> list[Timed]:
    """Run a few times, or once for a slow model, for a rough estimate."""
    times = [Timed(*run.microseconds_and_share())]
    more = 0 if fastest(times) > _SLOW else _LOOKS - 1
    return times + [Timed(*run.microseconds_and_share()) for _ in range(more)]


def timed(run: BoundRun, caches: Caches, budget_microseconds: float) -> list[Timed]:
    """Run many times, fewer for a slow model."""
    times = [_once(run, caches)]
    if fastest(times) <= _SLOW:
        times.append(_once(run, caches))
    usual = max(fastest(times), 1.0)
    least = _MIN_RUNS if usual <= _SLOW else _MIN_RUNS_IF_SLOW
    count = int(min(caches.most_runs, max(least, budget_microseconds / usual)))
    return times + [_once(run, caches) for _ in range(count)]


def timed_if_long(run: BoundRun, caches: Caches, long: float, budget_microseconds: float) -> list[Timed]:
    """A few runs of a kernel whose weights may still be cached, if they take less than ``long`` microseconds;
    else many runs, each from the state of the caches that it finds in a model."""
    first = look(run)
    if fastest(first) < long:
        return first
    prepared = timed(run, caches, budget_microseconds)
    return prepared if caches.are_evicted else first + prepared


def _once(run: BoundRun, caches: Caches) -> Timed:
    caches.prepare()
    return Timed(*run.microseconds_and_share())


def fastest(times: Sequence[Timed]) -> float:
    """Return the time of an undisturbed run: nearly the smallest, since a clock may be wrong once."""
    return sorted(run.microseconds for run in times)[len(times) // 16]


def release_caches() -> None:
    """Frees the memory that was used to evict caches; it is allocated again when it is needed."""
    _scratch.cache_clear()


@cache
def _scratch(size: int) -> Array:
    """Return a buffer in standard pages; reading it also evicts TLB entries."""
    memory = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    scratch = np.frombuffer(memory, np.int64)
    scratch[:] = 1
    return scratch
