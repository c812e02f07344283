"""Recomputation under a limit: schedules that run operations again instead of keeping their results.

The search frees tensors that are alive where the limit is exceeded and not read there, one after another,
the one first that removes most of the excess (bytes times positions) per microsecond of recomputing it. An
operand of what is computed again is kept longer where there is room, and else computed again too. In the end,
what turned out not to be needed is left out.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from superopt.optimizer.memory.liveness import Instance, Liveness, Program, Schedule, liveness

MOST_DEPTH = 10
"""Longest chain of operations that are computed again for one (RAF, section 3.1.5)."""

_STEP = 0.02
"""Share of the tensors at the peak that one step of a descent aims to free."""

_LEAST_COST = 0.1
"""Microseconds assumed for an operation that costs nothing, so that freeing it still has a price."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A schedule with its peak and its cost in microseconds."""

    schedule: tuple[int, ...]
    peak: int
    cost: float

    @staticmethod
    def of(program: Program, schedule: Schedule) -> Fitted:
        """The schedule, evaluated."""
        return Fitted(tuple(schedule), liveness(program, schedule).peak, program.cost(schedule))


def recompute(program: Program, order: Schedule, limit: int, ends: float = math.inf) -> Fitted:
    """The schedule found for a limit: within it, or with the lowest peak that was found by ``ends``
    (monotonic clock)."""
    found = _Eviction(program, ends).down_to(tuple(order), limit)
    return without_needless(program, found, max(limit, found.peak), ends)


def descent(program: Program, order: Schedule, ends: float = math.inf) -> Iterator[Fitted]:
    """Schedules with lower and lower peaks, each made from the one before, until nothing lowers the peak any
    more or time is over; the order itself is the first."""
    eviction = _Eviction(program, ends)
    found = Fitted.of(program, order)
    yield found
    while time.monotonic() < ends:
        target = found.peak - max(1, int(_STEP * (found.peak - program.resident)))
        lower = eviction.down_to(found.schedule, target)
        if lower.peak >= found.peak:
            return
        found = lower
        yield found


@dataclass(frozen=True, slots=True)
class _Gap:
    """A tensor that is not touched between two positions while it is alive."""

    instance: Instance
    start: int
    stop: int


class _Eviction:
    """Frees tensors over gaps and computes them again. ``base`` is for each tensor the one whose memory it
    has, ``limit`` the present target."""

    def __init__(self, program: Program, ends: float) -> None:
        self.program = program
        self.base: Sequence[int] = bases(program)
        self.limit = 0
        self._ends = ends
        self._views = _views(program, self.base)

    def down_to(self, order: tuple[int, ...], limit: int) -> Fitted:
        """Evicts until the schedule is within the limit, nothing helps, or time is over; the schedule with
        the lowest peak."""
        self.limit = limit
        alive = liveness(self.program, order)
        best = (alive.peak, order)
        refused: set[tuple[int, int, int]] = set()
        while alive.peak > limit and time.monotonic() < self._ends:
            found = self._best_step(order, alive, refused)
            if found is None:
                break
            order, alive = found
            best = min(best, (alive.peak, order), key=lambda one: one[0])
        return Fitted(best[1], best[0], self.program.cost(best[1]))

    def _best_step(
        self, order: tuple[int, ...], alive: Liveness, refused: set[tuple[int, int, int]]
    ) -> tuple[tuple[int, ...], Liveness] | None:
        """The best eviction that lowers the excess; those that do not are not tried again."""
        state = _State(self, order, alive)
        excess = state.excess
        for _, gap, chain in sorted(state.candidates(), key=lambda one: -one[0]):
            key = (gap.instance.tensor, *_reader(order, gap))
            if key in refused:
                continue
            tried = (*order[: gap.stop], *chain, *order[gap.stop :])
            evaluated = liveness(self.program, tried)
            if _excess(evaluated.curve, self.limit) < excess:
                return tried, evaluated
            refused.add(key)
            if time.monotonic() >= self._ends:
                return None
        return None

    def views(self, tensor: int) -> Sequence[int]:
        """The operations that make views of a tensor, in order."""
        return self._views.get(tensor, ())


def _reader(order: Sequence[int], gap: _Gap) -> tuple[int, int]:
    """The operation that reads a tensor after a gap, and how often it ran before."""
    reader = order[gap.stop]
    return reader, order[: gap.stop].count(reader)


class _State:
    """A schedule whose evictions are rated."""

    def __init__(self, search: _Eviction, order: Sequence[int], alive: Liveness) -> None:
        self._search = search
        self._program = search.program
        self._order = order
        self._alive = alive
        self._curve = np.asarray(alive.curve, np.int64)
        over = np.maximum(self._curve - search.limit, 0)
        self.excess = int(over.sum())
        self._over = over
        self._first: dict[int, int] = {}
        for position, index in enumerate(order):
            self._first.setdefault(index, position)
        self._instances: dict[int, list[Instance]] = {}
        for instance in alive.instances:
            self._instances.setdefault(instance.tensor, []).append(instance)

    def candidates(self) -> Iterator[tuple[float, _Gap, list[int]]]:
        """Evictions across the peak: excess removed per microsecond, gap, operations to run again."""
        peak = self._alive.at
        for instance in self._alive.instances:
            if not instance.born < peak < instance.dies or not instance.size:
                continue
            place = bisect_left(instance.uses, peak)
            if place == len(instance.uses) or instance.uses[place] == peak:
                continue
            start = instance.uses[place - 1] if place else instance.born
            gap = _Gap(instance, start, instance.uses[place])
            chain: dict[int, None] = {}
            freed = self._over[gap.start + 1 : gap.stop]
            if instance.tensor in self._program.outputs or not self._make(instance, gap, chain, 0):
                continue
            gain = float(np.minimum(freed, instance.size).sum()) - self._kept_longer(chain, gap)
            if gain > 0:
                cost = sum(max(self._program.operations[index].cost, 0.0) for index in chain)
                yield gain / max(cost, _LEAST_COST), gap, list(chain)

    def _make(self, instance: Instance, gap: _Gap, chain: dict[int, None], depth: int) -> bool:
        """Adds the operations that compute a tensor again before the gap ends; False where one is too deep,
        or cannot be repeated."""
        maker = self._program.maker[instance.tensor]
        if depth >= MOST_DEPTH or not self._program.operations[maker].repeatable:
            return False
        for tensor in self._program.operations[maker].reads:
            if not self._supply(tensor, instance, gap, chain, depth):
                return False
        chain[maker] = None
        for view in self._search.views(instance.tensor):
            if self._ran_before(view, gap.stop):
                chain[view] = None
        return True

    def _supply(self, tensor: int, for_: Instance, gap: _Gap, chain: dict[int, None], depth: int) -> bool:
        """Adds what makes an operand available at the end of the gap."""
        base = self._search.base[tensor]
        made = [one for one in self._instances.get(base, ()) if one.born < gap.stop]
        if not made or self._program.maker.get(base) in chain:
            return self._add_views(tensor, base, chain)
        latest = made[-1]
        is_alive = latest.dies >= gap.stop and latest is not for_ and latest.tensor != gap.instance.tensor
        if is_alive or self._has_room(latest, gap):
            return self._add_views(tensor, base, chain)
        return self._make(latest, gap, chain, depth + 1) and self._add_views(tensor, base, chain)

    def _has_room(self, instance: Instance, gap: _Gap) -> bool:
        """Whether an operand that is freed earlier can be kept until the gap ends."""
        if instance.tensor == gap.instance.tensor or instance.dies >= gap.stop:
            return False
        room = self._curve[instance.dies + 1 : gap.stop].copy()
        inside = max(gap.start + 1 - instance.dies - 1, 0)
        room[inside:] -= gap.instance.size
        return bool((room + instance.size <= self._search.limit).all())

    def _add_views(self, tensor: int, base: int, chain: dict[int, None]) -> bool:
        """Adds the views between a computed tensor and the operand."""
        path: list[int] = []
        while tensor != base:
            maker = self._program.maker[tensor]
            path.append(maker)
            tensor = self._program.operations[maker].reads[0]
        chain.update(dict.fromkeys(reversed(path)))
        return True

    def _ran_before(self, view: int, position: int) -> bool:
        """Whether a view was made before, so that later readers expect it."""
        return self._first.get(view, position) < position

    def _kept_longer(self, chain: dict[int, None], gap: _Gap) -> float:
        """Excess that operands cause which are kept longer for the chain."""
        added = 0.0
        for index in chain:
            for tensor in self._program.operations[index].reads:
                base = self._search.base[tensor]
                if self._program.maker.get(base) in chain:
                    continue
                made = [one for one in self._instances.get(base, ()) if one.born < gap.stop]
                if made and made[-1].dies < gap.stop:
                    added += float((self._over[made[-1].dies + 1 : gap.stop] > 0).sum() * made[-1].size)
        return added


def _excess(curve: Sequence[int], limit: int) -> int:
    return sum(at - limit for at in curve if at > limit)


def bases(program: Program) -> list[int]:
    """For each tensor the one whose memory it has: itself, unless it is a view."""
    bases = list(range(len(program.sizes)))
    for operation in program.operations:
        if operation.is_view:
            bases[operation.writes[0]] = bases[operation.reads[0]]
    return bases


def _views(program: Program, bases: Sequence[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for index, operation in enumerate(program.operations):
        if operation.is_view:
            found.setdefault(bases[operation.writes[0]], []).append(index)
    return found


def without_needless(program: Program, found: Fitted, limit: int, ends: float = math.inf) -> Fitted:
    """Leaves out repetitions, the most expensive first, as long as the peak stays within the limit."""
    seen: set[int] = set()
    again: list[int] = []
    for position, index in enumerate(found.schedule):
        if index in seen:
            again.append(position)
        seen.add(index)
    dropped: set[int] = set()
    for position in sorted(again, key=lambda at: -program.operations[found.schedule[at]].cost):
        if time.monotonic() >= ends:
            break
        kept = [index for at, index in enumerate(found.schedule) if at not in dropped and at != position]
        if liveness(program, kept).peak <= limit:
            dropped.add(position)
    return Fitted.of(program, [index for at, index in enumerate(found.schedule) if at not in dropped])
