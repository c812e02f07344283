"""Cost of collectives on a cluster: the cheapest of ring, tree and hierarchical algorithms.

A collective is made of hops between devices. Each hop occupies the channels of its path for its bytes divided
by their bandwidth, and takes longer where a single transfer is slower than its channels; the latencies of
dependent rounds add up. With S bytes and n devices a ring all-reduce has 2 (n - 1) rounds and sends
2 (n - 1) / n S bytes over every hop; a tree has 2 log2 n rounds with S bytes on every edge; both are in
small chunks, so that all hops work at once. A hierarchical all-reduce reduces within nodes, then between
them, then gathers within nodes, one phase after the other.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from superopt.optimizer.parallel.communication import CollectiveKind, CollectiveStep
from superopt.optimizer.parallel.topology import Cluster

_MICRO = 1e6


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """Cost of a collective without contention: total microseconds, and microseconds for which each channel is
    busy."""

    algorithm: str
    microseconds: float
    loads: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class _Phase:
    """Concurrent hops: microseconds of latency, microseconds per byte on every channel, and those of the
    slowest hop by itself, where single transfers are slower than channels."""

    latency: float
    loads: dict[int, float]
    pace: float = 0.0

    @property
    def rate(self) -> float:
        """Microseconds per byte."""
        return max(self.pace, max(self.loads.values(), default=0.0))


@dataclass(frozen=True, slots=True)
class _Algorithm:
    """Consecutive phases."""

    algorithm: str
    phases: tuple[_Phase, ...]

    def cost(self, size: int) -> CollectiveCost:
        total = 0.0
        loads: dict[int, float] = defaultdict(float)
        for phase in self.phases:
            total += phase.latency + size * phase.rate
            for channel, load in phase.loads.items():
                loads[channel] += size * load
        return CollectiveCost(self.algorithm, total, tuple(loads.items()))

    def microseconds(self, size: int) -> float:
        return sum(phase.latency + size * phase.rate for phase in self.phases)


class Collectives:
    """Prices of collectives on one cluster, cached by kind and group."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._speeds = tuple(channel.bandwidth / _MICRO for channel in cluster.channels)
        self._ways: dict[tuple[CollectiveKind, tuple[int, ...]], tuple[_Algorithm, ...]] = {}

    def cost(self, step: CollectiveStep) -> CollectiveCost:
        """The cost of the cheapest algorithm."""
        size = step.moved if step.kind is CollectiveKind.ALL_TO_ALL else step.bytes
        ways = self.ways(step.kind, step.group)
        found = min(ways, key=lambda way: way.microseconds(size)).cost(size)
        if self._cluster.collectives is None or step.kind is CollectiveKind.SEND:
            return found
        return replace(found, loads=tuple((channel, found.microseconds) for channel, _ in found.loads))

    def costs(self, step: CollectiveStep) -> tuple[CollectiveCost, ...]:
        """The cost of every algorithm."""
        size = step.moved if step.kind is CollectiveKind.ALL_TO_ALL else step.bytes
        return tuple(way.cost(size) for way in self.ways(step.kind, step.group))

    def ways(self, kind: CollectiveKind, group: tuple[int, ...]) -> tuple[_Algorithm, ...]:
        """The algorithms for a collective of that kind on those devices."""
        found = self._ways.get((kind, group))
        if found is None:
            found = self._ways[kind, group] = tuple(self._made(kind, group))
        return found

    def _made(self, kind: CollectiveKind, group: tuple[int, ...]) -> Iterable[_Algorithm]:
        measured = self._measured(kind, tuple(sorted(group)))
        if measured is not None:
            yield measured
            return
        match kind:
            case CollectiveKind.SEND:
                yield _Algorithm("send", (self._phase([[group]], 1.0),))
            case CollectiveKind.BROADCAST:
                yield from self._broadcasts(group[0], tuple(sorted(group[1:])))
            case CollectiveKind.ALL_TO_ALL:
                pairs = list(itertools.permutations(group, 2))
                direct = self._phase([pairs], 1.0 / len(pairs))
                rounds = math.ceil(math.log2(len(group)))
                yield _Algorithm("direct", (replace(direct, latency=rounds * direct.latency),))
            case CollectiveKind.ALL_REDUCE:
                yield from self._all_reduces(tuple(sorted(group)))
            case CollectiveKind.ALL_GATHER | CollectiveKind.REDUCE_SCATTER:
                yield from self._gathers(tuple(sorted(group)))

    def _measured(self, kind: CollectiveKind, group: tuple[int, ...]) -> _Algorithm | None:
        """The collective of all devices whose time was fitted; None for other groups and kinds."""
        serial = self._cluster.collectives
        time = None if serial is None or len(group) != len(self._cluster) else serial.time(kind)
        if time is None:
            return None
        channels = self._ring([group]).loads
        return _Algorithm("measured", (_Phase(time.fixed, dict.fromkeys(channels, time.per_byte)),))

    def _all_reduces(self, group: tuple[int, ...]) -> Iterable[_Algorithm]:
        ring = self._ring([group])
        yield _Algorithm("ring", (_twice(ring),))
        yield _Algorithm("tree", (self._up_and_down(group),))
        nodes = self._by_node(group)
        if nodes is not None:
            within, count = self._ring(nodes), len(nodes[0])
            across = list(zip(*nodes, strict=True))
            for name, between in (
                ("hierarchical", _twice(self._ring(across))),
                ("hierarchical tree", _merged([self._up_and_down(ranks) for ranks in across])),
            ):
                yield _Algorithm(name, (_twice(within), _scaled(between, 1 / count)))

    def _gathers(self, group: tuple[int, ...]) -> Iterable[_Algorithm]:
        yield _Algorithm("ring", (self._ring([group]),))
        if len(group) & (len(group) - 1) == 0:
            yield _Algorithm("tree", (self._doubling(group),))
        nodes = self._by_node(group)
        if nodes is not None:
            within, count = self._ring(nodes), len(nodes[0])
            across = list(zip(*nodes, strict=True))
            yield _Algorithm("hierarchical", (_scaled(self._ring(across), 1 / count), within))

    def _broadcasts(self, source: int, targets: tuple[int, ...]) -> Iterable[_Algorithm]:
        devices = self._cluster.devices
        home = devices[source].node
        near = [target for target in targets if devices[target].node == home]
        far = [target for target in targets if devices[target].node != home]
        order = (source, *near, *far)
        chain = list(itertools.pairwise(order))
        yield _Algorithm("ring", (self._phase([[hop] for hop in chain], 1.0),))
        yield _Algorithm("tree", (self._tree(order),))
        if far:
            groups: dict[int, list[int]] = {home: [source, *near]}
            for target in far:
                groups.setdefault(devices[target].node, []).append(target)
            leaders = self._tree([members[0] for members in groups.values()])
            within = _merged([self._tree(members) for members in groups.values() if len(members) > 1])
            yield _Algorithm("hierarchical", (leaders, within))

    def _ring(self, groups: Sequence[Sequence[int]]) -> _Phase:
        """n - 1 rounds in which every device of every group sends 1/n of the whole to the next one."""
        size = len(groups[0])
        if size == 1:
            return _Phase(0.0, {})
        hops = [(group[number], group[(number + 1) % size]) for group in groups for number in range(size)]
        phase = self._phase([hops], (size - 1) / size)
        return replace(phase, latency=(size - 1) * phase.latency)

    def _tree(self, group: Sequence[int]) -> _Phase:
        """A binomial tree from the first device: the whole on every edge, one round per level."""
        size = len(group)
        rounds: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number in range(1, size):
            rounds[number & -number].append((group[number & (number - 1)], group[number]))
        return self._phase(list(rounds.values()), 1.0)

    def _up_and_down(self, group: Sequence[int]) -> _Phase:
        """A tree to the first device, and one back."""
        down = self._tree(group)
        edges = [(group[number], group[number & (number - 1)]) for number in range(1, len(group))]
        return _merged([down, replace(self._phase([edges], 1.0), latency=down.latency)], latency=sum)

    def _doubling(self, group: Sequence[int]) -> _Phase:
        """log2 n rounds in which partners exchange what they have, doubling in each round."""
        size = len(group)
        phases: list[_Phase] = []
        distance = 1
        while distance < size:
            hops = [(group[number], group[number ^ distance]) for number in range(size)]
            phases.append(self._phase([hops], distance / size))
            distance *= 2
        return _merged(phases, latency=sum)

    def _phase(self, rounds: Sequence[Sequence[tuple[int, ...]]], share: float) -> _Phase:
        """Rounds of hops, each with this share of the bytes."""
        latency = pace = 0.0
        loads: dict[int, float] = defaultdict(float)
        for hops in rounds:
            slowest = 0.0
            for source, target in hops:
                slowest = max(slowest, self._cluster.latency(source, target))
                pace = max(pace, share * _MICRO / self._cluster.flow(source, target))
                for channel in self._cluster.path(source, target):
                    loads[channel] += share / self._speeds[channel]
            latency += slowest
        return _Phase(latency, dict(loads), pace)

    def _by_node(self, group: Sequence[int]) -> list[tuple[int, ...]] | None:
        """The group by node, if it spans several nodes with the same number of devices, at least two."""
        nodes: dict[int, list[int]] = defaultdict(list)
        for device in group:
            nodes[self._cluster.devices[device].node].append(device)
        counts = {len(members) for members in nodes.values()}
        if len(nodes) < 2 or len(counts) != 1 or counts == {1}:
            return None
        return [tuple(members) for members in nodes.values()]


def _twice(phase: _Phase) -> _Phase:
    """Reduce, then gather."""
    loads = {channel: 2 * load for channel, load in phase.loads.items()}
    return _Phase(2 * phase.latency, loads, 2 * phase.pace)


def _scaled(phase: _Phase, share: float) -> _Phase:
    loads = {channel: share * load for channel, load in phase.loads.items()}
    return _Phase(phase.latency, loads, share * phase.pace)


def _merged(phases: Sequence[_Phase], latency: Callable[[Iterable[float]], float] = max) -> _Phase:
    """Concurrent phases; or, with the sum as ``latency``, phases whose latencies add up, pipelined in
    chunks."""
    loads: dict[int, float] = defaultdict(float)
    for phase in phases:
        for channel, load in phase.loads.items():
            loads[channel] += load
    pace = max((phase.pace for phase in phases), default=0.0)
    return _Phase(latency([phase.latency for phase in phases] or [0.0]), dict(loads), pace)
