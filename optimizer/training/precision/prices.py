"""Time of a graph on a device with nodes in low precision: the peaks of its description, casts that are fused
into their readers, and casts that are kernels of their own."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from superopt.ir.graph import Graph, Node, NodeId, Value
from superopt.ir.types import TensorType
from superopt.ops import Opaque, Operator
from superopt.ops.roles import FusionRole
from superopt.ops.traits import ALIASES, traits
from superopt.optimizer.cost import Sizes
from superopt.optimizer.cost.machine import bytes_of, number_of
from superopt.optimizer.parallel.topology import DeviceKind
from superopt.optimizer.training.precision.casts import Edge, Rounding
from superopt.optimizer.training.precision.sensitivity import fuses_casts, is_float32, is_product

Casts: TypeAlias = Literal["exclusive", "shared"]
"""Whether readers that can fuse a cast have one of their own, or all readers of a value share one."""

_MICRO = 1e6


@dataclass(frozen=True)
class _Work:
    """The work of a node in float32: operations, bytes, and of these the float32 tensors by value, and those
    of its results."""

    flops: int
    moved: int
    operands: Mapping[Value, int]
    results: int
    total: int


class Prices:
    """Microseconds of nodes and casts of a graph on a device, for any set of nodes in low precision.

    A node takes a launch and the larger of the times of its operations and of its bytes, which are half as
    many for tensors in low precision; products run at the device's rate for 16-bit numbers. A cast that its
    reader fuses costs what the reader reads; another one is a kernel that all readers that need it share.
    Views, repeated numbers and constants are free.
    """

    def __init__(self, graph: Graph, sizes: Sizes, kind: DeviceKind, casts: Casts) -> None:
        self._graph = graph
        self._sizes = sizes
        self._kind = kind
        self._casts: Casts = casts
        self._rounding = Rounding(graph)
        self._works: dict[NodeId, _Work | None] = {}

    def total(self, low: Container[NodeId]) -> float:
        """The time of the graph."""
        return self.of(self._graph.nodes, low)

    def of(self, nodes: Iterable[NodeId], low: Container[NodeId]) -> float:
        """The time of nodes, and of casts of their results."""
        return sum(self._node(self._graph[node], low) + self._cast_kernels(node, low) for node in nodes)

    def around(self, node: NodeId) -> frozenset[NodeId]:
        """The nodes whose price depends on the precision of one."""
        graph = self._graph
        operands = {value.node for value in graph[node].inputs}
        siblings = {user for operand in operands for user in graph.users(operand)}
        return frozenset((node, *graph.users(node), *operands, *siblings))

    def exclusive(self, low: Container[NodeId]) -> frozenset[Edge]:
        """The operands of nodes in low precision that are cast within the nodes."""
        if self._casts == "shared":
            return frozenset()
        return frozenset(
            (node.id, value)
            for node in self._graph
            if node.id in low and fuses_casts(node.operator)
            for value in self._rounding.operands(node)
            if value.node not in low and not self._has_kernel(value, low)
        )

    def multiplications(self, nodes: Container[NodeId]) -> float:
        """The share of the operations of products that these nodes have; 0 without any product."""
        works = {node: self._work(self._graph[node]) for node in self._products}
        total = sum(work.flops for work in works.values() if work is not None)
        own = sum(work.flops for node, work in works.items() if work is not None and node in nodes)
        return own / total if total else 0.0

    @cached_property
    def _products(self) -> tuple[NodeId, ...]:
        return tuple(node.id for node in self._graph if is_product(node.operator))

    def _node(self, node: Node, low: Container[NodeId]) -> float:
        work = self._work(node)
        if work is None:
            return 0.0
        is_low = node.id in low
        present = work.results / (2 if is_low else 1)
        for value, size in work.operands.items():
            present += size if self._reads_whole(node, value, low) else size / 2
        others = work.total - work.results - sum(work.operands.values())
        moved = work.moved * (present + others) / work.total if work.total else work.moved
        rate = self._kind.half_flops if is_low else self._kind.flops
        seconds = max(work.flops / rate, moved / self._kind.memory_bandwidth)
        return self._kind.launch + _MICRO * seconds

    def _reads_whole(self, node: Node, value: Value, low: Container[NodeId]) -> bool:
        """Whether a node reads a tensor as float32."""
        if value.node in low:
            return node.id not in low and not self._fuses(node)
        return node.id not in low or (self._fuses(node) and not self._has_kernel(value, low))

    def _cast_kernels(self, node: NodeId, low: Container[NodeId]) -> float:
        """The casts of a node's results that are kernels."""
        return sum(
            self._kind.launch + _MICRO * 1.5 * self._bytes(value) / self._kind.memory_bandwidth
            for value in self._graph[node].values
            if is_float32(self._graph, value) and self._has_kernel(value, low)
        )

    def _has_kernel(self, value: Value, low: Container[NodeId]) -> bool:
        """Whether a value is cast by a kernel: a reader in the other precision cannot fuse that."""
        is_low = value.node in low
        return any(
            (user in low) is not is_low and not self._fuses(self._graph[user]) and self._converts(user, value)
            for user in self._graph.users(value.node)
        )

    def _converts(self, user: NodeId, value: Value) -> bool:
        return value in self._rounding.operands(self._graph[user])

    def _fuses(self, node: Node) -> bool:
        return self._casts == "exclusive" and fuses_casts(node.operator)

    def _work(self, node: Node) -> _Work | None:
        if node.id not in self._works:
            self._works[node.id] = self._measured(node)
        return self._works[node.id]

    def _measured(self, node: Node) -> _Work | None:
        operator, graph = node.operator, self._graph
        if not node.inputs or node.id in graph.weight_only or operator.name in ALIASES:
            return None
        if traits(operator.name).role is FusionRole.TRANSPARENT:
            return None
        types = [type_ for type_ in (graph.type_of(v) for v in node.inputs) if isinstance(type_, TensorType)]
        inputs = tuple(map(self._sizes.type, types))
        outputs = tuple(self._sizes.type(type_) for type_ in node.types if isinstance(type_, TensorType))
        sizes = {v: self._bytes(v) for v in node.inputs if self._converts(node.id, v)}
        results = sum(self._bytes(value) for value in node.values if is_float32(graph, value))
        total = sum(bytes_of(type_) for type_ in (*inputs, *outputs))
        if isinstance(operator, Opaque) or not isinstance(operator, Operator):
            return _Work(sum(number_of(type_.elements) for type_ in outputs), total, sizes, results, total)
        work = self._sizes.operator(operator).work(inputs, outputs)
        return _Work(number_of(work.flops), number_of(work.bytes), sizes, results, total)

    def _bytes(self, value: Value) -> int:
        type_ = self._graph.type_of(value)
        return bytes_of(self._sizes.type(type_)) if isinstance(type_, TensorType) else 0


__all__ = ["Casts", "Prices"]
