"""Prices of collectives along the axes of a mesh, by all groups at once: shared channels carry them all."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from optimizer.parallel.collectives import Collectives
from optimizer.parallel.communication import CollectiveKind
from optimizer.parallel.search.mesh import Mesh
from optimizer.parallel.search.redistribution import CollectivePrices

_MOST_WAYS = 4


def collective_prices(mesh: Mesh, collectives: Collectives) -> CollectivePrices:
    """The prices for every set of axes."""
    count = len(mesh.sizes)
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
            for way, (latency, rate) in enumerate(_ways(kind, groups, collectives)[:_MOST_WAYS]):
                start[kind][way, number] = latency
                per_byte[kind][way, number] = rate * scale
    return CollectivePrices(mesh.sizes, start, per_byte)


def _ways(
    kind: CollectiveKind, groups: Sequence[tuple[int, ...]], collectives: Collectives
) -> list[tuple[float, float]]:
    """For every algorithm microseconds of latency and microseconds per byte, all groups at the same time."""
    found: list[tuple[float, float]] = []
    per_group = [collectives.ways(kind, group) for group in groups]
    for ways in zip(*per_group, strict=True):
        loads: dict[int, float] = defaultdict(float)
        alone = 0.0
        for way in ways:
            alone = max(alone, sum(max(phase.loads.values(), default=0.0) for phase in way.phases))
            for phase in way.phases:
                for channel, load in phase.loads.items():
                    loads[channel] += load
        latency = max(sum(phase.latency for phase in way.phases) for way in ways)
        found.append((latency, max(alone, max(loads.values(), default=0.0))))
    return found


def _groups(mesh: Mesh, axes: Sequence[int]) -> list[tuple[int, ...]]:
    others = [axis for axis in range(len(mesh.sizes)) if axis not in axes]
    size = math.prod(mesh.sizes[axis] for axis in axes)
    rows = mesh.array.transpose(*others, *axes).reshape(-1, size)
    return [tuple(int(device) for device in row) for row in rows]
