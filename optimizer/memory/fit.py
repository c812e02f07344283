"""Order and recomputation that keep a program within a limit, at the least cost that was found.

A smaller limit never gives a higher peak. The descent of the best order fixes a falling sequence of peaks
that does not depend on the limit. The first of them within the limit is the target: what the direct search
finds for it is used where it is cheaper and its peak is between the target and the next one of the sequence.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

from superopt.optimizer.memory.liveness import Program, Schedule
from superopt.optimizer.memory.order import search_order
from superopt.optimizer.memory.recompute import Fitted, descent, recompute, without_needless

_ORDER_SHARE = 0.3
"""Share of the time for finding an order."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A schedule for a limit. Where it ``fits``, its peak is within the limit; else it has the lowest peak
    that was found."""

    found: Fitted
    fits: bool

    @property
    def recomputed(self) -> tuple[int, ...]:
        """The operations that run again, in the order in which they do."""
        seen: set[int] = set()
        again: dict[int, None] = {}
        for index in self.found.schedule:
            if index in seen:
                again[index] = None
            seen.add(index)
        return tuple(again)

    @property
    def is_listed(self) -> bool:
        """Whether operations run as listed, each once."""
        return self.found.schedule == tuple(range(len(self.found.schedule)))


def fit(program: Program, limit: int, seconds: float = math.inf) -> Fit:
    """A schedule within the limit: the listed order, else another order, else one with recomputation."""
    ends = time.monotonic() + seconds
    listed = Fitted.of(program, program.order)
    if listed.peak <= limit:
        return Fit(listed, fits=True)
    order = search_order(program, min(_ORDER_SHARE * seconds, 30.0))
    return fit_order(program, order, limit, ends)


def fit_order(program: Program, order: Schedule, limit: int, ends: float = math.inf) -> Fit:
    """A schedule within the limit that recomputes operations of an order."""
    target: Fitted | None = None
    lowest = Fitted.of(program, order)
    for lowest in _ladder(program, order, ends):
        if target is not None:
            return Fit(_cheapest(program, order, target, lowest.peak, ends), fits=True)
        if lowest.peak <= limit:
            target = lowest
            if target.schedule == tuple(order):
                return Fit(target, fits=True)
    if target is None:
        return Fit(lowest, fits=False)
    return Fit(_cheapest(program, order, target, target.peak, ends), fits=True)


def _ladder(program: Program, order: Schedule, ends: float) -> Iterator[Fitted]:
    """Schedules with lower and lower peaks, whatever the limit: those of the descent, then what the direct
    search finds beyond them."""
    lowest = Fitted.of(program, order)
    for lowest in descent(program, order, ends):
        yield lowest
    if time.monotonic() < ends:
        direct = recompute(program, order, 0, ends)
        if direct.peak < lowest.peak:
            yield direct


def _cheapest(program: Program, order: Schedule, target: Fitted, next_peak: int, ends: float) -> Fitted:
    """The cheapest of what the descent found, that without needless repetitions, and a direct search."""
    candidates = [target, without_needless(program, target, target.peak, ends)]
    if time.monotonic() < ends:
        candidates.append(recompute(program, order, target.peak, ends))
    allowed = [one for one in candidates if next_peak <= one.peak <= target.peak]
    return min(allowed, key=lambda one: one.cost)
