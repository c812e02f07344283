"""Count the bytes of arrays that each device of a machine holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Generic

from superopt.optimizer.parallel.execution.machine import A, Machine


class DeviceMemory(Generic[A]):
    """The arrays on each device; views of one array count once. ``peaks`` is the largest number of bytes seen
    by ``note``, by device."""

    def __init__(self, machine: Machine[A]) -> None:
        self._machine = machine
        self._uses: dict[int, Counter[int]] = defaultdict(Counter)
        self._alive: Counter[int] = Counter()
        self.peaks: dict[int, int] = {}

    def add(self, device: int, shard: A) -> None:
        """Adds a use of the memory of a shard."""
        storage, size = self._machine.storage(shard)
        if not self._uses[device][storage]:
            self._alive[device] += size
        self._uses[device][storage] += 1

    def drop(self, device: int, shard: A) -> None:
        """Ends a use."""
        storage, size = self._machine.storage(shard)
        self._uses[device][storage] -= 1
        if not self._uses[device][storage]:
            self._alive[device] -= size

    def note(self) -> None:
        """Takes the present bytes into account."""
        for device, alive in self._alive.items():
            self.peaks[device] = max(alive, self.peaks.get(device, 0))
