"""Order of operations with a low peak of memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from superopt.optimizer.memory.liveness import Liveness, Program, Schedule, liveness
from superopt.traversal import postorder

MOVED_FROM = 1 << 20
"""Bytes by which an operation must change the memory in use for RAF to move it."""

_NOTABLE = 0.01
"""Share of the peak from which a tensor is worth moving an operation for."""


def raf_order(program: Program, least: int = MOVED_FROM) -> Schedule:
    """RAF's scheduling rule (section 3.1.4): an operation that makes more bytes than it frees moves back, to
    just before its first reader; one that frees more than it makes moves forward, to just after its last
    source. Changes below ``least`` bytes move nothing."""
    order = list(program.order)
    for move, sign in ((_latest, 1), (_earliest, -1)):
        change = _changes(program, order)
        for operation in list(reversed(order)) if sign > 0 else list(order):
            if sign * change[operation] >= least:
                move(program, order, operation)
    return tuple(order)


def search_order(program: Program, seconds: float = 10.0) -> Schedule:
    """An order with a low peak: the best of the listed one, RAF's and several depth-first orders, improved by
    moving single operations at the peak as long as that lowers it, for up to some seconds."""
    ends = time.monotonic() + seconds
    found = min((_Ranked.of(program, order) for order in _orders(program)), key=lambda one: one.key)
    return _improved(program, found, ends).order


@dataclass(frozen=True)
class _Ranked:
    """An order with its liveness; compared by peak, then by how long memory is close to it."""

    order: tuple[int, ...]
    alive: Liveness
    key: tuple[int, int]

    @staticmethod
    def of(program: Program, order: Schedule) -> _Ranked:
        alive = liveness(program, order)
        near = math.floor(0.95 * (alive.peak - alive.resident)) + alive.resident
        return _Ranked(tuple(order), alive, (alive.peak, sum(max(0, at - near) for at in alive.curve)))


def _orders(program: Program) -> Iterator[Schedule]:
    yield program.order
    yield raf_order(program)
    yield raf_order(program, 1)
    sizes = _result_bytes(program)
    ranks: tuple[Callable[[int], float], ...] = (
        lambda operation: operation,
        lambda operation: -operation,
        lambda operation: -sizes[operation],
    )
    read = {source for sources in program.sources for source in sources}
    depth = _depths(program)
    sinks = [index for index in program.order if index not in read]
    for goals in (sinks, sorted(sinks, key=lambda index: (depth[index], index))):
        for rank in ranks:
            yield tuple(postorder(goals, lambda index, rank=rank: sorted(program.sources[index], key=rank)))


def _depths(program: Program) -> list[int]:
    """The number of operations on the longest chain before each one."""
    depths = [0] * len(program.operations)
    for index in program.order:
        depths[index] = 1 + max((depths[source] for source in program.sources[index]), default=-1)
    return depths


def _result_bytes(program: Program) -> list[int]:
    return [
        0 if one.is_view else sum(program.sizes[tensor] for tensor in one.writes)
        for one in program.operations
    ]


def _improved(program: Program, start: _Ranked, ends: float) -> _Ranked:
    """Moves operations around the peak until no single move lowers it."""
    best = start
    while time.monotonic() < ends:
        for order in _moves(program, best):
            found = _Ranked.of(program, order)
            if found.key < best.key:
                best = found
                break
            if time.monotonic() >= ends:
                return best
        else:
            return best
    return best


def _moves(program: Program, best: _Ranked) -> Iterator[list[int]]:
    """Orders in which an operation runs on the other side of the peak: what makes a tensor that is alive
    there runs as late as possible, what reads it last as early as possible."""
    peak = best.alive.at
    notable = _NOTABLE * (best.alive.peak - best.alive.resident)
    across = [one for one in best.alive.instances if one.born < peak <= one.dies and one.size >= notable]
    for one in sorted(across, key=lambda one: -one.size):
        if one.uses and one.uses[0] > peak:
            order = list(best.order)
            _latest(program, order, best.order[one.born])
            yield order
        if peak < one.dies < len(best.order):
            order = list(best.order)
            _earliest(program, order, best.order[one.dies])
            yield order


def _changes(program: Program, order: Sequence[int]) -> list[int]:
    """Bytes that each operation makes minus bytes that are freed after it."""
    change = [0] * len(order)
    for one in liveness(program, order).instances:
        change[order[one.born]] += one.size
        if one.dies < len(order):
            change[order[one.dies]] -= one.size
    return change


def _latest(program: Program, order: list[int], operation: int) -> None:
    """Moves an operation to just before the first one that needs it."""
    place = order.index(operation)
    for later in range(place + 1, len(order)):
        if operation in program.sources[order[later]]:
            order.insert(later - 1, order.pop(place))
            return


def _earliest(program: Program, order: list[int], operation: int) -> None:
    """Moves an operation to just after the last one that it needs."""
    place = order.index(operation)
    sources = program.sources[operation]
    earlier = next((at for at in range(place - 1, -1, -1) if order[at] in sources), -1)
    order.insert(earlier + 1, order.pop(place))
