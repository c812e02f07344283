"""Graphs of tensor operators: immutable values that share nodes, and an editor to derive new graphs.

A node has an id that survives rewrites around it. Graphs are not hash-consed: two equal nodes remain
distinct. Graph inputs and weights are nodes without inputs.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, NamedTuple, NewType, Protocol, runtime_checkable

from superopt.errors import UnsupportedError
from superopt.ir.types import TensorType, ValueType

NodeId = NewType("NodeId", int)


@runtime_checkable
class GraphOperator(Protocol):
    """Interface of operators in a graph; the registry in ``superopt.ops`` provides the implementations."""

    name: ClassVar[str]

    def infer(self, *types: ValueType) -> tuple[ValueType, ...]:
        """Output types for input types; raises IllTypedError."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Input:
    """A graph input, by its ONNX name."""

    name: ClassVar[str] = "input"
    label: str
    type: ValueType

    def infer(self, *types: ValueType) -> tuple[ValueType, ...]:
        """The declared type."""
        return (self.type,)


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor whose content is known before the model runs; the content is stored outside the graph.
    ``number`` is what all its elements equal, where that is known."""

    name: ClassVar[str] = "weight"
    label: str
    type: TensorType
    number: Fraction | int | None = None

    def infer(self, *types: ValueType) -> tuple[ValueType, ...]:
        """The type of the stored tensor."""
        return (self.type,)


class Value(NamedTuple):
    """One output of a node."""

    node: NodeId
    port: int = 0


@dataclass(frozen=True)
class Node:
    """An operator applied to values. ``origin`` is the ONNX node it came from, None for one created by
    rewriting. ``after`` are ordering edges: nodes that must run earlier although no value flows from them."""

    id: NodeId
    operator: GraphOperator
    inputs: tuple[Value, ...]
    types: tuple[ValueType, ...]
    origin: int | None = None
    after: tuple[NodeId, ...] = ()

    @property
    def value(self) -> Value:
        """The first output."""
        return Value(self.id, 0)

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """All outputs."""
        return tuple(Value(self.id, port) for port in range(len(self.types)))

    @cached_property
    def digest(self) -> bytes:
        """A hash of the operator and the types, without the inputs."""
        return hashlib.blake2b(repr((self.operator, self.types)).encode(), digest_size=16).digest()


class CyclicGraphError(UnsupportedError):
    """A cyclic dependency: of a value of a graph, or of an ONNX node to be written."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A computation: nodes by id, the ids of its inputs, the values it returns. Its indices (users, nodes by
    operator) are built on demand, and derived from those of the graph that it was edited from, so that an
    edit costs only what it touches. ``nodes`` must not be changed after construction: derive a new graph with
    ``edit``."""

    nodes: Mapping[NodeId, Node]
    inputs: tuple[NodeId, ...]
    outputs: tuple[Value, ...]
    next_id: int

    @staticmethod
    def empty() -> Graph:
        """A graph without nodes, to be filled through ``edit``."""
        return Graph({}, (), (), 0)

    def __getitem__(self, node: NodeId) -> Node:
        return self.nodes[node]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    def type_of(self, value: Value) -> ValueType:
        """The type of a value."""
        return self.nodes[value.node].types[value.port]

    @cached_property
    def _users(self) -> dict[NodeId, tuple[NodeId, ...]]:
        users: dict[NodeId, list[NodeId]] = {}
        for node in self.nodes.values():
            for source in dict.fromkeys(value.node for value in node.inputs):
                users.setdefault(source, []).append(node.id)
        return {source: tuple(sorted(ids)) for source, ids in users.items()}

    def users(self, node: NodeId) -> tuple[NodeId, ...]:
        """The distinct nodes that read any output of the node."""
        return self._users.get(node, ())

    @cached_property
    def _by_operator(self) -> dict[str, tuple[NodeId, ...]]:
        names: dict[str, list[NodeId]] = {}
        for node in self.nodes.values():
            names.setdefault(node.operator.name, []).append(node.id)
        return {name: tuple(sorted(ids)) for name, ids in names.items()}

    def with_operator(self, name: str) -> tuple[NodeId, ...]:
        """The nodes whose operator has that name, by id."""
        return self._by_operator.get(name, ())

    @cached_property
    def awaited(self) -> frozenset[NodeId]:
        """Nodes that must run before another node that reads none of their values."""
        return frozenset(source for node in self.nodes.values() for source in node.after)

    @cached_property
    def position(self) -> Mapping[NodeId, int]:
        """The index of every node in ``order``."""
        return {node: index for index, node in enumerate(self.order)}

    @cached_property
    def output_nodes(self) -> frozenset[NodeId]:
        """Nodes with an output that is a graph output."""
        return frozenset(value.node for value in self.outputs)

    def is_used_once(self, value: Value) -> bool:
        """Whether exactly one input slot of one node reads the value and it is not a graph output."""
        if value in self.outputs:
            return False
        slots = sum(self.nodes[user].inputs.count(value) for user in self.users(value.node))
        return slots == 1

    @cached_property
    def order(self) -> tuple[NodeId, ...]:
        """Node ids in topological order; ties by id. Raises CyclicGraphError."""
        waiting: dict[NodeId, int] = {}
        followers: dict[NodeId, list[NodeId]] = {}
        for node in self.nodes.values():
            sources = {value.node for value in node.inputs}.union(node.after)
            waiting[node.id] = len(sources)
            for source in sources:
                followers.setdefault(source, []).append(node.id)
        ready = [node for node, count in waiting.items() if not count]
        heapq.heapify(ready)
        order: list[NodeId] = []
        while ready:
            node = heapq.heappop(ready)
            order.append(node)
            for follower in followers.get(node, ()):
                waiting[follower] -= 1
                if not waiting[follower]:
                    heapq.heappush(ready, follower)
        if len(order) != len(self.nodes):
            raise CyclicGraphError(f"{len(self.nodes) - len(order)} nodes depend on themselves")
        return tuple(order)

    @cached_property
    def weight_only(self) -> frozenset[NodeId]:
        """Nodes whose outputs depend only on weights, including weights: they are folded when lowering."""
        known: set[NodeId] = set()
        for node_id in self.order:
            node = self.nodes[node_id]
            if isinstance(node.operator, Input) or not getattr(node.operator, "foldable", True):
                continue
            if all(value.node in known for value in node.inputs):
                known.add(node_id)
        return frozenset(known)

    @cached_property
    def signature(self) -> str:
        """A hash of the computation up to node ids: graphs with the same text share it."""
        digests: dict[NodeId, bytes] = {}
        for node_id in self.order:
            node = self.nodes[node_id]
            parts = [node.digest]
            for source, port in node.inputs:
                parts += (digests[source], port.to_bytes(4, "big"))
            if node.after:
                parts += (b"after", *sorted(digests[source] for source in node.after))
            digests[node_id] = hashlib.blake2b(b"".join(parts), digest_size=16).digest()
        ends = b"".join(digests[node] + port.to_bytes(4, "big") for node, port in self.outputs)
        everything = b"".join(sorted(digests.values()))
        return hashlib.blake2b(ends + everything, digest_size=16).hexdigest()

    def edit(self) -> GraphEditor:
        """An editor that starts from this graph without changing it."""
        return GraphEditor(self)


class GraphEditor:
    """Collects changes to a graph; ``build`` returns a new graph."""

    def __init__(self, graph: Graph) -> None:
        self._start(graph)

    def _start(self, graph: Graph) -> None:
        self._base = graph
        self._nodes = graph.nodes
        self._own: dict[NodeId, Node] | None = None
        self._inputs = graph.inputs
        self._outputs = graph.outputs
        self._next_id = graph.next_id
        self._changed: set[NodeId] = set()

    @property
    def _table(self) -> dict[NodeId, Node]:
        """The nodes, copied on the first change."""
        if self._own is None:
            self._nodes = self._own = dict(self._base.nodes)
        return self._own

    def __getitem__(self, node: NodeId) -> Node:
        return self._nodes[node]

    def __contains__(self, node: NodeId) -> bool:
        return node in self._nodes

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The graph outputs."""
        return self._outputs

    def type_of(self, value: Value) -> ValueType:
        """The type of a value."""
        return self._nodes[value.node].types[value.port]

    def add(
        self,
        operator: GraphOperator,
        inputs: Iterable[Value] = (),
        *,
        origin: int | None = None,
        types: tuple[ValueType, ...] | None = None,
        after: tuple[NodeId, ...] = (),
    ) -> Node:
        """Adds a node, inferring its types unless they are given; raises IllTypedError."""
        values = tuple(inputs)
        if types is None:
            types = operator.infer(*(self.type_of(value) for value in values))
        node = Node(NodeId(self._next_id), operator, values, types, origin, after)
        self._next_id += 1
        self._table[node.id] = node
        self._changed.add(node.id)
        if isinstance(operator, Input):
            self._inputs = (*self._inputs, node.id)
        return node

    def set_outputs(self, outputs: Iterable[Value]) -> None:
        """Sets the graph outputs."""
        self._outputs = tuple(outputs)

    def set_inputs_of(self, node: NodeId, inputs: tuple[Value, ...]) -> None:
        """Rewires one node; its output types are assumed to be unchanged."""
        self._table[node] = replace(self._nodes[node], inputs=inputs)
        self._changed.add(node)

    def replace(self, node: Node) -> None:
        """Puts a node in place of the one with its id; it is assumed to have the same output types."""
        self._table[node.id] = node
        self._changed.add(node.id)

    def redirect(self, replacements: Mapping[Value, Value], users: Iterable[NodeId]) -> None:
        """Makes ``users`` and the graph outputs read the replacement instead of the replaced values."""
        for user in users:
            node = self._nodes.get(user)
            if node is None:
                continue
            inputs = tuple(replacements.get(value, value) for value in node.inputs)
            if inputs != node.inputs:
                self._table[user] = replace(node, inputs=inputs)
                self._changed.add(user)
        self._outputs = tuple(replacements.get(value, value) for value in self._outputs)

    def remove(self, nodes: Iterable[NodeId]) -> None:
        """Removes nodes; the caller ensures that nothing reads them."""
        for node in nodes:
            del self._table[node]
            self._changed.add(node)

    def build(self) -> Graph:
        """The edited graph; its indices are derived from those of the original."""
        graph = Graph(self._nodes, self._inputs, self._outputs, self._next_id)
        known = self._base.__dict__
        if "_users" in known:
            graph.__dict__["_users"] = self._patched_users(known["_users"])
        if "_by_operator" in known:
            graph.__dict__["_by_operator"] = self._patched_names(known["_by_operator"])
        if "awaited" in known and not self._changes_awaited():
            graph.__dict__["awaited"] = known["awaited"]
        self._start(graph)
        return graph

    def _patched_users(self, known: Mapping[NodeId, tuple[NodeId, ...]]) -> dict[NodeId, tuple[NodeId, ...]]:
        users = dict(known)
        for node in self._changed:
            before, after = self._base.nodes.get(node), self._nodes.get(node)
            old = {value.node for value in before.inputs} if before else set[NodeId]()
            new = {value.node for value in after.inputs} if after else set[NodeId]()
            for source in old ^ new:
                others = [user for user in users.get(source, ()) if user != node]
                users[source] = tuple(sorted([*others, node] if source in new else others))
        return users

    def _patched_names(self, known: Mapping[str, tuple[NodeId, ...]]) -> dict[str, tuple[NodeId, ...]]:
        names = dict(known)
        for node in self._changed:
            before, after = self._base.nodes.get(node), self._nodes.get(node)
            if before is not None and after is None:
                name = before.operator.name
                names[name] = tuple(other for other in names[name] if other != node)
            elif before is None and after is not None:
                name = after.operator.name
                names[name] = tuple(sorted((*names.get(name, ()), node)))
        return names

    def _changes_awaited(self) -> bool:
        return any(
            node is not None and node.after
            for changed in self._changed
            for node in (self._base.nodes.get(changed), self._nodes.get(changed))
        )
