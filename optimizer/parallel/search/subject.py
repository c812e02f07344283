"""The planning problem: live nodes, their task dimensions, and the tensors between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from superopt.errors import InvalidModelError
from superopt.ir.graph import Graph, GraphOperator, Input, Node, NodeId
from superopt.ir.types import TensorType, ValueType
from superopt.ops import Operator
from superopt.ops.opaque import Opaque
from superopt.ops.sharded.splits import Splits
from superopt.ops.traits import traits
from superopt.optimizer.cost.machine import bytes_of
from superopt.optimizer.parallel.documents.quantities import size_text
from superopt.optimizer.parallel.search.carried import Carried, Edge
from superopt.optimizer.parallel.tasks import splits_of
from superopt.optimizer.parallel.training_plans.states import StepLayout, StepStates
from superopt.rewriting.concrete import sized_operator
from superopt.traversal import postorder

_MOST_BYTES = 1 << 50
"""Maximum size of a tensor: sums over all devices and tensors are numbers of 63 bits."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A node to be planned. ``weights`` are the slots of constant operands."""

    node: NodeId
    operator: Operator
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    splits: Splits
    weights: tuple[int, ...]

    @property
    def tensor_elements(self) -> int:
        """The number of elements that it reads and makes."""
        sizes = [type_.elements for type_ in (*self.inputs, *self.outputs)]
        return sum(size for size in sizes if isinstance(size, int))


@dataclass(frozen=True, eq=False)
class Subject:
    """A graph to be planned: its operations in topological order and the values between them. Graph inputs
    and weights are available wherever needed, and are not operations. ``step`` are the states of a training
    step."""

    graph: Graph
    operations: tuple[Operation, ...]
    edges: tuple[Edge, ...]
    numbers: Mapping[NodeId, int] = field(repr=False)
    step: StepStates | None = None

    @cached_property
    def carried(self) -> Carried:
        """What is kept from one step to the next, and throughout it."""
        return Carried.of(self.graph, self.numbers, self.step)

    @cached_property
    def incoming(self) -> tuple[tuple[Edge, ...], ...]:
        """For every operation its incoming edges."""
        found: list[list[Edge]] = [[] for _ in self.operations]
        for edge in self.edges:
            found[edge.target].append(edge)
        return tuple(map(tuple, found))

    @cached_property
    def outgoing(self) -> tuple[tuple[Edge, ...], ...]:
        """For every operation its outgoing edges."""
        found: list[list[Edge]] = [[] for _ in self.operations]
        for edge in self.edges:
            found[edge.source].append(edge)
        return tuple(map(tuple, found))

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """For every operation its producers, then its consumers, then those of states in other steps."""
        found = [
            dict.fromkeys((*(e.source for e in before), *(e.target for e in after)))
            for before, after in zip(self.incoming, self.outgoing, strict=True)
        ]
        for edge in self.carried.edges:
            found[edge.source][edge.target] = None
            found[edge.target][edge.source] = None
        return tuple(map(tuple, found))

    @staticmethod
    def of(graph: Graph, layout: StepLayout | None = None) -> Subject:
        """The subject of a graph returned by ``plannable``; ``layout`` is that of a training step. Raises
        InvalidModelError for a value that is no tensor of known rank."""
        operations: list[Operation] = []
        edges: list[Edge] = []
        numbers: dict[NodeId, int] = {}
        free = graph.weight_only
        for node_id in graph.order:
            node = graph[node_id]
            if node_id in free or isinstance(node.operator, Input):
                continue
            assert isinstance(node.operator, Operator)
            numbers[node_id] = len(operations)
            inputs = tuple(_tensor(graph.type_of(value), node) for value in node.inputs)
            outputs = tuple(_tensor(type_, node) for type_ in node.types)
            weights = tuple(slot for slot, value in enumerate(node.inputs) if value.node in free)
            edges.extend(
                Edge(numbers[value.node], value.port, len(operations), slot)
                for slot, value in enumerate(node.inputs)
                if value.node in numbers
            )
            splits = splits_of(graph, node)
            operations.append(Operation(node_id, node.operator, inputs, outputs, splits, weights))
        step = None if layout is None else StepStates.of(graph, layout)
        return Subject(graph, tuple(operations), tuple(_counted(edges, operations)), numbers, step)


def is_lookup(operation: Operation) -> bool:
    """Whether it takes rows of its first operand."""
    own = traits(operation.operator.name)
    moves_rows = own.moves and bool(own.conditions)
    is_kept = isinstance(operation.operator, Opaque) and operation.operator.op_type == "Gather"
    return moves_rows or is_kept


def plannable(graph: Graph, dims: Mapping[str, int] | None = None) -> Graph:
    """The nodes that an output needs, with dynamic dimensions at the sizes given; ids stay.

    What only calculates shapes that are known by now is left out. Raises InvalidModelError for a value whose
    size is not known.
    """
    reached = postorder((v.node for v in graph.outputs), lambda node: (v.node for v in graph[node].inputs))
    needed = {*graph.inputs, *reached}
    nodes = {
        node.id: replace(
            node,
            operator=_sized_operator(node.operator, dims or {}),
            types=tuple(_sized(type_, dims or {}, node) for type_ in node.types),
            after=tuple(other for other in node.after if other in needed),
        )
        for node in graph
        if node.id in needed
    }
    return Graph(nodes, graph.inputs, graph.outputs, graph.next_id)


def _counted(edges: Sequence[Edge], operations: Sequence[Operation]) -> Iterator[Edge]:
    keys = [
        (e.source, e.port, e.slot, operations[e.target].operator, operations[e.target].splits) for e in edges
    ]
    counts = Counter(keys)
    return (replace(edge, alike=counts[key]) for edge, key in zip(edges, keys, strict=True))


def _tensor(type_: ValueType, node: Node) -> TensorType:
    if not isinstance(type_, TensorType):
        name = node.operator.op_type if isinstance(node.operator, Opaque) else node.operator.name
        raise InvalidModelError(
            f"node {node.id} ({name}): a plan for several devices needs tensors of known type, got {type_}"
        )
    return type_


def _sized_operator(operator: GraphOperator, dims: Mapping[str, int]) -> GraphOperator:
    return sized_operator(operator, dims) if isinstance(operator, Operator) else operator


def _sized(type_: ValueType, dims: Mapping[str, int], node: Node) -> ValueType:
    if not isinstance(type_, TensorType):
        return type_
    sized = type_.substitute(dict(dims))
    if sized.symbols:
        unknown = ", ".join(sorted(sized.symbols))
        raise InvalidModelError(
            f"node {node.id} ({node.operator.name}): a plan for several devices needs the size of {unknown}: "
            f"give it with --dim {sorted(sized.symbols)[0]}=SIZE"
        )
    if bytes_of(sized) > _MOST_BYTES:
        raise InvalidModelError(
            f"node {node.id} ({node.operator.name}): a plan for several devices needs tensors of at most "
            f"{size_text(_MOST_BYTES)}, got {sized}"
        )
    return sized
