"""Prices of collectives along mesh axes when all groups run at once and share channels."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache

import numpy as np

from superopt.optimizer.parallel.collectives import Collectives
from superopt.optimizer.parallel.communication import CollectiveKind
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.redistribution import CollectivePrices
from superopt.optimizer.parallel.topology import Cluster

_MOST_WAYS = 4
_LARGE = 1 << 40
"""Bytes for which latency is negligible."""


def collective_prices(mesh: Mesh, cluster: Cluster, collectives: Collectives) -> CollectivePrices:
    """The prices for every set of axes."""
    count = len(mesh.sizes)
    totals = _by_class if _is_regular(cluster) else _by_channel
    start = {kind: np.full((_MOST_WAYS, 1 << count), np.inf) for kind in CollectiveKind}
    per_byte = {kind: np.zeros((_MOST_WAYS, 1 << count)) for kind in CollectiveKind}
    for kind in CollectiveKind:
        start[kind][0, 0] = 0.0
    for number in range(1, 1 << count):
        groups = _groups(mesh, [axis for axis in range(count) if number >> axis & 1])
        if len(groups[0]) == 1:
            for kind in CollectiveKind:
                start[kind][0, number] = 0.0
            continue
        for kind in CollectiveKind:
            if kind is CollectiveKind.SEND:
                continue
            scale = len(groups[0]) - 1 if kind is CollectiveKind.ALL_TO_ALL else 1
            for way, (latency, rate) in enumerate(totals(kind, groups, cluster, collectives)[:_MOST_WAYS]):
                start[kind][way, number] = latency
                per_byte[kind][way, number] = rate * scale
    return CollectivePrices(mesh.sizes, start, per_byte)


def _by_channel(
    kind: CollectiveKind, groups: Sequence[tuple[int, ...]], cluster: Cluster, collectives: Collectives
) -> list[tuple[float, float]]:
    """For every algorithm available to all groups: microseconds of latency, and microseconds per byte through
    the busiest channel."""
    del cluster
    found: list[tuple[float, float]] = []
    per_group = [{way.algorithm: way for way in collectives.ways(kind, group)} for group in groups]
    for algorithm in per_group[0]:
        ways = [known[algorithm] for known in per_group if algorithm in known]
        if len(ways) < len(groups):
            continue
        loads: dict[int, float] = defaultdict(float)
        for way in ways:
            for phase in way.phases:
                for channel, load in phase.loads.items():
                    loads[channel] += load
        alone = max(way.microseconds(0) for way in ways)
        rate = max(way.microseconds(_LARGE) for way in ways) / _LARGE
        found.append((alone, max(rate, max(loads.values(), default=0.0))))
    return found


def _by_class(
    kind: CollectiveKind, groups: Sequence[tuple[int, ...]], cluster: Cluster, collectives: Collectives
) -> list[tuple[float, float]]:
    """The same for equal groups, where channels of one class share the load evenly."""
    devices = sum(map(len, groups)) / len(cluster)
    counts = Counter(_class(channel.name) for channel in cluster.channels)
    found: list[tuple[float, float]] = []
    for way in collectives.ways(kind, groups[0]):
        loads: dict[str, float] = defaultdict(float)
        for phase in way.phases:
            for channel, load in phase.loads.items():
                loads[_class(cluster.channels[channel].name)] += load
        shared = (len(groups) * load / (counts[name] * devices) for name, load in loads.items())
        alone = way.microseconds(_LARGE) / _LARGE
        found.append((way.microseconds(0), max(alone, *shared) if loads else alone))
    return found


def _is_regular(cluster: Cluster) -> bool:
    """Whether all devices and all nodes are equal."""
    shapes = {(len(n.devices), n.link, n.network, n.sockets, n.bridge) for n in cluster.nodes}
    return cluster.is_uniform and len(shapes) == 1


@cache
def _class(channel: str) -> str:
    return re.sub(r"[0-9]+", "", channel)


def _groups(mesh: Mesh, axes: Sequence[int]) -> list[tuple[int, ...]]:
    others = [axis for axis in range(len(mesh.sizes)) if axis not in axes]
    size = mesh.parts(axes)
    rows = mesh.array.transpose(*others, *axes).reshape(-1, size)
    return [tuple(int(device) for device in row) for row in rows]
