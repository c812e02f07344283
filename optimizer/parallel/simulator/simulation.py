"""What a simulation says of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from optimizer.parallel.simulator.exchange import Exchange, Times
from optimizer.parallel.simulator.memory import memory_of
from optimizer.parallel.simulator.objective import ParallelObjective
from optimizer.parallel.simulator.operations import Operations
from optimizer.parallel.simulator.prices import Prices
from optimizer.parallel.simulator.schedule import BACKWARD, FORWARD, Schedule
from optimizer.parallel.simulator.timing import Pass, gradients_ready
from optimizer.parallel.simulator.units import Unit
from superopt.ir.plan import Plan


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """What one device does for a while, in microseconds: a pass of an operation (``kind`` forward or
    backward), or its part in a collective."""

    device: int
    name: str
    kind: str
    start: float
    duration: float
    is_communication: bool


@dataclass(frozen=True, eq=False)
class Simulation:
    """A plan on a cluster. ``microseconds`` is what the objective counts: for ``throughput`` the time for
    which the busiest device or channel is busy, else the time until everything is done.
    """

    plan: Plan
    objective: ParallelObjective
    operations: Operations = field(repr=False)
    prices: Prices = field(repr=False)
    schedule: Schedule = field(repr=False)
    units: list[Unit] = field(repr=False)
    passes: list[Pass] = field(repr=False)

    @cached_property
    def makespan(self) -> float:
        """Microseconds until every device and every channel is done."""
        if not self.passes:
            return 0.0
        last = self.passes[-1]
        return float(max(last.free_at.max(), last.channels.max(initial=0.0)))

    @cached_property
    def microseconds(self) -> float:
        """What the plan takes by the objective."""
        if self.objective is ParallelObjective.THROUGHPUT:
            return float(max(self.busy_microseconds.max(), self.channel_microseconds.max(initial=0.0)))
        return self.makespan

    @cached_property
    def busy_microseconds(self) -> Times:
        """By device: how long it computes."""
        times = np.zeros(len(self.prices.cluster))
        for unit in self.units:
            times += unit.division.forward.each
            if self.objective is ParallelObjective.TRAINING:
                times += unit.division.backward.each
        return times * self.schedule.microbatches

    @cached_property
    def channel_microseconds(self) -> Times:
        """By channel of the cluster: how long something is sent through it."""
        times = np.zeros(len(self.prices.cluster.channels))
        for exchange, count in self._exchanges():
            for channel, load in exchange.loads().items():
                times[channel] += load * count
        return times

    @cached_property
    def communication_bytes(self) -> int:
        """Bytes that all devices together send."""
        return sum(exchange.moved * count for exchange, count in self._exchanges())

    @cached_property
    def memory_bytes(self) -> tuple[int, ...]:
        """By device: the most bytes that it holds at a time."""
        trains = self.objective is ParallelObjective.TRAINING
        return memory_of(self.operations, self.prices, self.schedule, self.units, trains=trains)

    def timeline(self) -> Iterator[TimelineEvent]:
        """What every device does, in the order of issue."""
        channels = np.zeros(len(self.prices.cluster.channels))
        trains = self.objective is ParallelObjective.TRAINING
        last = self.schedule.microbatches - 1
        for (direction, number, microbatch), done in zip(self.schedule.items, self.passes, strict=True):
            unit, operation, end = self.units[number], self.operations.all[number], done.end
            name = f"{operation.operator.name} {operation.node}"
            exchanges: list[tuple[Exchange | None, Times, str]] = []
            if direction == BACKWARD:
                for exchange, readers in unit.returns:
                    ready = gradients_ready(self.passes, self.schedule, microbatch, readers)
                    exchanges.append((exchange, ready, f"gradient of {name}"))
            events, channels = _transfers(exchanges, channels)
            yield from events
            duration = unit.division.forward if direction == FORWARD else unit.division.backward
            for device in unit.division.how.devices:
                length = float(duration.each[device])
                if length:
                    start = float(end[device]) - length
                    kind = "forward" if direction == FORWARD else "backward"
                    yield TimelineEvent(device, name, kind, start, length, is_communication=False)
            exchanges = []
            if direction == FORWARD:
                exchanges = [(exchange, end, name) for _, exchange in unit.sends]
            elif trains and microbatch == last:
                exchanges = [
                    (exchange, end if single else done.free_at, f"weights of {name}")
                    for exchange, single in unit.synchronised
                ]
            events, channels = _transfers(exchanges, channels)
            yield from events

    def _exchanges(self) -> Iterator[tuple[Exchange, int]]:
        """Every exchange, and how often it happens."""
        count = self.schedule.microbatches
        trains = self.objective is ParallelObjective.TRAINING
        for unit in self.units:
            for _, exchange in unit.sends:
                if exchange is not None:
                    yield exchange, count
            if trains:
                for exchange, _ in unit.returns:
                    if exchange is not None:
                        yield exchange, count
                for exchange, _ in unit.synchronised:
                    yield exchange, 1


def _transfers(
    exchanges: list[tuple[Exchange | None, Times, str]], channels: Times
) -> tuple[list[TimelineEvent], Times]:
    events: list[TimelineEvent] = []
    for exchange, ready, name in exchanges:
        if exchange is None:
            continue
        transfers, channels = exchange.transfers(ready, channels)
        events.extend(
            TimelineEvent(
                device,
                name,
                transfer.step.kind.value,
                transfer.start,
                transfer.stop - transfer.start,
                is_communication=True,
            )
            for transfer in transfers
            for device in transfer.step.group
        )
    return events, channels
