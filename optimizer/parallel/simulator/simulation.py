"""Result of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from superopt.ir.graph import NodeId
from superopt.ir.plan import Plan
from superopt.optimizer.parallel.simulator.exchange import Exchange, Times
from superopt.optimizer.parallel.simulator.fused import Fused
from superopt.optimizer.parallel.simulator.liveness import Liveness
from superopt.optimizer.parallel.simulator.memory import memory_of
from superopt.optimizer.parallel.simulator.objective import ParallelObjective
from superopt.optimizer.parallel.simulator.operations import Operations
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.simulator.residents import PARAMETERS, TOGETHER, ResidentFetch, Residents
from superopt.optimizer.parallel.simulator.schedule import Schedule
from superopt.optimizer.parallel.simulator.timing import Done, Timing
from superopt.optimizer.parallel.simulator.units import Key, Unit


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """An interval of a device's timeline, in microseconds: a pass of an operation (``kind`` compute), or its
    part in a collective."""

    device: int
    name: str
    kind: str
    start: float
    duration: float
    is_communication: bool


@dataclass(frozen=True, eq=False)
class Simulation:
    """Simulation of a plan on a cluster. ``microseconds`` is the value of the objective: for ``throughput``
    the busy time of the busiest device or channel, else the time until everything is done."""

    plan: Plan
    objective: ParallelObjective
    operations: Operations = field(repr=False)
    prices: Prices = field(repr=False)
    schedule: Schedule = field(repr=False)
    units: list[Unit] = field(repr=False)
    residents: Residents = field(repr=False)
    opening: tuple[tuple[Key, Exchange], ...] = field(repr=False)
    timing: Timing = field(repr=False)
    fused: Fused | None = field(default=None, repr=False)

    @property
    def issued(self) -> Sequence[Unit]:
        """What devices run and send: operations, or kernels of several."""
        return self.units if self.fused is None else self.fused.issued

    @property
    def makespan(self) -> float:
        """Microseconds until all computation and communication is done."""
        return self.timing.microseconds

    @cached_property
    def microseconds(self) -> float:
        """Value of the objective."""
        if self.objective is ParallelObjective.THROUGHPUT:
            return float(max(self.busy_microseconds.max(), self.channel_microseconds.max(initial=0.0)))
        return self.makespan

    @cached_property
    def busy_microseconds(self) -> Times:
        """By device: computing time."""
        times = np.zeros(len(self.prices.cluster))
        for unit in self.issued:
            times += unit.division.duration.each
        return times * self.schedule.microbatches

    @cached_property
    def channel_microseconds(self) -> Times:
        """By channel of the cluster: busy time."""
        times = np.zeros(len(self.prices.cluster.channels))
        for exchange, count in self._exchanges():
            for channel, load in exchange.loads().items():
                times[channel] += load * count
        return times

    @cached_property
    def communication_bytes(self) -> int:
        """Total bytes sent by all devices."""
        return sum(exchange.moved * count for exchange, count in self._exchanges())

    def fetch_exchanges(self, fetch: ResidentFetch) -> tuple[Exchange, ...]:
        """The exchanges of a fetch, each by itself."""
        wanted = dict.fromkeys(self.units[user].division.needs[slot] for user, slot in fetch.users)
        found = (fetch.exchange(self.prices, want) for want in wanted)
        return tuple(exchange for exchange in found if exchange is not None)

    @cached_property
    def memory_bytes(self) -> tuple[int, ...]:
        """By device: peak bytes."""
        if self.schedule.microbatches > 1:
            return memory_of(self.operations, self.prices, self.schedule, self.units)
        return self._liveness.peaks()

    @cached_property
    def _liveness(self) -> Liveness:
        return Liveness(self.operations, self.prices, self.schedule, self.units, self.residents, self.fused)

    @property
    def order(self) -> tuple[NodeId, ...]:
        """The nodes in the order in which they are issued for one batch."""
        numbers: Iterable[int] = (number for number, batch in self.schedule.items if batch == 0)
        if self.fused is not None:
            heads = self.fused.grouping.head
            place = self.schedule.positions[0]
            numbers = sorted(
                range(len(heads)), key=lambda number: (place[number], number == heads[number], number)
            )
        return tuple(self.operations.all[number].node for number in numbers)

    def fits(self, limits: Sequence[int]) -> bool:
        """Whether no device needs more bytes than its limit."""
        if self.schedule.microbatches == 1:
            bound = self._liveness.bound()
            if all(used <= limit for used, limit in zip(bound, limits, strict=True)):
                return True
        return all(used <= limit for used, limit in zip(self.memory_bytes, limits, strict=True))

    def timeline(self) -> Iterator[TimelineEvent]:
        """All computation by device, in issue order; then all communication."""
        for (number, _), done in zip(self.schedule.items, self.timing.passes, strict=True):
            division = self._unit(number).division
            duration, end = division.duration.each, done.end
            for device in division.how.devices:
                length = float(duration[device])
                if length:
                    start = float(end[device]) - length
                    yield TimelineEvent(
                        device, self._name(number), "compute", start, length, is_communication=False
                    )
        for done in self.timing.exchanges:
            yield from self._sent(done)

    def _sent(self, done: Done) -> Iterator[TimelineEvent]:
        waiting = done.waiting
        place, (port, want) = waiting.brings
        if port <= PARAMETERS:
            own = port if want == TOGETHER else None
            fetches = (fetch for fetch in self.residents.fetches if port == fetch.port or own == fetch.bundle)
            name = f"fetch of {', '.join(str(fetch.input) for fetch in fetches)}"
        else:
            number = self.schedule.items[place][0]
            name = self._name(number)
            if self.fused is not None and (count := self.fused.terms_of(number, waiting.brings[1])):
                name = f"bucket of {count} with {name}"
        for transfer in waiting.exchange.transfers(waiting.ready, done.channels):
            length = transfer.stop - transfer.start
            for device in transfer.step.group:
                kind = transfer.step.kind.value
                yield TimelineEvent(device, name, kind, transfer.start, length, is_communication=True)

    def _unit(self, number: int) -> Unit:
        return self.units[number] if self.fused is None else self.fused.units[number]

    def _name(self, number: int) -> str:
        operation = self.operations.all[number]
        name = f"{operation.operator.name} {operation.node}"
        members = () if self.fused is None else self.fused.grouping.of_head(number)
        return f"{name} and {len(members) - 1} more" if len(members) > 1 else name

    def _exchanges(self) -> Iterator[tuple[Exchange, int]]:
        """Every exchange, and its number of occurrences."""
        count = self.schedule.microbatches
        for _, exchange in self.opening:
            yield exchange, count
        for unit in self.issued:
            for _, exchange in unit.fetches:
                yield exchange, count
            for _, exchange in unit.sends:
                if exchange is not None:
                    yield exchange, count
