"""Timing a schedule: every device and every channel serves what was issued first.

Devices run kernels as streams do, in the order of issue; a pass starts when its device has finished what was
issued before and everything that it reads has arrived. Times are by device, in microseconds, and multiples of
1/1024, so that sums do not depend on their order. Where a device has no part in something its time there
means nothing and is never read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from optimizer.parallel.simulator.exchange import Times
from optimizer.parallel.simulator.schedule import BACKWARD, FORWARD, Schedule
from optimizer.parallel.simulator.units import Key, Unit


class Pass(NamedTuple):
    """A pass as it was timed. It ends at ``base + offset``; ``arrivals`` are when tensors that it sends are
    where they are needed. Afterwards devices are free at ``free + free_offset``, channels at ``channels``.
    None of the arrays is ever changed.
    """

    base: Times
    offset: float
    arrivals: Mapping[Key, Times]
    free: Times
    free_offset: float
    channels: Times

    @property
    def end(self) -> Times:
        """When it ends."""
        return self.base + self.offset

    @property
    def free_at(self) -> Times:
        """When devices are free afterwards."""
        return self.free + self.free_offset


_NOTHING: Mapping[Key, Times] = MappingProxyType({})


def timed(
    units: Sequence[Unit], schedule: Schedule, passes: list[Pass], devices: int, channels: int
) -> list[Pass]:
    """All passes of the schedule, the first of which are given."""
    free, free_offset, busy = np.zeros(devices), 0.0, np.zeros(channels)
    if passes:
        free, free_offset, busy = passes[-1].free, passes[-1].free_offset, passes[-1].channels
    last = schedule.microbatches - 1
    for direction, number, microbatch in schedule.items[len(passes) :]:
        unit = units[number]
        division = unit.division
        arrived: list[Times] = []
        if direction == FORWARD:
            duration = division.forward
            if unit.arrivals:
                row = schedule.positions[FORWARD][microbatch]
                arrived = [passes[row[source]].arrivals[key] for source, key in unit.arrivals]
        else:
            duration = division.backward
            if unit.settled:
                forwards = passes[schedule.positions[FORWARD][microbatch][number]]
                arrived = [forwards.arrivals[key] for key in unit.settled]
            for exchange, readers in unit.returns:
                ready = gradients_ready(passes, schedule, microbatch, readers)
                if exchange is not None:
                    ready, busy = exchange.run(ready, busy)
                arrived.append(ready)
        if not division.takes_time:
            base, offset = latest(arrived, free), 0.0
        else:
            base, offset = free, free_offset
            if arrived:
                base, offset = np.maximum(base + offset, latest(arrived, free)), 0.0
            if duration.common is not None:
                offset += duration.common
                free, free_offset = base, offset
            else:
                base, offset = base + offset + duration.each, 0.0
                free, free_offset = np.where(division.works, base, free + free_offset), 0.0
        arrivals = _NOTHING
        if direction == FORWARD:
            if unit.sends:
                end = base + offset
                found: dict[Key, Times] = {}
                for key, exchange in unit.sends:
                    if exchange is None:
                        found[key] = end
                    else:
                        found[key], busy = exchange.run(end, busy)
                arrivals = found
        elif microbatch == last:
            for exchange, is_only in unit.synchronised:
                ready = base + offset if is_only else free + free_offset
                _, busy = exchange.run(ready, busy)
        passes.append(Pass(base, offset, arrivals, free, free_offset, busy))
    return passes


def gradients_ready(
    passes: Sequence[Pass], schedule: Schedule, microbatch: int, readers: Sequence[int]
) -> Times:
    """When the backward passes of all readers of a tensor are done."""
    row = schedule.positions[BACKWARD][microbatch]
    return latest([passes[row[reader]].end for reader in readers], None)


def latest(times: Sequence[Times], like: Times | None) -> Times:
    """The latest of some times, device by device; 0 where there are none, for as many devices as ``like``."""
    if not times:
        assert like is not None
        return np.zeros_like(like)
    found = times[0]
    for other in times[1:]:
        found = np.maximum(found, other)
    return found
