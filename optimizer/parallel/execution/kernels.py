"""Kernels of several operators in an execution: the values that each reads and writes, and its tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from superopt.ir.graph import Graph, NodeId, Value
from superopt.ir.plan import FusionGroup, Plan
from superopt.optimizer.parallel.tasks import DividedNode, KernelTask, Operand


@dataclass(frozen=True)
class Kernel:
    """The operators of a kernel in order. ``reads`` are the values that it takes from outside, each once for
    every operand, and ``writes`` those that others read."""

    nodes: tuple[NodeId, ...]
    reads: tuple[tuple[NodeId, int], ...]
    writes: tuple[Value, ...]
    operands: tuple[tuple[Operand, ...], ...]

    def task(self, divided: Mapping[NodeId, DividedNode], device: int) -> KernelTask:
        """The task of a device."""
        place = {node: number for number, node in enumerate(self.nodes)}
        return KernelTask(
            tuple(divided[node].task(device) for node in self.nodes),
            self.operands,
            tuple((place[value.node], value.port) for value in self.writes),
        )


@dataclass(frozen=True)
class Kernels:
    """The kernels of a plan: every operator of the graph that is executed is computed in one, and in those of
    which it is a duplicated member."""

    graph: Graph
    plan: Plan
    executed: Mapping[NodeId, DividedNode]
    _owner: dict[NodeId, NodeId] = field(init=False, default_factory=dict[NodeId, NodeId])
    _computing: dict[NodeId, list[FusionGroup]] = field(
        init=False, default_factory=lambda: defaultdict[NodeId, list[FusionGroup]](list)
    )

    def __post_init__(self) -> None:
        for group in self.plan.fusion.values():
            self._owner.update((node, group.head) for node in group.owned)
            for node in group.members:
                self._computing[node].append(group)
        for node in self.executed:
            if self._owner.setdefault(node, node) == node and node not in self.plan.fusion:
                self._computing[node].append(FusionGroup(node, (node,)))

    def is_head(self, node: NodeId) -> bool:
        """Whether a kernel runs in the place of the operator."""
        return self._owner[node] == node

    def times_read(self, producer: NodeId, reader: NodeId) -> int:
        """The number of kernels in which an operator reads what another has computed elsewhere."""
        return sum(producer not in group.members for group in self._computing[reader])

    def of(self, head: NodeId) -> Kernel:
        """The kernel of a head."""
        group = self.plan.fusion.get(head, FusionGroup(head, (head,)))
        nodes = tuple(sorted(group.members, key=self.graph.position.__getitem__))
        place = {node: number for number, node in enumerate(nodes)}
        reads: list[tuple[NodeId, int]] = []
        operands: list[tuple[Operand, ...]] = []
        for node in nodes:
            own: list[Operand] = []
            for slot, value in enumerate(self.graph[node].inputs):
                if value.node in place:
                    own.append((place[value.node], value.port))
                else:
                    own.append((-1 - len(reads), 0))
                    reads.append((node, slot))
            operands.append(tuple(own))
        writes = tuple(
            value
            for node in group.owned
            for value in self.graph[node].values
            if self._is_written(value, group)
        )
        return Kernel(nodes, tuple(reads), writes, tuple(operands))

    def _is_written(self, value: Value, group: FusionGroup) -> bool:
        """Whether a result is read by anything but the members of its own group that are computed there, or
        by a copy of one of them elsewhere; one that nothing reads is written, too."""
        readers = self._readers(value)
        own = set(group.owned)
        made = self.executed[value.node].makes[value.port]
        return (
            len(group.members) == 1
            or not readers
            or value in self.graph.outputs
            or any(
                node not in own
                or self.times_read(value.node, node)
                or self.executed[node].needs[slot] != made
                for node, slot in readers
            )
        )

    def _readers(self, value: Value) -> Sequence[tuple[NodeId, int]]:
        return [
            (node, slot)
            for node in self.graph.users(value.node)
            if node in self.executed
            for slot, operand in enumerate(self.graph[node].inputs)
            if operand == value
        ]
