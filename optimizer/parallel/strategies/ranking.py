"""Learned ranking of strategies: a linear model of hand-made features, trained by a pairwise ranking loss.

The features of a strategy are six times that a model of communication calculates, and sums over its variables
(AutoDist, section 2.4, whose model is a recurrent network over the variables in place of the sums). At first
the weights are those of the communication model, all 1 for the times and 0 for the rest; after trials they
minimise the logistic loss of every pair of strategies whose order is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from superopt.optimizer.parallel.boxes import volume
from superopt.optimizer.parallel.collectives import Collectives
from superopt.optimizer.parallel.communication import CollectiveKind, CollectiveStep
from superopt.optimizer.parallel.strategies.cutting import regions_of_partition
from superopt.optimizer.parallel.strategies.model import Collective, Strategy, VariableSync
from superopt.optimizer.parallel.strategies.variables import DeviceNames, Variable
from superopt.optimizer.parallel.topology import Cluster

Vector = NDArray[np.float64]

NAMES = (
    "all-reduces", "last all-reduce", "busiest server", "servers' latency", "last server", "copying",
    "reduced bytes", "groups", "parts", "servers", "imbalance", "sparse on servers",
)  # fmt: skip
"""The features; the first six are microseconds."""

TIMES = 6

_ROUNDS = 300
_RATE = 0.1
_PRIOR = 1e-3
"""Steps and rate of gradient descent, and the weight of staying near the communication model."""

_MICRO = 1e6
_DISTINCT = 1.005
"""Ratio of two times from which on their order counts."""

_CONFIDENT = 0.8
"""Ranking accuracy from which on predictions are trusted (section 2.4)."""


@dataclass
class FeatureExtractor:
    """Features of strategies for the variables on the cluster."""

    variables: Sequence[Variable]
    cluster: Cluster
    _costs: dict[tuple[CollectiveKind, tuple[int, ...], int], float] = field(
        default_factory=dict[tuple[CollectiveKind, tuple[int, ...], int], float]
    )

    @cached_property
    def _collectives(self) -> Collectives:
        return Collectives(self.cluster)

    @cached_property
    def _names(self) -> DeviceNames:
        return DeviceNames(self.cluster)

    def of(self, strategy: Strategy) -> Vector:
        """One number for each of ``NAMES``."""
        everyone = tuple(range(len(self.cluster)))
        groups: dict[int, int] = {}
        loads: dict[int, int] = {}
        latency = copied = sparse = 0.0
        parts = 0
        first_group, first_server = -1, 0.0
        for number, variable in enumerate(self.variables):
            config = strategy.by_name[variable.name]
            sizes = part_bytes(variable, config)
            parts += len(sizes)
            copied += 4.0 * variable.bytes if len(sizes) > 1 else 0.0
            for synchronizer, size in zip(config.synchronizers, sizes, strict=True):
                if isinstance(synchronizer, Collective):
                    groups[synchronizer.group] = groups.get(synchronizer.group, 0) + size
                    first_group = synchronizer.group if number == 0 else first_group
                    continue
                server = self._names.numbers[synchronizer.destination]
                moved = 0 if variable.is_sparse else size
                sparse += size if variable.is_sparse else 0
                loads[server] = loads.get(server, 0) + moved
                latency += self._cost(CollectiveKind.REDUCE_SCATTER, everyone, 0)
                if number == 0:
                    first_server = max(first_server, self._served(server, moved))
        times = {group: self._cost(CollectiveKind.ALL_REDUCE, everyone, size) for group, size in groups.items()}
        mean = sum(loads.values()) / max(1, len(loads))
        bandwidth = self.cluster.devices[0].kind.memory_bandwidth
        return np.array(
            [
                sum(times.values()),
                times.get(first_group, 0.0),
                self._busiest(loads),
                latency,
                first_server,
                _MICRO * copied / bandwidth,
                sum(groups.values()) / max(1, sum(variable.bytes for variable in self.variables)),
                math.log1p(len(groups)),
                math.log1p(parts),
                float(len(loads)),
                max(loads.values()) / mean if mean else 0.0,
                math.log1p(sparse),
            ]
        )

    def _cost(self, kind: CollectiveKind, group: tuple[int, ...], size: int) -> float:
        if len(group) == 1:
            return 0.0
        key = (kind, group, size)
        if key not in self._costs:
            nothing = ((),) * len(group)
            step = CollectiveStep(kind, group, size, nothing, nothing, 0)
            self._costs[key] = self._collectives.cost(step).microseconds
        return self._costs[key]

    def _served(self, server: int, size: int) -> float:
        """Microseconds to sum on a server and to send the result to all."""
        others = tuple(device for device in range(len(self.cluster)) if device != server)
        everyone = tuple(range(len(self.cluster)))
        reduced = self._cost(CollectiveKind.REDUCE_SCATTER, everyone, size)
        return reduced + (self._cost(CollectiveKind.BROADCAST, (server, *others), size) if others else 0.0)

    def _busiest(self, loads: dict[int, int]) -> float:
        """Microseconds for which the busiest node receives gradients and sends parameters."""
        by_node: dict[int, float] = {}
        for server, size in loads.items():
            node = self.cluster.devices[server].node
            by_node[node] = by_node.get(node, 0.0) + self._served(server, size)
        return max(by_node.values(), default=0.0)


def part_bytes(variable: Variable, config: VariableSync) -> list[int]:
    """The sizes of the parts of a variable."""
    if not config.is_partitioned:
        return [variable.bytes]
    each = variable.element.bytes_per_element
    return [volume(region) * each for region in regions_of_partition(variable.shape, config.partition)]


@dataclass
class Ranking:
    """The model: scores are higher for strategies that are predicted to be faster."""

    features: list[Vector] = field(default_factory=list[Vector])
    times: list[float] = field(default_factory=list[float])
    _scale: Vector = field(default_factory=lambda: np.ones(len(NAMES)))
    _weights: Vector = field(default_factory=lambda: _predefined(np.ones(len(NAMES))))

    def score(self, features: Vector) -> float:
        """The negative of the predicted cost, in arbitrary units."""
        return -float(features / self._scale @ self._weights)

    def learn(self, features: Sequence[Vector], times: Sequence[float]) -> None:
        """Adds trials, with their microseconds, and trains the weights anew."""
        self.features.extend(features)
        self.times.extend(times)
        rows = np.array(self.features)
        deviation = rows.std(axis=0)
        self._scale = np.where(deviation > 0, deviation, np.maximum(1.0, abs(rows).max(axis=0)))
        start = _predefined(self._scale)
        start /= max(1e-12, float(np.linalg.norm(start)))
        pairs = [
            (slow, fast)
            for slow, time in enumerate(self.times)
            for fast, other in enumerate(self.times)
            if time > _DISTINCT * other
        ]
        if not pairs:
            self._weights = start
            return
        slower, faster = np.array(pairs).T
        differences = rows[slower] / self._scale - rows[faster] / self._scale
        weights = start.copy()
        for _ in range(_ROUNDS):
            wrong = 1.0 / (1.0 + np.exp(np.clip(differences @ weights, -50, 50)))
            slope = -(wrong[:, None] * differences).mean(axis=0) + _PRIOR * (weights - start)
            weights -= _RATE * slope
        self._weights = weights

    def accuracy(self, features: Sequence[Vector], times: Sequence[float]) -> float | None:
        """The share of pairs of these trials that the scores order as their times do; None without a pair."""
        return ordered_share([self.score(one) for one in features], times)

    def fidelity(self, features: Sequence[Vector], times: Sequence[float]) -> float:
        """The highest score of these trials up to which scores order them well enough; minus infinity where
        none is."""
        scored = sorted((self.score(one), time) for one, time in zip(features, times, strict=True))
        for count in range(len(scored), 1, -1):
            share = ordered_share([s for s, _ in scored[:count]], [time for _, time in scored[:count]])
            if share is not None and share >= _CONFIDENT:
                return scored[count - 1][0]
        return -math.inf


def ordered_share(scores: Sequence[float], times: Sequence[float]) -> float | None:
    """The share of pairs with different times of which the faster one has the higher score; None without
    such a pair."""
    pairs = [
        scores[fast] > scores[slow]
        for slow, time in enumerate(times)
        for fast, other in enumerate(times)
        if time > _DISTINCT * other
    ]
    return sum(pairs) / len(pairs) if pairs else None


def _predefined(scale: Vector) -> Vector:
    weights = np.zeros(len(NAMES))
    weights[:TIMES] = scale[:TIMES]
    return weights



