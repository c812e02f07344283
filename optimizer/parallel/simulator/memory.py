"""Memory of pipelines, per device in bytes.

The memory is that of weights and of the largest set of simultaneously live tensors; inputs are not counted.
A device holds its shard of every weight throughout. An output is live until its last reader has run; so is
every shard that was sent for it. Operations that only rename a tensor allocate nothing; their readers read
the original.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from superopt.optimizer.parallel.simulator.operations import Operations
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.simulator.schedule import Schedule
from superopt.optimizer.parallel.simulator.units import Unit, bytes_of

Sizes = NDArray[np.int64]


def memory_of(
    operations: Operations, prices: Prices, schedule: Schedule, units: Sequence[Unit]
) -> tuple[int, ...]:
    """By device: the peak bytes."""
    return _Memory(operations, prices, schedule, units).peaks()


class _Memory:
    def __init__(
        self,
        operations: Operations,
        prices: Prices,
        schedule: Schedule,
        units: Sequence[Unit],
    ) -> None:
        self._operations = operations
        self._prices = prices
        self._schedule = schedule
        self._units = units
        self._changes: dict[int, list[Sizes]] = defaultdict(list)
        """Changes of memory: index 2 * p for allocations at position p of the schedule, 2 * p + 1 for memory
        freed after it."""
        self._last_readers = self._readers()

    def peaks(self) -> tuple[int, ...]:
        alive = self._weights()
        for number in range(len(self._units)):
            self._add(number)
        peak = alive.copy()
        for place in range(len(self._schedule.items)):
            if 2 * place in self._changes:
                for change in self._changes[2 * place]:
                    alive += change
                np.maximum(peak, alive, out=peak)
            for change in self._changes.get(2 * place + 1, ()):
                alive -= change
        return tuple(int(size) for size in peak)

    def _weights(self) -> Sizes:
        total = np.zeros(len(self._prices.cluster), np.int64)
        for uses in self._operations.weights:
            needs = {self._units[user].division.needs[slot] for user, slot in uses.users}
            for place in needs:
                total += self._prices.held(place, bytes_of(uses.type))
        return total

    def _readers(self) -> list[int]:
        """The last operation that reads each operation's result, also under another name; the operation
        itself if there is none, and a position after the end if the graph returns it."""
        end = len(self._units)
        last = list(range(end))
        for number in reversed(range(end)):
            if self._operations.outputs[number]:
                last[number] = end
            for use in self._operations.uses[number]:
                renames = not self._units[use.reader].division.takes_time
                last[number] = max(last[number], last[use.reader] if renames else use.reader)
        return last

    def _add(self, number: int) -> None:
        """Adds the lifetimes of an operation's results, and of the shards sent for it."""
        operation, unit = self._operations.all[number], self._units[number]
        division = unit.division
        made: Sizes | None = None
        for port, (type_, place) in enumerate(zip(operation.outputs, division.makes, strict=True)):
            size = self._share(number, port, bytes_of(type_))
            places = [place] if division.takes_time else []
            places += [key[1] for key, exchange in unit.sends if key[0] == port and exchange is not None]
            for held in (self._prices.held(place, size) for place in places):
                made = held if made is None else made + held
        if made is None:
            return
        for microbatch in range(self._schedule.microbatches):
            places = self._schedule.positions[microbatch]
            last = self._last_readers[number]
            stop = places[last] if last < len(places) else places[-1]
            self._live(made, places[number], max(stop, places[number]))

    def _live(self, sizes: Sizes, first: int, last: int) -> None:
        self._changes[2 * first].append(sizes)
        self._changes[2 * last + 1].append(sizes)

    def _share(self, number: int, port: int, size: int) -> int:
        """Bytes of a tensor that belong to one microbatch."""
        if self._schedule.microbatches == 1:
            return size
        whole = self._operations.all[number].outputs[port].elements
        part = math.prod(self._units[number].division.shapes[port])
        return size * part // whole if isinstance(whole, int) and whole else size
