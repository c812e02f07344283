"""Time a schedule: devices serve passes in issue order, channels serve exchanges in order of readiness.

Devices run kernels as streams do, in issue order: a pass starts when its device has finished what was issued
before and all its inputs have arrived. An exchange starts only when its result is needed, so that exchanges
issued later but ready earlier take their channels first. Times are per device, in microseconds, rounded to
multiples of 1/1024 so that sums do not depend on their order. Where a device takes no part, its entry is
undefined and never read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from superopt.optimizer.parallel.fetches import START
from superopt.optimizer.parallel.simulator.exchange import Exchange, Times
from superopt.optimizer.parallel.simulator.schedule import Schedule
from superopt.optimizer.parallel.simulator.units import Key, Unit

Wanted = tuple[int, Key]
"""Result of an exchange: the position of the producing pass in the schedule, and the key there."""


class Waiting(NamedTuple):
    """An issued exchange: when all its inputs are ready, its number in issue order, when it is ready by
    device, its result; ``is_last``: no pass will wait for it."""

    ready_at: float
    issued: int
    exchange: Exchange
    ready: Times
    brings: Wanted
    is_last: bool


class Done(NamedTuple):
    """A timed exchange: when channels were free before it, and when devices had what they need."""

    waiting: Waiting
    channels: Times
    arrived: Times


class Pass(NamedTuple):
    """A timed pass. It ends at ``base + offset``; afterwards devices are free at ``free + free_offset`` and
    channels at ``channels``. Exchanges in ``done`` are timed by then, those in ``waiting`` are not; ``sent``
    is the arrival time of those that no pass waits for. All arrays are immutable."""

    base: Times
    offset: float
    free: Times
    free_offset: float
    channels: Times
    waiting: tuple[Waiting, ...]
    issued: int
    done: int
    sent: float

    @property
    def end(self) -> Times:
        """End time."""
        return self.base + self.offset


@dataclass(frozen=True, eq=False)
class Timing:
    """All passes of a schedule, by position, and all exchanges in execution order."""

    passes: list[Pass]
    exchanges: list[Done]
    microseconds: float


def timed(
    units: Sequence[Unit] | Mapping[int, Unit],
    schedule: Schedule,
    devices: int,
    channels: int,
    opening: Sequence[tuple[Key, Exchange]] = (),
    base: Timing | None = None,
    first: int = 0,
) -> Timing:
    """The timing of a schedule; the passes before ``first`` are copied from the ``base``. ``opening`` are the
    exchanges that are issued at the start."""
    clock = _Clock(units, schedule, devices, channels)
    if base is not None and first:
        clock.restart(base, first)
    else:
        clock.open(opening)
    clock.run()
    return Timing(clock.passes, clock.exchanges, clock.finish())


class _Clock:
    def __init__(
        self, units: Sequence[Unit] | Mapping[int, Unit], schedule: Schedule, devices: int, channels: int
    ) -> None:
        self._units = units
        self._schedule = schedule
        self.passes: list[Pass] = []
        self.exchanges: list[Done] = []
        self._arrived: dict[Wanted, Times] = {}
        self._free = np.zeros(devices)
        self._free_offset = 0.0
        self._channels = np.zeros(channels)
        self._waiting: tuple[Waiting, ...] = ()
        self._by_key: dict[Wanted, Waiting] = {}
        self._issued = 0
        self._sent = 0.0

    def open(self, exchanges: Sequence[tuple[Key, Exchange]]) -> None:
        """Issues exchanges before the first pass."""
        for key, exchange in exchanges:
            self._issue(exchange, np.zeros_like(self._free), (START, key), is_last=False)

    def restart(self, base: Timing, first: int) -> None:
        """Copies the first passes of another timing."""
        self.passes = base.passes[:first]
        last = self.passes[-1]
        self.exchanges = base.exchanges[: last.done]
        self._arrived = {done.waiting.brings: done.arrived for done in self.exchanges}
        self._free, self._free_offset, self._channels = last.free, last.free_offset, last.channels
        self._waiting, self._issued, self._sent = last.waiting, last.issued, last.sent
        self._by_key = {waiting.brings: waiting for waiting in self._waiting}

    def run(self) -> None:
        """Times the remaining passes."""
        passes, units = self.passes, self._units
        free, free_offset = self._free, self._free_offset
        for place, (number, microbatch) in enumerate(self._schedule.items[len(passes) :], len(passes)):
            unit = units[number]
            division, duration = unit.division, unit.division.duration
            arrived = self._arrivals(unit, microbatch) if unit.arrivals or unit.awaits else []
            if not division.takes_time:
                base, offset = latest(arrived, free), 0.0
            else:
                base, offset = free, free_offset
                if arrived:
                    base, offset = np.maximum(base + offset, latest(arrived, base)), 0.0
                if duration.common is not None:
                    offset += duration.common
                    free, free_offset = base, offset
                else:
                    base, offset = base + offset + duration.each, 0.0
                    free, free_offset = np.where(division.works, base, free + free_offset), 0.0
            if unit.sends:
                self._send(unit, place, base + offset)
            for key, exchange in unit.fetches:
                self._issue(exchange, free + free_offset, (place, key), is_last=False)
            waiting, done = self._waiting, len(self.exchanges)
            passes.append(
                Pass(base, offset, free, free_offset, self._channels, waiting, self._issued, done, self._sent)
            )
        self._free, self._free_offset = free, free_offset

    def finish(self) -> float:
        """Times the remaining exchanges; returns the end time."""
        for waiting in sorted(self._waiting, key=_turn):
            self._exchange(waiting)
        return max(float((self._free + self._free_offset).max()), self._sent)

    def _arrivals(self, unit: Unit, microbatch: int) -> list[Times]:
        row = self._schedule.positions[microbatch]
        return [
            *(self._arrival((row[source], key)) for source, key in unit.arrivals),
            *(self._arrival((START if issued == START else row[issued], key)) for issued, key in unit.awaits),
        ]

    def _send(self, unit: Unit, place: int, end: Times) -> None:
        for key, exchange in unit.sends:
            if exchange is not None:
                self._issue(exchange, end, (place, key), is_last=key in unit.settled)
            elif key in unit.settled:
                self._sent = max(self._sent, float(end[unit.division.works].max()))

    def _issue(self, exchange: Exchange, ready: Times, brings: Wanted, *, is_last: bool) -> None:
        waiting = Waiting(exchange.ready_at(ready), self._issued, exchange, ready, brings, is_last)
        self._issued += 1
        self._waiting = (*self._waiting, waiting)
        self._by_key[brings] = waiting

    def _arrival(self, wanted: Wanted) -> Times:
        """Arrival time of an exchange's result, after all exchanges that were ready before."""
        found = self._arrived.get(wanted)
        if found is not None:
            return found
        own = self._by_key.get(wanted)
        if own is None:
            return self.passes[wanted[0]].end
        served = sorted((waiting for waiting in self._waiting if _turn(waiting) <= _turn(own)), key=_turn)
        self._waiting = tuple(waiting for waiting in self._waiting if _turn(waiting) > _turn(own))
        for waiting in served:
            self._exchange(waiting)
        return self._arrived[wanted]

    def _exchange(self, waiting: Waiting) -> None:
        before = self._channels
        self._by_key.pop(waiting.brings)
        arrived, self._channels = waiting.exchange.run(waiting.ready, before)
        self._arrived[waiting.brings] = arrived
        self.exchanges.append(Done(waiting, before, arrived))
        if waiting.is_last:
            self._sent = max(self._sent, float(arrived.max()))


def _turn(waiting: Waiting) -> tuple[float, int]:
    return waiting.ready_at, waiting.issued


def latest(times: Sequence[Times], like: Times | None = None) -> Times:
    """The elementwise maximum of times by device; 0 if there are none, for as many devices as ``like``."""
    if not times:
        assert like is not None
        return np.zeros_like(like)
    found = times[0]
    for other in times[1:]:
        found = np.maximum(found, other)
    return found
