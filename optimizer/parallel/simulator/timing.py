"""Timing a schedule: every device and every channel serves what was issued first.

Devices run kernels as streams do, in the order of issue; a pass starts when its device has finished what was
issued before and everything that it reads has arrived. Times are by device, in microseconds. Where a device
has no part in something its time there means nothing and is never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.parallel.simulator.exchange import Times
from optimizer.parallel.simulator.schedule import BACKWARD, FORWARD, Schedule
from optimizer.parallel.simulator.units import Division, Key, Unit


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """A pass as it was timed: its end, when what it sends arrives where it is needed, and when devices and
    channels are free afterwards. None of the arrays is changed any more."""

    end: Times
    arrivals: dict[Key, Times]
    free: Times
    channels: Times


def timed(
    units: Sequence[Unit], schedule: Schedule, passes: list[Pass], devices: int, channels: int
) -> list[Pass]:
    """All passes of the schedule, the first of which are given."""
    if not passes and schedule.items:
        passes.append(_forward(units, schedule, passes, 0, np.zeros(devices), np.zeros(channels)))
    for place in range(len(passes), len(schedule.items)):
        before = passes[-1]
        run = _forward if schedule.items[place][0] == FORWARD else _backward
        passes.append(run(units, schedule, passes, place, before.free, before.channels))
    return passes


def _forward(
    units: Sequence[Unit],
    schedule: Schedule,
    passes: Sequence[Pass],
    place: int,
    free: Times,
    channels: Times,
) -> Pass:
    _, number, microbatch = schedule.items[place]
    unit = units[number]
    row = schedule.positions[FORWARD][microbatch]
    arrived = [passes[row[source]].arrivals[key] for source, key in unit.arrivals]
    end, free = _run(unit.division, unit.division.forward, arrived, free)
    arrivals: dict[Key, Times] = {}
    for key, exchange in unit.sends:
        if exchange is None:
            arrivals[key] = end
        else:
            arrivals[key], channels = exchange.run(end, channels)
    return Pass(end, arrivals, free, channels)


def _backward(
    units: Sequence[Unit],
    schedule: Schedule,
    passes: Sequence[Pass],
    place: int,
    free: Times,
    channels: Times,
) -> Pass:
    _, number, microbatch = schedule.items[place]
    unit = units[number]
    forwards = passes[schedule.positions[FORWARD][microbatch][number]]
    arrived = [forwards.arrivals[key] for key in unit.settled]
    for exchange, readers in unit.returns:
        ready = gradients_ready(passes, schedule, microbatch, readers)
        if exchange is not None:
            ready, channels = exchange.run(ready, channels)
        arrived.append(ready)
    end, free = _run(unit.division, unit.division.backward, arrived, free)
    if microbatch == schedule.microbatches - 1:
        for exchange, is_only in unit.synchronised:
            _, channels = exchange.run(end if is_only else free, channels)
    return Pass(end, {}, free, channels)


def _run(division: Division, durations: Times, arrived: Sequence[Times], free: Times) -> tuple[Times, Times]:
    """When a pass ends, and when devices are free then; one that takes no time waits for no device."""
    if not division.takes_time:
        if not arrived:
            return np.zeros_like(free), free
        end = arrived[0]
        for times in arrived[1:]:
            end = np.maximum(end, times)
        return end, free
    end = free
    for times in arrived:
        end = np.maximum(end, times)
    end = end + durations
    return end, end if division.everywhere else np.where(division.works, end, free)


def gradients_ready(
    passes: Sequence[Pass], schedule: Schedule, microbatch: int, readers: Sequence[int]
) -> Times:
    """When the backward passes of all readers of a tensor are done."""
    row = schedule.positions[BACKWARD][microbatch]
    ready = passes[row[readers[0]]].end
    for reader in readers[1:]:
        ready = np.maximum(ready, passes[row[reader]].end)
    return ready
