"""Issue order of a training step's operations by list scheduling, so that none keeps a device waiting.

Devices run what is issued in that order: an operation that waits for a sum would keep them from computing
what is already there. Of the operations whose operands have arrived, these are issued first:

1. those after which sending takes longer than computing, such as updates on servers (as in Johnson's rule for
   a flow shop of two machines, 1954), the smallest number first;
2. the others, that with the fewest exchanges before it first, then that with the smallest number: gradients
   before updates, which wait for their sums. DisCo (section 4.4) takes them as they become ready.

Arrivals are estimated: an exchange starts when what it sends is there and its channels are free, in the order
in which exchanges are issued. The order depends on the plan only.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from superopt.optimizer.parallel.simulator.exchange import Exchange, Times
from superopt.optimizer.parallel.simulator.operations import Operations
from superopt.optimizer.parallel.simulator.units import Key, Unit

Turn = tuple[int, int]
"""Exchanges that count before an operation, and its number."""

_FIRST = -1
"""In place of exchanges, for what only renames a tensor and so occupies no device."""


@dataclass(frozen=True)
class IssueOrder:
    """The orders of plans for one graph without stages, on a cluster with so many channels."""

    operations: Operations
    channels: int

    def of(self, units: Sequence[Unit]) -> tuple[int, ...]:
        """The operations of a plan in their order. Inputs that the plan keeps in parts count as being
        there."""
        urgent = _sends_longer(units, self._readers)
        return _Issuing(units, self._readers, list(self._operands), urgent, self.channels).order()

    @cached_property
    def _readers(self) -> tuple[tuple[int, ...], ...]:
        """The operations that wait for each one."""
        graph, numbers = self.operations.graph, self.operations.numbers
        found: list[dict[int, None]] = [{} for _ in self.operations.all]
        for number, operation in enumerate(self.operations.all):
            node = graph[operation.node]
            for other in (*(value.node for value in node.inputs), *node.after):
                if other in numbers:
                    found[numbers[other]][number] = None
        return tuple(map(tuple, found))

    @cached_property
    def _operands(self) -> tuple[int, ...]:
        """How many operations each one waits for."""
        found = [0] * len(self._readers)
        for readers in self._readers:
            for reader in readers:
                found[reader] += 1
        return tuple(found)


def _sends_longer(units: Sequence[Unit], readers: Sequence[Sequence[int]]) -> list[bool]:
    """By operation whether the longest path of exchanges after it takes longer than that of operations from
    it on."""
    lasts = {
        (number, key): exchange.microseconds
        for number, unit in enumerate(units)
        for key, exchange in unit.sends
        if exchange is not None
    }
    computing = [0.0] * len(units)
    sending = [
        max((lasts.get((number, key), 0.0) for key in unit.settled), default=0.0)
        for number, unit in enumerate(units)
    ]
    for number in reversed(range(len(units))):
        for reader in readers[number]:
            computing[number] = max(computing[number], computing[reader])
            sending[number] = max(sending[number], sending[reader])
        computing[number] += units[number].division.duration.longest
        for source, key in units[number].arrivals:
            taken = lasts.get((source, key), 0.0)
            sending[source] = max(sending[source], taken + sending[number])
    return [sent > computed for sent, computed in zip(sending, computing, strict=True)]


@dataclass
class _Issuing:
    """``waiting`` counts the operands of each operation that are not issued; ``exchanges`` those before it.
    ``arrived`` says when each exchange brings its result. ``coming`` are operations whose operands are all
    issued, by their arrival, ``ready`` those whose operands have arrived."""

    units: Sequence[Unit]
    readers: Sequence[Sequence[int]]
    waiting: list[int]
    urgent: Sequence[bool]
    channels: int
    ends: dict[int, float] = field(default_factory=dict[int, float])
    arrived: dict[tuple[int, Key], float] = field(default_factory=dict[tuple[int, Key], float])
    coming: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    ready: list[Turn] = field(default_factory=list[Turn])

    def __post_init__(self) -> None:
        self.starts = [0.0] * len(self.units)
        self.exchanges = [0] * len(self.units)
        self.busy_until: Times = np.zeros(self.channels)
        works = np.logical_or.reduce([unit.division.works for unit in self.units])
        self.free: Times = np.where(works, 0.0, np.inf)

    def order(self) -> tuple[int, ...]:
        found: list[int] = []
        self.coming = [(0.0, number) for number, count in enumerate(self.waiting) if not count]
        while self.coming or self.ready:
            now = float(self.free.min())
            if not self.ready:
                now = max(now, self.coming[0][0])
            while self.coming and self.coming[0][0] <= now:
                _, number = heapq.heappop(self.coming)
                heapq.heappush(self.ready, self._turn(number))
            _, number = heapq.heappop(self.ready)
            found.append(number)
            self._issue(number)
        return tuple(found)

    def _turn(self, number: int) -> Turn:
        if not self.units[number].division.takes_time:
            return _FIRST, number
        return 0 if self.urgent[number] else self.exchanges[number], number

    def _issue(self, number: int) -> None:
        unit = self.units[number]
        end = self.ends[number] = self._computed(unit, self.starts[number])
        for key, exchange in unit.sends:
            if exchange is not None:
                self.arrived[number, key] = self._sent(exchange, end)
        for reader in self.readers[number]:
            self.exchanges[reader] = max(self.exchanges[reader], self.exchanges[number])
            self.waiting[reader] -= 1
            if not self.waiting[reader]:
                self._release(reader)

    def _computed(self, unit: Unit, ready: float) -> float:
        """Occupies the devices of an operation; returns when it is done."""
        division = unit.division
        if not division.takes_time:
            return ready
        if division.duration.common is not None:
            end = max(ready, float(self.free.max())) + division.duration.common
            self.free[:] = end
            return end
        end = max(ready, float(self.free[division.works].max())) + division.duration.longest
        self.free[division.works] = end
        return end

    def _sent(self, exchange: Exchange, ready: float) -> float:
        """Occupies the channels of an exchange; returns when it is done."""
        channels, loads = exchange.occupied
        start = max(ready, float(self.busy_until[channels].max()))
        self.busy_until[channels] = start + loads
        return start + exchange.microseconds

    def _release(self, number: int) -> None:
        """All operands of an operation are issued."""
        start = 0.0
        for source, key in self.units[number].arrivals:
            arrival = self.arrived.get((source, key))
            if arrival is not None:
                self.exchanges[number] = max(self.exchanges[number], self.exchanges[source] + 1)
            start = max(start, self.ends[source] if arrival is None else arrival)
        self.starts[number] = start
        heapq.heappush(self.coming, (start, number))
