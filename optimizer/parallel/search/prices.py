"""Prices of collectives along the axes of a mesh, all groups at once: what shared channels let through."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from optimizer.parallel.communication import CollectiveKind
from optimizer.parallel.search.mesh import Mesh
from optimizer.parallel.search.redistribution import CollectivePrices
from optimizer.parallel.topology import Cluster

_RING_PASSES = {
    CollectiveKind.ALL_REDUCE: 2,
    CollectiveKind.REDUCE_SCATTER: 1,
    CollectiveKind.ALL_GATHER: 1,
    CollectiveKind.ALL_TO_ALL: 1,
    CollectiveKind.BROADCAST: 1,
}


def collective_prices(mesh: Mesh, cluster: Cluster) -> CollectivePrices:
    """The prices for every set of axes."""
    count = len(mesh.sizes)
    start = {kind: np.zeros(1 << count) for kind in CollectiveKind}
    per_byte = {kind: np.zeros(1 << count) for kind in CollectiveKind}
    for number in range(1, 1 << count):
        axes = [axis for axis in range(count) if number >> axis & 1]
        groups = list(_groups(mesh, axes))
        size = len(groups[0])
        slowest, latency = _ring(groups, cluster)
        for kind, passes in _RING_PASSES.items():
            share = 1.0 if kind is CollectiveKind.BROADCAST else (size - 1) / size
            start[kind][number] = passes * math.ceil(math.log2(size)) * latency
            per_byte[kind][number] = passes * share * slowest
        if size > 1:
            per_byte[CollectiveKind.ALL_TO_ALL][number] = _exchange(groups, cluster)
    return CollectivePrices(mesh.sizes, start, per_byte)


def _groups(mesh: Mesh, axes: Sequence[int]) -> Iterator[list[int]]:
    others = [axis for axis in range(len(mesh.sizes)) if axis not in axes]
    size = math.prod(mesh.sizes[axis] for axis in axes)
    for row in mesh.array.transpose(*others, *axes).reshape(-1, size):
        yield [int(device) for device in row]


def _ring(groups: Sequence[Sequence[int]], cluster: Cluster) -> tuple[float, float]:
    """Microseconds per byte through the busiest channel if every member sends to the next; the latency."""
    load: Counter[int] = Counter()
    latency = 0.0
    for group in groups:
        for source, target in zip(group, (*group[1:], group[0]), strict=True):
            load.update(cluster.path(source, target))
            latency = max(latency, cluster.latency(source, target))
    return _busiest(load, cluster), latency


def _exchange(groups: Sequence[Sequence[int]], cluster: Cluster) -> float:
    """Microseconds per byte that each member holds, where every member sends to all others."""
    load: Counter[int] = Counter()
    for group in groups:
        for source in group:
            for target in group:
                if source != target:
                    load.update(cluster.path(source, target))
    return _busiest(load, cluster) / len(groups[0])


def _busiest(load: Counter[int], cluster: Cluster) -> float:
    return max((1e6 * n / cluster.channels[c].bandwidth for c, n in load.items()), default=0.0)
