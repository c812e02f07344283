"""Model of a step's communication under a strategy: when gradients are ready, and when their sums arrive.

The backward pass runs as on one device of the machine. An exchange starts when its gradients are ready and
its channels are free, and takes what the collective costs; a server sends the next value of a part when it
has summed and updated it. This is the predefined performance model of AutoDist's section 2.4, with the
simulator's prices; only the end of the step waits for sums and sent values.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from superopt.ir.graph import NodeId
from superopt.ir.plan import Plan
from superopt.optimizer.parallel.collectives import CollectiveCost
from superopt.optimizer.parallel.communication import CollectiveKind, CollectiveStep
from superopt.optimizer.parallel.search.choices import parallelism
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulator
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.strategies.model import Collective, Server, Strategy
from superopt.optimizer.parallel.strategies.variables import DeviceNames, Variable, serves_rows
from superopt.optimizer.parallel.training_plans.sharded_states import ShardedStates

_MICRO = 1e6
_UPDATE_PASSES = 3
"""Reading a parameter and a gradient, and writing the parameter."""

_COPY_PASSES = 4
"""Laying a gradient beside others and cutting it out again: two reads and two writes."""

PartKey = tuple[str, int]
"""A variable, and the number of its part."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When the summed gradient of each part is there, when the last exchange is done, and how long devices
    copy gradients into and out of merged ones, in microseconds."""

    sums: Mapping[PartKey, float]
    finished: float
    copying: float


@dataclass(frozen=True, slots=True)
class _Exchange:
    """Parts that are summed together on the device ``server``, or on all devices if it is None: ``ready`` in
    microseconds, the bytes to sum, and the bytes that are sent back. Without a kind, each device has rows to
    send to the server."""

    parts: tuple[PartKey, ...]
    ready: float
    kind: CollectiveKind | None
    server: int | None
    summed: int
    returned: int


@dataclass
class Timetable:
    """The times of one step on one machine. ``prices`` may be shared."""

    subject: Subject
    sharded: ShardedStates
    variables: tuple[Variable, ...]
    prices: Prices
    _costs: dict[tuple[CollectiveKind, tuple[int, ...], int], CollectiveCost] = field(
        default_factory=dict[tuple[CollectiveKind, tuple[int, ...], int], CollectiveCost]
    )

    @cached_property
    def _ends(self) -> Mapping[NodeId, float]:
        """When the operations before any sum end, as they are issued."""
        cluster = self.prices.cluster
        how = {
            operation.node: parallelism(operation, choice, self.sharded.mesh)
            for operation, choice in zip(self.subject.operations, self.sharded.replicated, strict=True)
        }
        simulator = Simulator(
            self.subject.graph,
            cluster,
            ParallelObjective.LATENCY,
            prices=self.prices,
            step=self.subject.step,
        )
        simulation = simulator.simulate(Plan(parallel=how))
        ends: dict[NodeId, float] = {}
        now = 0.0
        for node in simulation.order:
            if node in self.sharded.computed:
                now += simulation.units[simulation.operations.numbers[node]].division.duration.longest
                ends[node] = now
        return ends

    @property
    def computed_at(self) -> float:
        """When all gradients are computed."""
        return max(self._ends.values(), default=0.0)

    @cached_property
    def ready(self) -> Mapping[str, float]:
        """When the gradient of each variable is computed."""
        found: dict[str, float] = {}
        for node, parameter in self.sharded.updates.items():
            for value in self.subject.graph[node].inputs:
                if value.node in self._ends:
                    found[parameter.name] = max(found.get(parameter.name, 0.0), self._ends[value.node])
        return found

    def reduced_in(self, size: int) -> float:
        """Microseconds of an all-reduce of that many bytes on all devices."""
        devices = self.sharded.mesh.devices
        if len(devices) == 1:
            return 0.0
        return self._cost(CollectiveKind.ALL_REDUCE, devices, size).microseconds

    def served_in(self, size: int) -> float:
        """Microseconds to sum that many bytes on the first device and to send them to all."""
        devices = self.sharded.mesh.devices
        if len(devices) == 1:
            return 0.0
        kinds = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.BROADCAST)
        return sum(self._cost(kind, devices, size).microseconds for kind in kinds)

    def arrivals(self, strategy: Strategy) -> Arrivals:
        """The times of a strategy."""
        exchanges = list(self._exchanges(strategy))
        waiting = [(exchange.ready, number, False) for number, exchange in enumerate(exchanges)]
        heapq.heapify(waiting)
        channels = [0.0] * len(self.prices.cluster.channels)
        sums: dict[PartKey, float] = {}
        finished = self.computed_at
        while waiting:
            ready, number, is_back = heapq.heappop(waiting)
            exchange = exchanges[number]
            done = self._run(exchange, ready, channels, is_back=is_back)
            finished = max(finished, done)
            if is_back:
                continue
            sums |= dict.fromkeys(exchange.parts, done)
            if exchange.returned:
                updated = done + self._moved(_UPDATE_PASSES * exchange.returned)
                heapq.heappush(waiting, (updated, number, True))
        return Arrivals(sums, finished, self._moved(_COPY_PASSES * self._copied(strategy, exchanges)))

    def _moved(self, size: int) -> float:
        return _MICRO * size / self.prices.cluster.devices[0].kind.memory_bandwidth

    def _copied(self, strategy: Strategy, exchanges: list[_Exchange]) -> int:
        """Bytes of gradients that are merged, and of those that are joined from parts."""
        merged = sum(exchange.summed for exchange in exchanges if len(exchange.parts) > 1)
        return merged + sum(
            variable.bytes
            for variable in self.variables
            if strategy.by_name[variable.name].is_partitioned and not variable.is_sparse
        )

    def _exchanges(self, strategy: Strategy) -> Iterator[_Exchange]:
        names = DeviceNames(self.prices.cluster)
        groups: dict[int, list[_Exchange]] = {}
        for variable in self.variables:
            ready = self.ready.get(variable.name, self.computed_at)
            config = strategy.by_name[variable.name]
            for number, (one, size) in enumerate(
                zip(config.synchronizers, variable.part_bytes(config.partition), strict=True)
            ):
                part = (variable.name, number)
                if isinstance(one, Collective):
                    if variable.is_sparse:
                        yield _Exchange(
                            (part,), ready, CollectiveKind.ALL_GATHER, None, variable.row_bytes, 0
                        )
                        continue
                    own = _Exchange((part,), ready, CollectiveKind.ALL_REDUCE, None, size, 0)
                    groups.setdefault(one.group, []).append(own)
                    continue
                server = names.numbers[one.destination]
                is_remote = serves_rows(variable, config, names)
                summed = variable.row_bytes // len(config.synchronizers) if is_remote else size
                kind = None if is_remote else CollectiveKind.REDUCE_SCATTER
                yield _Exchange((part,), ready, kind, server, summed, 0 if is_remote else size)
        for members in groups.values():
            parts = tuple(part for member in members for part in member.parts)
            ready = max(member.ready for member in members)
            size = sum(member.summed for member in members)
            yield _Exchange(parts, ready, CollectiveKind.ALL_REDUCE, None, size, 0)

    def looked_up(self, strategy: Strategy) -> float:
        """Microseconds until the rows that servers look up are there."""
        names, finished = DeviceNames(self.prices.cluster), 0.0
        channels = [0.0] * len(self.prices.cluster.channels)
        for variable in self.variables:
            config = strategy.by_name[variable.name]
            if not serves_rows(variable, config, names):
                continue
            each = variable.row_bytes // len(config.synchronizers)
            for one in config.synchronizers:
                assert isinstance(one, Server), "rows are served by servers"
                cost = self._rows(names.numbers[one.destination], each, is_back=True)
                finished = max(finished, _occupied(cost, 0.0, channels))
        return finished

    def _run(self, exchange: _Exchange, ready: float, channels: list[float], *, is_back: bool) -> float:
        """Occupies the channels of an exchange; returns when it is done."""
        devices = self.sharded.mesh.devices
        if len(devices) == 1:
            return ready
        if is_back:
            assert exchange.server is not None, "servers send parameters back"
            others = (device for device in devices if device != exchange.server)
            cost = self._cost(CollectiveKind.BROADCAST, (exchange.server, *others), exchange.returned)
        elif exchange.kind is None:
            assert exchange.server is not None, "rows are sent to a server"
            cost = self._rows(exchange.server, exchange.summed, is_back=False)
        else:
            cost = self._cost(exchange.kind, devices, exchange.summed)
        return _occupied(cost, ready, channels)

    def _rows(self, server: int, size: int, *, is_back: bool) -> CollectiveCost:
        """The cost of rows of that many bytes, equally many for each device, between these and a server."""
        cluster, devices = self.prices.cluster, self.sharded.mesh.devices
        loads: dict[int, float] = {}
        slowest = latency = 0.0
        for device in devices:
            if device == server:
                continue
            ends = (server, device) if is_back else (device, server)
            link = cluster.link(*ends)
            slowest = max(slowest, _MICRO * size / len(devices) / link.bandwidth)
            latency = max(latency, link.latency)
            for channel in cluster.path(*ends):
                busy = _MICRO * size / len(devices) / cluster.channels[channel].bandwidth
                loads[channel] = loads.get(channel, 0.0) + busy
        taken = latency + max(slowest, *loads.values(), 0.0)
        return CollectiveCost("rows", taken, tuple(loads.items()))

    def _cost(self, kind: CollectiveKind, group: tuple[int, ...], size: int) -> CollectiveCost:
        key = (kind, group, size)
        if key not in self._costs:
            nothing = ((),) * len(group)
            step = CollectiveStep(kind, group, size, nothing, nothing, 0)
            self._costs[key] = self.prices.collectives.cost(step)
        return self._costs[key]


def _occupied(cost: CollectiveCost, ready: float, channels: list[float]) -> float:
    """Occupies the channels of a transfer from when they are free; returns when it is done."""
    start = max([ready, *(channels[channel] for channel, _ in cost.loads)])
    for channel, load in cost.loads:
        channels[channel] = start + load
    return start + cost.microseconds
