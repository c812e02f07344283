"""Parse cluster descriptions (YAML or JSON) into ``Cluster``, and load the named presets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from importlib import resources
from pathlib import Path

import yaml

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.optimizer.cost.measuring.measurer import LAUNCH_MICROSECONDS
from superopt.optimizer.cost.profile import read_profile
from superopt.optimizer.cost.roofline import recorded_roofline
from superopt.optimizer.cost.store import MemoryCostStore
from superopt.optimizer.parallel.communication import CollectiveKind
from superopt.optimizer.parallel.documents.document import Field, read_document
from superopt.optimizer.parallel.documents.quantities import Quantity
from superopt.optimizer.parallel.topology import (
    Channel,
    Cluster,
    Connection,
    Device,
    DeviceKind,
    KernelTimes,
    LinearTime,
    Link,
    Node,
    SerialCollectives,
)

MAX_DEVICES = 4096
"""The largest cluster that is accepted."""

MEASURED_KINDS = (
    CollectiveKind.ALL_REDUCE,
    CollectiveKind.ALL_GATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALL_TO_ALL,
)
"""The kinds of collectives whose times a description can give."""

Files = Callable[[str], Path]
"""The path of a cost profile or an estimator by its name in a description."""

_PRESETS = "superopt.optimizer.parallel.presets"
_CLUSTERS = ("summit-node", "dgx-a100", "dgx-h100", "p4d", "4x-t4", "disco-a", "disco-b")
_FIXED = tuple(f"autodist-{name}" for name in ("a1", "a2", *(f"b{number}" for number in range(1, 13))))
_KILO, _PETA = Fraction(1000), Fraction(10**15)
_OPTIONAL = ("half_flops", "launch")
_LAUNCH = 3.0
"""Default microseconds to launch a kernel on an accelerator."""


def cluster_names() -> tuple[str, ...]:
    """Names of the cluster presets: one node of a real machine each, or the cluster of a paper."""
    return _CLUSTERS


def fixed_cluster_names() -> tuple[str, ...]:
    """Names of the clusters with a given number of nodes: those of AutoDist's table 1."""
    return _FIXED


def named_cluster(name: str) -> Cluster:
    """A cluster of preset nodes; ``dgx-h100:24`` has 24 of them. Raises InvalidOptionError."""
    if name in _FIXED:
        return parse_cluster(named_description(name), name)
    base, colon, count = name.partition(":")
    if base not in _CLUSTERS:
        raise InvalidOptionError(
            f"cluster: expected a file, one of {', '.join(_CLUSTERS)} with a number of nodes as in "
            f"dgx-h100:4, or {_FIXED[0]} to {_FIXED[-1]}, got {name!r}"
        )
    _, (kind,), collectives = _read(_preset(base), f"{base}.yaml", None)
    nodes, most = kind.count, MAX_DEVICES // kind.devices
    if colon:
        nodes = int(count) if count.isdecimal() and len(count) <= 4 else 0
    if not 1 <= nodes <= most:
        raise InvalidOptionError(f"cluster: expected 1 to {most} nodes of {base}, got {count or nodes}")
    own = base if nodes == kind.count else f"{base}:{nodes}"
    return _assembled(own, [replace(kind, count=nodes)], collectives)


def named_description(name: str) -> str:
    """The description of a preset. Raises InvalidOptionError."""
    if name in _FIXED:
        (found,) = (one for one in yaml.safe_load(_preset("autodist")) if one["name"] == name)
        return yaml.safe_dump(found, sort_keys=False)
    nodes = len(named_cluster(name).nodes)
    description = yaml.safe_load(_preset(name.partition(":")[0]))
    description["nodes"][0]["count"] = nodes
    return yaml.safe_dump({**description, "name": name}, sort_keys=False)


def load_cluster(path: Path) -> Cluster:
    """Loads a cluster from a file; its cost profiles and estimators are in the same directory. Raises
    InvalidFileError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFileError(f"{path}: cannot be read as a cluster description: {error}") from None
    return parse_cluster(text, str(path), lambda name: path.parent / name)


def parse_cluster(text: str, where: str, files: Files | None = None) -> Cluster:
    """Parses a cluster description; ``where`` names the text in errors. Devices may have files only if
    ``files`` finds them. Raises InvalidFileError: one sentence with line, column, field, expected and actual
    value."""
    return _assembled(*_read(text, where, files))


@dataclass(frozen=True, slots=True)
class _NodeKind:
    """An entry under ``nodes``."""

    count: int
    devices: int
    device: DeviceKind
    memory_bytes: int
    link: Connection | None
    network: Connection | None
    sockets: int
    bridge: Connection | None


def _read(
    text: str, where: str, files: Files | None
) -> tuple[str, list[_NodeKind], SerialCollectives | None]:
    root = read_document(text, where)
    fields = root.fields(
        "a cluster description with the field nodes", ("nodes",), ("name", "network", "collectives")
    )
    name = fields["name"].text("a name") if "name" in fields else "cluster"
    network = _connection(fields["network"]) if "network" in fields else None
    entries = fields["nodes"].items("a list of at least one kind of node")
    kinds = [_node_kind(entry, network, files) for entry in entries]
    total = sum(kind.count * kind.devices for kind in kinds)
    if total > MAX_DEVICES:
        fields["nodes"].fail_with(f"expected at most {MAX_DEVICES} devices in all, got {total}")
    nodes = sum(kind.count for kind in kinds)
    for entry, kind in zip(entries, kinds, strict=True):
        if nodes > 1 and kind.network is None:
            entry.fail_with(f"expected the field network, here or for the whole cluster, for {nodes} nodes")
    return name, kinds, _collectives(fields["collectives"]) if "collectives" in fields else None


def _collectives(entry: Field) -> SerialCollectives:
    """How collectives share channels: one at a time, with the times given, if any."""
    if not entry.is_fields:
        if entry.text("serial, or the fields bandwidth and latency") != "serial":
            entry.fail("expected serial, or the fields bandwidth and latency")
        return SerialCollectives()
    if not set(entry.keys) & set(MEASURED_KINDS):
        return SerialCollectives(((CollectiveKind.ALL_REDUCE, _linear_time(entry)),))
    fields = entry.fields("measured collectives", (), map(str, MEASURED_KINDS))
    return SerialCollectives(
        tuple((CollectiveKind(name), _linear_time(field)) for name, field in fields.items())
    )


def _linear_time(entry: Field) -> LinearTime:
    fields = entry.fields("a measured collective", ("bandwidth", "latency"), ())
    return LinearTime(1e6 / _bandwidth(fields["bandwidth"]), _time(fields["latency"]))


def _node_kind(entry: Field, network: Connection | None, files: Files | None) -> _NodeKind:
    fields = entry.fields(
        "a kind of node with the field device",
        ("device",),
        ("count", "devices", "memory", "link", "network", "sockets", "bridge"),
    )
    devices = fields["devices"].count(MAX_DEVICES) if "devices" in fields else 1
    sockets = fields["sockets"].count(devices) if "sockets" in fields else 1
    if devices % sockets:
        fields["sockets"].fail(f"expected a divisor of {devices} devices")
    for needed, field, what in (("link", devices, "devices"), ("bridge", sockets, "sockets")):
        if field > 1 and needed not in fields:
            entry.fail_with(f"expected the field {needed} between {field} {what}, got {', '.join(fields)}")
    device, own_memory = _device(fields["device"], files)
    memory = _memory(fields["memory"]) if "memory" in fields else own_memory
    if memory is None:
        entry.fail_with(f"expected the field memory, got {', '.join(fields)}")
    return _NodeKind(
        fields["count"].count(MAX_DEVICES) if "count" in fields else 1,
        devices,
        device,
        memory,
        _connection(fields["link"]) if "link" in fields else None,
        _connection(fields["network"]) if "network" in fields else network,
        sockets,
        _connection(fields["bridge"]) if "bridge" in fields else None,
    )


def _memory(entry: Field) -> int:
    limits = "from 1 MiB to 1 PB"
    return int(entry.quantity(Quantity.SIZE, Fraction(2**20), _PETA, limits))


def _connection(entry: Field) -> Connection:
    fields = entry.fields("a connection with the field bandwidth", ("bandwidth",), ("latency", "flow"))
    bandwidth = fields["bandwidth"]
    if bandwidth.is_fields:
        both = bandwidth.fields("a bandwidth", ("up", "down"), ())
        up, down = _bandwidth(both["up"]), _bandwidth(both["down"])
    else:
        up = down = _bandwidth(bandwidth)
    flow = _bandwidth(fields["flow"]) if "flow" in fields else None
    return Connection(up, down, _time(fields["latency"]) if "latency" in fields else 0.0, flow)


def _bandwidth(entry: Field) -> float:
    return float(entry.quantity(Quantity.BANDWIDTH, _KILO, _PETA, "from 1 kB/s to 1 PB/s"))


def _time(entry: Field) -> float:
    return float(entry.quantity(Quantity.TIME, Fraction(0), Fraction(10**7), "of at most 10 s"))


def _operations(entry: Field) -> float:
    limits = "from 1 MFLOP/s to 1000 PFLOP/s"
    return float(entry.quantity(Quantity.OPERATIONS, Fraction(10**6), 1000 * _PETA, limits))


def _device(entry: Field, files: Files | None) -> tuple[DeviceKind, int | None]:
    """The device, and its memory if known."""
    if entry.is_fields:
        fields = entry.fields("a device", ("flops", "memory_bandwidth"), ("name", *_OPTIONAL, "estimator"))
        kind = _device_kind(fields)
        if "estimator" in fields:
            kind = replace(kind, estimator=_estimator(fields["estimator"], files))
        return kind, None
    known = _device_presets()
    expected = f"one of {', '.join(known)}, a cost profile *.jsonl, or fields flops and memory_bandwidth"
    name = entry.text(expected, longest=1000)
    if name in known:
        return known[name]
    if not name.endswith(".jsonl"):
        entry.fail(f"expected {expected}")
    if files is None:
        entry.fail("expected a device that needs no file, since none is read here")
    try:
        profile = read_profile(files(name))
        peaks = recorded_roofline(MemoryCostStore(profile.costs()), profile.prefix)
    except InvalidFileError as error:
        entry.fail_with(f"expected a cost profile: {error}")
    if peaks is None:
        entry.fail("expected a cost profile with the peaks of its device")
    flops, moved = peaks.flops * 1e6, peaks.bytes * 1e6
    return DeviceKind(profile.name, flops, flops, moved, LAUNCH_MICROSECONDS, profile), None


def _estimator(entry: Field, files: Files | None) -> KernelTimes:
    from superopt.optimizer.fusion.learned.estimator import (  # most clusters have none, and it imports much
        estimator_names,
        named_estimator,
        read_estimator,
    )

    shipped = estimator_names()
    expected = f"one of {', '.join(shipped)}, or an estimator's file *.json"
    name = entry.text(expected, longest=1000)
    if name in shipped:
        return named_estimator(name)
    if not name.endswith(".json"):
        entry.fail(f"expected {expected}")
    if files is None:
        entry.fail("expected an estimator that needs no file, since none is read here")
    try:
        return read_estimator(files(name))
    except InvalidFileError as error:
        entry.fail_with(f"expected an estimator: {error}")


def _device_kind(fields: Mapping[str, Field]) -> DeviceKind:
    flops = _operations(fields["flops"])
    return DeviceKind(
        fields["name"].text("a name") if "name" in fields else "device",
        flops,
        _operations(fields["half_flops"]) if "half_flops" in fields else flops,
        _bandwidth(fields["memory_bandwidth"]),
        _time(fields["launch"]) if "launch" in fields else _LAUNCH,
    )


def known_device(name: str) -> DeviceKind:
    """The known device of that name; raises InvalidOptionError, which lists them."""
    known = _device_presets()
    if name not in known:
        raise InvalidOptionError(f"device: expected one of {', '.join(known)}, got {name!r}")
    return known[name][0]


@cache
def _device_presets() -> Mapping[str, tuple[DeviceKind, int]]:
    required = ("name", "flops", "memory_bandwidth", "memory", "source")
    presets = (
        entry.fields("a device", required, _OPTIONAL)
        for entry in read_document(_preset("devices"), "devices.yaml").items("devices")
    )
    return {
        fields["name"].text("a name"): (_device_kind(fields), _memory(fields["memory"])) for fields in presets
    }


def _preset(name: str) -> str:
    return resources.files(_PRESETS).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def _assembled(name: str, kinds: list[_NodeKind], collectives: SerialCollectives | None) -> Cluster:
    devices: list[Device] = []
    nodes: list[Node] = []
    for kind in kinds:
        each = kind.devices // kind.sockets
        for _ in range(kind.count):
            first = len(devices)
            devices.extend(
                Device(first + number, len(nodes), number // each, kind.device, kind.memory_bytes)
                for number in range(kind.devices)
            )
            numbers = tuple(range(first, len(devices)))
            nodes.append(Node(numbers, kind.link, kind.network, kind.sockets, kind.bridge))
    return Cluster(name, tuple(devices), tuple(nodes), collectives)


__all__ = [
    "MAX_DEVICES",
    "MEASURED_KINDS",
    "Channel",
    "Cluster",
    "Connection",
    "Device",
    "DeviceKind",
    "Files",
    "Link",
    "Node",
    "cluster_names",
    "fixed_cluster_names",
    "known_device",
    "load_cluster",
    "named_cluster",
    "named_description",
    "parse_cluster",
]
