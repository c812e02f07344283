"""Memory of pipelines, and of training whose backward pass is implied, per device in bytes.

The memory is that of weights and of the largest set of simultaneously live tensors; inputs are not counted.
A device holds its shard of every weight throughout; in training also a gradient and two moments (Adam) for
each. An output is live until its last reader has run, in training until its own backward pass; so is every
shard that was sent for it. The gradient of a tensor is live from the first backward pass that computes a term
of it to the last one that reads it. Operations that only rename a tensor allocate nothing; their readers read
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
from superopt.optimizer.parallel.simulator.schedule import BACKWARD, FORWARD, Schedule
from superopt.optimizer.parallel.simulator.units import Unit, bytes_of

Sizes = NDArray[np.int64]

_KEPT_IN_TRAINING = 4
"""The weight, its gradient and two moments."""


def memory_of(
    operations: Operations, prices: Prices, schedule: Schedule, units: Sequence[Unit], *, trains: bool
) -> tuple[int, ...]:
    """By device: the peak bytes."""
    return _Memory(operations, prices, schedule, units, trains=trains).peaks()


class _Memory:
    def __init__(
        self,
        operations: Operations,
        prices: Prices,
        schedule: Schedule,
        units: Sequence[Unit],
        *,
        trains: bool,
    ) -> None:
        self._operations = operations
        self._prices = prices
        self._schedule = schedule
        self._units = units
        self._trains = trains
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
            kept = _KEPT_IN_TRAINING if self._trains and uses.is_trained else 1
            for place in needs:
                total += kept * self._prices.held(place, bytes_of(uses.type))
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
            forward = self._schedule.positions[FORWARD][microbatch]
            backward = self._schedule.positions[BACKWARD][microbatch]
            if self._trains and backward[number] >= 0:
                stop = backward[number]
                readers = [
                    use.reader
                    for use in self._operations.uses[number]
                    if use.slot in self._operations.all[use.reader].gradients
                ]
                first = min((backward[reader] for reader in readers), default=stop)
                self._live(made, first, stop)
            else:
                last = self._last_readers[number]
                stop = forward[last] if last < len(forward) else forward[-1]
            self._live(made, forward[number], max(stop, forward[number]))

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
