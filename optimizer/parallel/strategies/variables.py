"""Variables of a training step and devices of a cluster, as strategies name them, and the check of both."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from superopt.errors import InvalidOptionError
from superopt.ir.graph import NodeId
from superopt.ir.types import ElementType
from superopt.optimizer.parallel.boxes import volume
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.strategies.cutting import regions_of_partition
from superopt.optimizer.parallel.strategies.model import (
    Collective,
    Server,
    Strategy,
    VariableSync,
    bare,
)
from superopt.optimizer.parallel.tasks import shape_of, tensor_of
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.parallel.training_plans.row_sums import takes_rows
from superopt.optimizer.parallel.training_plans.sharded_states import ShardedStates
from superopt.optimizer.parallel.training_plans.states import StateTensor
from superopt.optimizer.training.description import Role


@dataclass(frozen=True)
class Variable:
    """A parameter of a step. ``lookups`` are the operations that take rows of it; ``is_sparse``: nothing else
    reads it, so that its gradient concerns some rows only; ``row_bytes`` are those of the rows that one step
    takes."""

    state: StateTensor
    shape: tuple[int, ...]
    element: ElementType
    lookups: tuple[NodeId, ...]
    is_sparse: bool
    row_bytes: int

    @property
    def name(self) -> str:
        """The name of the parameter."""
        return self.state.name

    @property
    def bytes(self) -> int:
        """The size of the parameter."""
        return math.prod(self.shape) * self.element.bytes_per_element

    @property
    def traffic(self) -> int:
        """The bytes that a server of it exchanges with each device: of a sparse one, rows."""
        return self.row_bytes if self.is_sparse else self.bytes

    def part_bytes(self, partition: Sequence[int]) -> list[int]:
        """The sizes of the parts of a partition, which is empty for the whole."""
        if not partition:
            return [self.bytes]
        each = self.element.bytes_per_element
        return [volume(region) * each for region in regions_of_partition(self.shape, partition)]

    def row_parts(self, count: int) -> list[int]:
        """The bytes of the rows that one step takes, by part of the columns, of which there are so many."""
        return [self.row_bytes // count] * count


def variables_of(subject: Subject, sharded: ShardedStates) -> tuple[Variable, ...]:
    """The parameters of the step in its order, scalars included."""
    assert subject.step is not None, "strategies are for training steps"
    readers: dict[NodeId, list[NodeId]] = {}
    for operation in subject.operations:
        for node in dict.fromkeys(value.node for value in subject.graph[operation.node].inputs):
            readers.setdefault(node, []).append(operation.node)
    found: list[Variable] = []
    for state in subject.step.states:
        if state.role is not Role.PARAMETER:
            continue
        reading = [node for node in readers.get(state.input, ()) if node not in sharded.updates]
        lookups = tuple(node for node in reading if takes_rows(subject, node, state.input))
        type_ = tensor_of(subject.graph, subject.graph[state.input].value)
        is_sparse = bool(lookups) and len(lookups) == len(reading)
        rows = sum(
            math.prod(shape_of(tensor_of(subject.graph, subject.graph[node].value))) for node in lookups
        )
        size = min(rows, math.prod(shape_of(type_))) * type_.element.bytes_per_element
        found.append(Variable(state, shape_of(type_), type_.element, lookups, is_sparse, size))
    return tuple(found)


@dataclass(frozen=True)
class DeviceNames:
    """Names of a cluster's devices: ``node2:GPU:1`` is the second device of the third node. The host of a
    node, ``node2:CPU:0``, stands for the node's first device, because the memory and links of hosts are not
    modelled."""

    cluster: Cluster

    @cached_property
    def accelerators(self) -> tuple[str, ...]:
        """The names of all devices, by number."""
        return tuple(
            f"node{number}:GPU:{place}"
            for number, node in enumerate(self.cluster.nodes)
            for place in range(len(node.devices))
        )

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """The names of the hosts."""
        return tuple(f"node{number}:CPU:0" for number in range(len(self.cluster.nodes)))

    @cached_property
    def by_place(self) -> tuple[str, ...]:
        """The names of all devices: the first of each node, the second of each, and so on."""
        numbered = sorted(self.accelerators, key=lambda name: int(name.rpartition(":")[2]))
        return tuple(numbered)

    @property
    def servers(self) -> tuple[str, ...]:
        """The devices that serve as parameter servers by default: the hosts, or the devices of a single
        node."""
        return self.hosts if len(self.hosts) > 1 else self.accelerators

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The device of each name."""
        found = {name: number for number, name in enumerate(self.accelerators)}
        for name, node in zip(self.hosts, self.cluster.nodes, strict=True):
            found[name] = node.devices[0]
        return found


def serves_rows(variable: Variable, config: VariableSync, names: DeviceNames) -> bool:
    """Whether servers look up and sum rows of the variable, so that the table does not travel: it is sparse,
    and whole on one server, or its columns are in equal parts on different ones, without copies."""
    servers = config.synchronizers
    if not variable.is_sparse or not all(
        isinstance(one, Server) and not one.local_replication for one in servers
    ):
        return False
    if not config.is_partitioned:
        return True
    return config.partition[0] == 1 and in_equal_parts(variable, config, names)


def part_traffic(variable: Variable, config: VariableSync, names: DeviceNames) -> list[int]:
    """The bytes of each part that are exchanged: of rows where servers look them up, else its size."""
    if serves_rows(variable, config, names):
        return variable.row_parts(len(config.synchronizers))
    return variable.part_bytes(config.partition)


def in_equal_parts(variable: Variable, config: VariableSync, names: DeviceNames) -> bool:
    """Whether all parts are of one size and on servers of their own, so that operators are divided alike."""
    servers = [names.numbers[one.destination] for one in config.synchronizers if isinstance(one, Server)]
    sizes = zip(variable.shape, config.partition, strict=True)
    return len(set(servers)) == len(config.parts) and all(size % parts == 0 for size, parts in sizes)


@dataclass
class ServerLoads:
    """Bytes by server, to place what follows where there are fewest."""

    servers: Sequence[str]
    bytes: dict[str, float] = field(default_factory=dict[str, float])

    def least(self, size: float, count: int = 1) -> tuple[str, ...]:
        """The servers of so many equal parts of that size together: those with the fewest bytes, each again
        where there are more parts."""
        ordered = sorted(self.servers, key=lambda server: self.bytes.get(server, 0.0))
        found = tuple(ordered[number % len(ordered)] for number in range(count))
        for server in found:
            self.bytes[server] = self.bytes.get(server, 0.0) + size / count
        return found


def fitting(strategy: Strategy, variables: Sequence[Variable], cluster: Cluster) -> Strategy:
    """The strategy with the names that the step gives to variables: TensorFlow's ``w:0`` is ``w`` where the
    step has no ``w:0``. Raises InvalidOptionError, with the first defect, unless it is a strategy for these
    variables on this cluster."""
    known = {variable.name for variable in variables}
    configs = (one if one.name in known else replace(one, name=bare(one.name)) for one in strategy.variables)
    named = replace(strategy, variables=tuple(configs))
    defect = next(_defects(named, variables, cluster), None)
    if defect is not None:
        raise InvalidOptionError(f"strategy: {defect}")
    return named


def _defects(strategy: Strategy, variables: Sequence[Variable], cluster: Cluster) -> Iterator[str]:
    known = {variable.name: variable for variable in variables}
    for name, count in Counter(one.name for one in strategy.variables).items():
        if name not in known:
            yield f"{name!r} is no parameter of the step; its parameters are {_listed(tuple(known))}"
        if count > 1:
            yield f"variable {name!r}: expected one configuration, got {count}"
    for name in known:
        if name not in strategy.by_name:
            yield f"variable {name!r}: expected a configuration, got none"
    yield from _device_defects(strategy, cluster)
    for config in strategy.variables:
        yield from _variable_defects(config, known[config.name])
    yield from _group_defects(strategy, known)


def _device_defects(strategy: Strategy, cluster: Cluster) -> Iterator[str]:
    names = DeviceNames(cluster)
    for name in strategy.devices():
        if name not in names.numbers:
            all_names = _listed((*names.accelerators, *names.hosts))
            yield f"the cluster has no device {name!r}; its devices are {all_names}"
    for name, count in Counter(names.numbers.get(name) for name in strategy.replicas).items():
        if count > 1:
            yield f"replicas: expected each device once, got device {name} {count} times"
    if not strategy.replicas:
        yield "replicas: expected at least one device, got none"


def _variable_defects(config: VariableSync, variable: Variable) -> Iterator[str]:
    which = f"variable {variable.name!r}"
    shape, degrees = variable.shape, config.partition
    if config.synchronizer is not None and config.parts:
        yield f"{which}: expected one synchroniser or parts, got both"
    if not config.synchronizers:
        yield f"{which}: expected a synchroniser or parts, got neither"
    if degrees and len(degrees) != len(shape):
        yield f"{which}: partition: expected {len(shape)} numbers for the shape {shape}, got {degrees}"
    for axis, (parts, size) in enumerate(zip(degrees, shape, strict=False)):
        if not 1 <= parts <= max(1, size):
            yield f"{which}: partition: axis {axis} of size {size}: expected 1 to {size} parts, got {parts}"
    count = math.prod(degrees)
    if len(config.parts) != (count if config.parts or count > 1 else 0):
        yield f"{which}: parts: expected {count} for the partition {degrees}, got {len(config.parts)}"
    for synchronizer in config.synchronizers:
        if isinstance(synchronizer, Server):
            if synchronizer.staleness < 0:
                yield f"{which}: staleness: expected 0 or more steps, got {synchronizer.staleness}"
            if synchronizer.staleness > 0 and not synchronizer.sync:
                yield f"{which}: staleness: expected 0 where sync is false, got {synchronizer.staleness}"
        elif synchronizer.group < 0:
            yield f"{which}: group: expected 0 or more, got {synchronizer.group}"


def _group_defects(strategy: Strategy, known: Mapping[str, Variable]) -> Iterator[str]:
    first: dict[int, tuple[Variable, Collective]] = {}
    for config in strategy.variables:
        variable = known[config.name]
        for own in config.synchronizers:
            if not isinstance(own, Collective):
                continue
            other, its = first.setdefault(own.group, (variable, own))
            both = f"{other.name!r} and {variable.name!r}"
            if other.element != variable.element:
                kinds = f"{other.element.value} and {variable.element.value}"
                yield f"group {own.group}: expected one element type, got {kinds} of {both}"
            if (its.spec, its.compressor) != (own.spec, own.compressor):
                yield f"group {own.group}: expected one spec and compressor, got those of {both}"


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
