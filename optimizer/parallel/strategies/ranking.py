"""Learned ranking of strategies: a graph network over variables, trained by a pairwise ranking loss.

The features of a strategy are those that the model of communication calculates, and those of its variables
(AutoDist, section 2.4, whose model is a recurrent network over the variables).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from superopt.optimizer.learning.documents import NetworkDocument
from superopt.optimizer.learning.graphs import FeatureGraph
from superopt.optimizer.learning.trained import TrainedNetwork
from superopt.optimizer.parallel.strategies.graphs import COUNT, Communication, StrategyGraphs
from superopt.optimizer.parallel.strategies.model import Server, Strategy
from superopt.optimizer.parallel.strategies.timetable import Timetable
from superopt.optimizer.parallel.strategies.variables import DeviceNames

Vector = NDArray[np.float64]

NAMES = (
    "step", "exposed", "all-reduces", "busiest server", "latency", "copying",
    "reduced bytes", "groups", "parts", "servers", "imbalance", "sparse on servers",
)  # fmt: skip
"""The features; the first six are microseconds."""

KIND: Literal["superopt strategy ranking"] = "superopt strategy ranking"

_DATA = "superopt.optimizer.parallel.strategies.data"

_DISTINCT = 1.005
"""Ratio of two times from which on their order counts."""

_CONFIDENT = 0.8
"""Ranking accuracy from which on predictions are trusted (section 2.4)."""


@dataclass
class FeatureExtractor:
    """Features of strategies, by the timetable of a step."""

    timetable: Timetable

    def graph(self, strategy: Strategy) -> FeatureGraph:
        """The graph of a strategy, for the ranking."""
        communication = self._communication(strategy)
        return StrategyGraphs(self.timetable).of(
            strategy, communication, self._numbers(strategy, communication)
        )

    def of(self, strategy: Strategy) -> Vector:
        """One number for each of ``NAMES``."""
        return self._numbers(strategy, self._communication(strategy))

    def _communication(self, strategy: Strategy) -> Communication:
        return Communication.of(strategy, self.timetable, DeviceNames(self.timetable.prices.cluster))

    def _numbers(self, strategy: Strategy, communication: Communication) -> Vector:
        table = self.timetable
        arrivals, groups, loads = communication.arrivals, communication.groups, communication.nodes
        parts = sparse = 0
        for variable in table.variables:
            config = strategy.by_name[variable.name]
            sizes = variable.part_bytes(config.partition)
            parts += len(sizes)
            if variable.is_sparse:
                sparse += sum(
                    size
                    for one, size in zip(config.synchronizers, sizes, strict=True)
                    if isinstance(one, Server)
                )
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


@dataclass(frozen=True)
class _Document:
    """The file of the shipped ranking. ``steps`` are those that it learned from: network, samples of each
    device, cluster of AutoDist's table 1."""

    kind: Literal["superopt strategy ranking"]
    steps: tuple[str, ...]
    network: NetworkDocument


_DOCUMENT = TypeAdapter(_Document)


@cache
def shipped_network() -> TrainedNetwork:
    """The network that ships. It learned from pairs of strategies of other steps and clusters, which it was
    trained to order as their simulations do (``python -m benchmarks ranking``)."""
    content = resources.files(_DATA).joinpath("ranking.json").read_bytes()
    return _DOCUMENT.validate_json(content).network.network(COUNT, "ranking.json")


def ranking_document(trained: TrainedNetwork, steps: Sequence[str]) -> str:
    """The text of the file of a ranking."""
    document = _Document(KIND, tuple(steps), NetworkDocument.of(trained))
    return json.dumps(asdict(document), separators=(",", ":")) + "\n"


@dataclass(frozen=True)
class Ranking:
    """The model: scores are higher for strategies that are predicted to be faster."""

    trained: TrainedNetwork = field(default_factory=shipped_network)

    def scores(self, features: Sequence[FeatureGraph]) -> list[float]:
        """The negative of the predicted cost of each strategy, in arbitrary units."""
        return [-value for value in self.trained.values(features).tolist()] if features else []

    def accuracy(self, features: Sequence[FeatureGraph], times: Sequence[float]) -> float | None:
        """The share of pairs of these trials that the scores order as their times do; None without a pair."""
        return ordered_share(self.scores(features), times)

    def fidelity(self, features: Sequence[FeatureGraph], times: Sequence[float]) -> float:
        """The highest score of these trials up to which scores order them well enough; minus infinity where
        none is."""
        scored = sorted(zip(self.scores(features), times, strict=True))
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
