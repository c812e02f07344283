"""Learned ranking of strategies: a linear model of hand-made features, trained by a pairwise ranking loss.

The features of a strategy are six times that the model of communication calculates, and sums over its
variables (AutoDist, section 2.4, whose model is a recurrent network over the variables in place of the sums).
At first only the time of the step counts that the model of communication predicts; after trials the weights
minimise the logistic loss of every pair of strategies whose order is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from superopt.optimizer.parallel.strategies.model import Collective, Strategy
from superopt.optimizer.parallel.strategies.timetable import Timetable
from superopt.optimizer.parallel.strategies.variables import DeviceNames, serves_rows

Vector = NDArray[np.float64]

NAMES = (
    "step", "exposed", "all-reduces", "busiest server", "latency", "copying",
    "reduced bytes", "groups", "parts", "servers", "imbalance", "sparse on servers",
)  # fmt: skip
"""The features; the first six are microseconds."""

_ROUNDS = 300
_RATE = 0.1
_PRIOR = 1e-3
"""Steps and rate of gradient descent, and the weight of staying near the communication model."""

_DISTINCT = 1.005
"""Ratio of two times from which on their order counts."""

_CONFIDENT = 0.8
"""Ranking accuracy from which on predictions are trusted (section 2.4)."""


@dataclass
class FeatureExtractor:
    """Features of strategies, by the timetable of a step."""

    timetable: Timetable

    def of(self, strategy: Strategy) -> Vector:
        """One number for each of ``NAMES``."""
        table = self.timetable
        arrivals = table.arrivals(strategy)
        groups: dict[int, int] = {}
        names, devices = DeviceNames(table.prices.cluster), table.prices.cluster.devices
        loads: dict[int, int] = {}
        parts = sparse = 0
        for variable in table.variables:
            config = strategy.by_name[variable.name]
            sizes = variable.part_bytes(config.partition)
            parts += len(sizes)
            for synchronizer, size in zip(config.synchronizers, sizes, strict=True):
                if isinstance(synchronizer, Collective):
                    groups[synchronizer.group] = groups.get(synchronizer.group, 0) + size
                else:
                    node = devices[names.numbers[synchronizer.destination]].node
                    sparse += size if variable.is_sparse else 0
                    is_served = serves_rows(variable, config, names)
                    moved = variable.row_bytes // len(sizes) if is_served else size
                    loads[node] = loads.get(node, 0) + moved
        total = max(1, sum(variable.bytes for variable in table.variables))
        mean = sum(loads.values()) / max(1, len(loads))
        return np.array(
            [
                table.looked_up(strategy) + max(arrivals.finished, table.computed_at + arrivals.copying),
                arrivals.finished - table.computed_at,
                sum(map(table.reduced_in, groups.values())),
                max(map(table.served_in, loads.values()), default=0.0),
                table.reduced_in(0) * (len(groups) + parts),
                arrivals.copying,
                sum(groups.values()) / total,
                math.log1p(len(groups)),
                math.log1p(parts),
                float(len(loads)),
                max(loads.values()) / mean if mean else 0.0,
                math.log1p(sparse),
            ]
        )


def _ones() -> Vector:
    return np.ones(len(NAMES), np.float64)


def _predefined(scale: Vector) -> Vector:
    weights = np.zeros(len(NAMES))
    weights[0] = scale[0]
    return weights


@dataclass
class Ranking:
    """The model: scores are higher for strategies that are predicted to be faster."""

    features: list[Vector] = field(default_factory=list[Vector])
    times: list[float] = field(default_factory=list[float])
    _scale: Vector = field(default_factory=_ones)
    _weights: Vector = field(default_factory=lambda: _predefined(_ones()))

    def score(self, features: Vector) -> float:
        """The negative of the predicted cost, in arbitrary units."""
        return -float(features / self._scale @ self._weights)

    def learn(self, features: Sequence[Vector], times: Sequence[float]) -> None:
        """Adds trials, with their microseconds, and trains the weights anew."""
        self.features.extend(features)
        self.times.extend(times)
        rows: Vector = np.array(self.features)
        deviation: Vector = rows.std(axis=0)
        largest: Vector = np.maximum(_ones(), abs(rows).max(axis=0))
        self._scale = np.where(deviation > 0, deviation, largest)
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
        differences: Vector = rows[slower] / self._scale - rows[faster] / self._scale
        weights: Vector = start.copy()
        for _ in range(_ROUNDS):
            wrong = 1.0 / (1.0 + np.exp(np.clip(differences @ weights, -50, 50)))
            slope: Vector = -(wrong[:, None] * differences).mean(axis=0) + _PRIOR * (weights - start)
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
