"""Cluster topology: devices, the nodes that contain them, and the channels that connect them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from superopt.optimizer.cost.profile import CostProfile
from superopt.optimizer.parallel.communication import CollectiveKind
from superopt.optimizer.parallel.tasks import KernelTask


class KernelTimes(Protocol):
    """Times of kernels of one device."""

    def microseconds(self, kernel: KernelTask) -> float:
        """The time of a kernel."""
        ...


@dataclass(frozen=True)
class DeviceKind:
    """Performance of a device: operations per second on 32-bit numbers (``flops``) and on 16-bit numbers
    (``half_flops``), bytes per second from its memory, and microseconds to launch a kernel. ``profile``: its
    recorded costs, if known. ``estimator``: learned times of its kernels, if wanted."""

    name: str
    flops: float
    half_flops: float
    memory_bandwidth: float
    launch: float
    profile: CostProfile | None = field(default=None, compare=False)
    estimator: KernelTimes | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Device:
    """One device; numbers count from 0 through the cluster, node by node."""

    number: int
    node: int
    socket: int
    kind: DeviceKind
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Link:
    """Link between two devices: bytes per second, and microseconds until the first byte arrives."""

    bandwidth: float
    latency: float


@dataclass(frozen=True, slots=True)
class Channel:
    """One direction of a connection, shared by all transfers through it: bytes per second."""

    name: str
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Connection:
    """Both directions of a connection, in bytes per second, and microseconds of latency; ``flow``: the most
    bytes per second of a single transfer, where that is less."""

    up: float
    down: float
    latency: float
    flow: float | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A machine: its devices, in ``sockets`` equal groups; the ``link`` of each device to the others, the
    ``bridge`` of each socket to the others, the connection of the machine to the network."""

    devices: tuple[int, ...]
    link: Connection | None
    network: Connection | None
    sockets: int = 1
    bridge: Connection | None = None


@dataclass(frozen=True, slots=True)
class SerialCollectives:
    """Collectives that run one at a time, each of which occupies its channels from its start to its end.
    ``measured`` are the times of kinds where those of all devices were fitted; others follow from links."""

    measured: tuple[tuple[CollectiveKind, LinearTime], ...] = ()

    def time(self, kind: CollectiveKind) -> LinearTime | None:
        """The fitted time of a kind; None where there is none."""
        return next((time for one, time in self.measured if one is kind), None)


@dataclass(frozen=True, slots=True)
class LinearTime:
    """Microseconds of a collective of x bytes: ``per_byte`` x + ``fixed`` (DisCo, section 4.2). The bytes
    are those of the whole tensor, of an all-to-all those that are sent by any device."""

    per_byte: float
    fixed: float


@dataclass(frozen=True)
class Cluster:
    """Devices in nodes. All devices of a node, and all nodes, are connected through non-blocking switches:
    only the connections to these are shared. ``collectives`` are None where several of them share a channel
    in turn, the latency of one overlapping with the transfer of another."""

    name: str
    devices: tuple[Device, ...]
    nodes: tuple[Node, ...]
    collectives: SerialCollectives | None = None

    def __len__(self) -> int:
        return len(self.devices)

    @property
    def first(self) -> Cluster:
        """The first device by itself."""
        device, node = self.devices[0], self.nodes[0]
        alone = Node((device.number,), node.link, node.network, 1, node.bridge)
        return Cluster(f"{self.name}, one device", (replace(device, socket=0),), (alone,))

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """All channels, by number: up and down of every device, of every socket, of every node."""
        found: list[Channel] = []
        for device in self.devices:
            found.extend(_pair(f"device {device.number}", self.nodes[device.node].link))
        for number, node in enumerate(self.nodes):
            for socket in range(node.sockets):
                found.extend(_pair(f"node {number} socket {socket}", node.bridge))
        for number, node in enumerate(self.nodes):
            found.extend(_pair(f"node {number}", node.network))
        return tuple(found)

    @cached_property
    def _first_bridges(self) -> tuple[int, ...]:
        starts: list[int] = []
        start = 2 * len(self.devices)
        for node in self.nodes:
            starts.append(start)
            start += 2 * node.sockets
        return (*starts, start)

    def path(self, source: int, target: int) -> tuple[int, ...]:
        """The numbers of the channels from one device to another."""
        a, b = self.devices[source], self.devices[target]
        if a.node != b.node:
            first = self._first_bridges[-1]
            return (first + 2 * a.node, first + 2 * b.node + 1)
        ports = (2 * source, 2 * target + 1)
        if a.socket == b.socket:
            return ports
        first = self._first_bridges[a.node]
        return (ports[0], first + 2 * a.socket, first + 2 * b.socket + 1, ports[1])

    def link(self, source: int, target: int) -> Link:
        """Performance of a transfer without contention."""
        bandwidth = min(self.channels[channel].bandwidth for channel in self.path(source, target))
        return Link(min(bandwidth, self.flow(source, target)), self.latency(source, target))

    def flow(self, source: int, target: int) -> float:
        """The most bytes per second of a single transfer; infinite where only channels limit it."""
        a, b = self.devices[source].node, self.devices[target].node
        networks = (self.nodes[a].network, self.nodes[b].network) if a != b else ()
        return min((_flow(network) for network in networks), default=math.inf)

    def latency(self, source: int, target: int) -> float:
        """Microseconds of latency between two devices."""
        a, b = self.devices[source], self.devices[target]
        if a.node != b.node:
            return max(_latency(self.nodes[a.node].network), _latency(self.nodes[b.node].network))
        node = self.nodes[a.node]
        return _latency(node.link if a.socket == b.socket else node.bridge)

    @cached_property
    def by_kind(self) -> Mapping[tuple[DeviceKind, int], tuple[int, ...]]:
        """The devices by kind and memory size."""
        found: dict[tuple[DeviceKind, int], list[int]] = {}
        for device in self.devices:
            found.setdefault((device.kind, device.memory_bytes), []).append(device.number)
        return {key: tuple(numbers) for key, numbers in found.items()}

    @property
    def is_uniform(self) -> bool:
        """Whether all devices are equal."""
        return len(self.by_kind) == 1


def limited(cluster: Cluster, memory_bytes: int) -> Cluster:
    """The cluster with at most this much memory on each device."""
    devices = (replace(d, memory_bytes=min(d.memory_bytes, memory_bytes)) for d in cluster.devices)
    return replace(cluster, devices=tuple(devices))


def _pair(name: str, connection: Connection | None) -> tuple[Channel, Channel]:
    up, down = (connection.up, connection.down) if connection else (0.0, 0.0)
    return Channel(f"{name} up", up), Channel(f"{name} down", down)


def _flow(connection: Connection | None) -> float:
    return math.inf if connection is None or connection.flow is None else connection.flow


def _latency(connection: Connection | None) -> float:
    return connection.latency if connection else 0.0
