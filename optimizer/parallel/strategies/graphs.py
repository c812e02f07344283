"""Strategies as graphs for the learned ranking: a vertex for the step, and one for each variable.

Features have no unit: times are relative to that of computing the gradients, bytes to those of all variables,
so that what is learned from some steps and clusters holds for others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from superopt.optimizer.learning.graphs import FeatureGraph
from superopt.optimizer.parallel.strategies.model import Collective, Server, Strategy
from superopt.optimizer.parallel.strategies.timetable import Arrivals, Timetable
from superopt.optimizer.parallel.strategies.variables import (
    DeviceNames,
    in_equal_parts,
    part_traffic,
    serves_rows,
)

STEP_FEATURES = 12
_OWN = 13
COUNT = 1 + STEP_FEATURES + _OWN
"""Features of a vertex."""

_STEP = 1


@dataclass(frozen=True)
class Communication:
    """What a strategy exchanges by the model of communication: when sums arrive, and the bytes of each group
    of all-reduces and of what the servers of each node exchange."""

    arrivals: Arrivals
    groups: Mapping[int, int]
    nodes: Mapping[int, int]

    @staticmethod
    def of(strategy: Strategy, table: Timetable, names: DeviceNames) -> Communication:
        """The communication of a strategy of the timetable's step."""
        groups: dict[int, int] = {}
        nodes: dict[int, int] = {}
        for variable in table.variables:
            config = strategy.by_name[variable.name]
            for one, size in zip(config.synchronizers, part_traffic(variable, config, names), strict=True):
                if isinstance(one, Collective):
                    groups[one.group] = groups.get(one.group, 0) + size
                else:
                    node = _node(table, names, one)
                    nodes[node] = nodes.get(node, 0) + size
        return Communication(table.arrivals(strategy), groups, nodes)


@dataclass
class StrategyGraphs:
    """The graphs of strategies of one step on one machine. ``predicted`` are the features of
    ``ranking.FeatureExtractor``, of which the first six are microseconds."""

    timetable: Timetable

    def of(
        self, strategy: Strategy, communication: Communication, predicted: NDArray[np.float64]
    ) -> FeatureGraph:
        """The graph of a strategy; vertex 0 is the step."""
        table = self.timetable
        names = DeviceNames(table.prices.cluster)
        sums, groups, nodes = communication.arrivals.sums, communication.groups, communication.nodes
        whole = np.zeros(COUNT, np.float32)
        computed = max(1e-3, table.computed_at)
        whole[0] = 1
        times = [_log(time / computed) for time in predicted[:6]]
        whole[_STEP : _STEP + STEP_FEATURES] = (*times, *(float(one) for one in predicted[6:]))
        total = max(1, sum(variable.bytes for variable in table.variables))
        rows = [whole]
        for variable in table.variables:
            config = strategy.by_name[variable.name]
            parts = range(len(config.synchronizers))
            arrival = max(sums[variable.name, number] for number in parts)
            shared = [
                groups[one.group] if isinstance(one, Collective) else nodes[_node(table, names, one)]
                for one in config.synchronizers
            ]
            row = np.zeros(COUNT, np.float32)
            row[_STEP + STEP_FEATURES :] = (
                1,
                _log(variable.bytes / total * 1000),
                _log(variable.traffic / total * 1000),
                table.ready.get(variable.name, computed) / computed,
                _log(arrival / computed),
                float(isinstance(config.synchronizers[0], Server)),
                _log(len(parts)),
                float(config.is_partitioned and in_equal_parts(variable, config, names)),
                float(config.is_partitioned and config.partition[0] > 1),
                float(variable.is_sparse),
                float(serves_rows(variable, config, names)),
                _log(max(shared) / total * 1000),
                _log(len(table.variables)),
            )
            rows.append(row)
        count = len(table.variables)
        edges = [edge for number in range(1, count + 1) for edge in ((0, number), (number, 0))]
        edges += [(number, number + 1) for number in range(1, count)]
        return FeatureGraph(np.stack(rows), tuple(edges))


def _log(ratio: float) -> float:
    return math.log2(1e-3 + max(0.0, ratio))


def _node(table: Timetable, names: DeviceNames, one: Server) -> int:
    return table.prices.cluster.devices[names.numbers[one.destination]].node
