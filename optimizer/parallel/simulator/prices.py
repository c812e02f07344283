"""Costs shared by all plans for one cluster: of tasks and of exchanges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from superopt.optimizer.parallel.collectives import Collectives
from superopt.optimizer.parallel.communication import CollectiveStep, communication
from superopt.optimizer.parallel.placement import Placement
from superopt.optimizer.parallel.residence import shares
from superopt.optimizer.parallel.simulator.exchange import (
    Exchange,
    Numbers,
    gathered_together,
)
from superopt.optimizer.parallel.task_costs import TaskCosts
from superopt.optimizer.parallel.topology import Cluster

_MOST = 1 << 16


class Prices:
    """Caches costs across plans and graphs; placements are numbered. ``steps`` counts those of all priced
    exchanges, as a measure of work."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.tasks = TaskCosts()
        self.collectives = Collectives(cluster)
        self.placements: list[Placement] = []
        self.steps = 0
        self._numbers: dict[Placement, int] = {}
        self._exchanges: dict[tuple[int, int, tuple[int, ...], int], Exchange | None] = {}
        self._gathered: dict[tuple[Exchange, ...], Exchange] = {}
        self._shared: dict[tuple[int, int, tuple[int, ...]], NDArray[np.bool_]] = {}
        self._held: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._given: dict[tuple[tuple[CollectiveStep, ...], tuple[int, ...]], Exchange] = {}

    def number(self, placement: Placement) -> int:
        """The index of a placement."""
        found = self._numbers.get(placement)
        if found is None:
            found = self._numbers[placement] = len(self.placements)
            self.placements.append(placement)
        return found

    def exchange(self, have: int, want: int, shape: tuple[int, ...], element_bytes: int) -> Exchange | None:
        """The exchange from one placement to another; None where nothing is sent."""
        key = (have, want, shape, element_bytes)
        if key in self._exchanges:
            return self._exchanges[key]
        if len(self._exchanges) >= _MOST:
            self._exchanges.clear()
        source, target = self.placements[have], self.placements[want]
        steps = communication(source, target, shape, element_bytes)
        self.steps += len(steps)
        found = Exchange(steps, source.devices, self.collectives, len(self.cluster)) if steps else None
        self._exchanges[key] = found
        return found

    def gathered(self, exchanges: tuple[Exchange, ...]) -> Exchange:
        """The exchange that does the all-gathers of several together."""
        if len(exchanges) == 1:
            return exchanges[0]
        found = self._gathered.get(exchanges)
        if found is None:
            if len(self._gathered) >= _MOST:
                self._gathered.clear()
            steps = gathered_together(exchanges)
            self.steps += len(steps)
            holders = sorted({int(device) for exchange in exchanges for device in exchange.holders})
            found = Exchange(steps, holders, self.collectives, len(self.cluster))
            self._gathered[exchanges] = found
        return found

    def exchange_of(self, steps: tuple[CollectiveStep, ...], holders: Numbers) -> Exchange:
        """The exchange of given steps, by the devices that hold what they send."""
        key = (steps, tuple(holders.tolist()))
        found = self._given.get(key)
        if found is None:
            if len(self._given) >= _MOST:
                self._given.clear()
            found = self._given[key] = Exchange(steps, holders.tolist(), self.collectives, len(self.cluster))
        return found

    def held(self, place: int, size: int) -> NDArray[np.int64]:
        """By device the bytes that it holds of a tensor of that many bytes; read-only."""
        found = self._held.get((place, size))
        if found is None:
            if len(self._held) >= _MOST:
                self._held.clear()
            placement = self.placements[place]
            found = np.zeros(len(self.cluster), np.int64)
            found[list(placement.devices)] = placement.shard_bytes(size)
            self._held[place, size] = found
        return found

    def shared(self, have: int, want: int, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """By device whether its part in one placement is the array that it holds in another; read-only."""
        key = (have, want, shape)
        found = self._shared.get(key)
        if found is None:
            if len(self._shared) >= _MOST:
                self._shared.clear()
            found = np.zeros(len(self.cluster), bool)
            found[list(shares(self.placements[have], self.placements[want], shape))] = True
            self._shared[key] = found
        return found
