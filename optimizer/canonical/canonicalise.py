"""Canonicalisation pass: removes no-op and redundant nodes in one topological traversal.

Each step replaces a value by another of the same type that is equal element by element, in floating point
too; only ONNX nodes that are written as the operators that they are made of may round differently. The pass
is deterministic, node ids included, so that a recorded trace can be replayed on its result.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from superopt.ir.graph import Graph, Node, NodeId, Value
from superopt.onnx_io import LiftedModel
from superopt.ops import Opaque, Operator
from superopt.ops.roles import FusionRole, Product
from superopt.ops.traits import traits
from superopt.optimizer.canonical.redundancy import same_value, simpler_operator
from superopt.optimizer.canonical.rows import on_rows
from superopt.optimizer.canonical.transposed import MovedTransposes
from superopt.traversal import postorder

_IN_PARTS = "{} as the operators that it is made of"
_SPELLINGS = {"Transpose": "{} as two that move one axis each"}
"""What is said of nodes that are written in another way."""


@dataclass(frozen=True, slots=True)
class CanonicalStep:
    """A step at a node; ``fold`` means that a value is computed before the run."""

    kind: Literal["canonicalise", "fold"]
    what: str
    site: tuple[NodeId, ...]


@dataclass(frozen=True)
class Canonical:
    """The canonical graph, or the lifted one itself if no step was needed."""

    graph: Graph
    steps: tuple[CanonicalStep, ...]


def canonicalise(lifted: LiftedModel, protected: Container[NodeId] = ()) -> Canonical:
    """The graph without redundant nodes. ``protected`` nodes are kept. Graph inputs, outputs and opaque nodes
    stay. Sizes computed during lifting count as one step; what was rewritten before lifting, such as bodies,
    comes first."""
    steps = [CanonicalStep("canonicalise", what, ()) for what in lifted.source.prepared]
    folded = lifted.source.folded
    if folded:
        what = "1 node that computes sizes" if folded == 1 else f"{folded} nodes that compute sizes"
        steps.append(CanonicalStep("fold", what, ()))
    work = _Pass(lifted, protected)
    steps.extend(work.run())
    if not steps:
        return Canonical(lifted.graph, ())
    return Canonical(work.result(), tuple(steps))


class _Pass:
    def __init__(self, lifted: LiftedModel, protected: Container[NodeId]) -> None:
        self._lifted = lifted
        self._source = lifted.source
        self._graph = graph = lifted.graph
        self._protected = protected
        self._editor = graph.edit()
        self._replaced: dict[Value, Value] = {}
        self._seen: dict[tuple[object, ...], NodeId] = {}
        self._rewritten: set[NodeId] = set()
        self._moved = MovedTransposes(graph, self._editor, protected)
        self._row_ends = {
            node
            for group in lifted.groups.values()
            if group.respelled and not any(member in protected for member in group.nodes)
            for node in group.nodes
            if traits(graph[node].operator.name).renames
        }

    def run(self) -> Iterator[CanonicalStep]:
        for node_id in self._graph.order:
            node = self._rewired(self._graph[node_id])
            step = self._moved.step(self._graph[node_id], node, self._replaced)
            if step is not None:
                yield CanonicalStep("canonicalise", step, (node_id,))
                continue
            if node_id in self._protected or not _is_understood(node) or node.after:
                continue
            step = self._removed(node) or self._simplified(node) or self._merged(node)
            step = step or self._moved_to_rows(node)
            if step is not None:
                yield CanonicalStep("canonicalise", step, (node_id,))
        self._editor.set_outputs(self._replaced.get(value, value) for value in self._graph.outputs)
        for node_id in self._spelled_anew():
            yield CanonicalStep("canonicalise", "a number without axes", (node_id,))
        for node_id in self._repeated_by_readers():
            yield CanonicalStep("canonicalise", "its readers repeat it by themselves", (node_id,))
        for what, nodes in self._respelled():
            yield CanonicalStep("canonicalise", _SPELLINGS.get(what, _IN_PARTS).format(what), nodes)
        dead = self._dead()
        self._editor.remove(dead)
        unread = [node for node in dead if node in self._graph.nodes and self._was_dead(node)]
        if unread:
            yield CanonicalStep("canonicalise", "nothing reads it", tuple(unread))

    def result(self) -> Graph:
        """The edited graph; nodes in ``_rewritten`` no longer stand for the ONNX node that they came from."""
        graph = self._editor.build()
        nodes = dict(graph.nodes)
        for node_id in self._rewritten.intersection(nodes):
            nodes[node_id] = replace(nodes[node_id], origin=None)
        return Graph(nodes, graph.inputs, graph.outputs, graph.next_id)

    def _rewired(self, node: Node) -> Node:
        inputs = tuple(self._replaced.get(value, value) for value in node.inputs)
        if inputs != node.inputs:
            self._editor.set_inputs_of(node.id, inputs)
        return self._editor[node.id]

    def _removed(self, node: Node) -> str | None:
        found = same_value(self._editor, node)
        if found is None or self._editor.type_of(found.value) != node.types[0]:
            return None
        if self._is_part_of(node, found.value):
            return None
        self._replaced[node.value] = found.value
        return found.why

    def _is_part_of(self, node: Node, value: Value) -> bool:
        """Whether one node of the model computes both, such as a convolution with a bias of zeros."""
        return node.origin is not None and node.origin == self._editor[value.node].origin

    def _simplified(self, node: Node) -> str | None:
        found = simpler_operator(self._editor, node)
        if found is None:
            return None
        made = self._editor.add(found.operator, found.inputs)
        if made.types != node.types:
            self._editor.remove((made.id,))
            return None
        self._replaced[node.value] = made.value
        return found.why

    def _merged(self, node: Node) -> str | None:
        """Common subexpression elimination: merges a node with an earlier equal one."""
        if not node.inputs:
            return None
        first = self._seen.setdefault((node.operator, node.inputs, node.types), node.id)
        if first == node.id:
            return None
        for old, new in zip(node.values, self._editor[first].values, strict=True):
            self._replaced[old] = new
        return "calculated once already"

    def _moved_to_rows(self, node: Node) -> str | None:
        made = on_rows(self._editor, node, self._row_ends)
        if made is None:
            return None
        self._row_ends.update(value.node for value in made)
        self._replaced.update(zip(node.values, made, strict=True))
        return "an image of one row instead of a sequence"

    def _spelled_anew(self) -> Iterator[NodeId]:
        """Yield scalar steps whose number the model stores with axes of size 1, with which ONNX Runtime does
        not fuse: after a convolution with any axis, elsewhere (in a Gelu, say) with several. They are written
        anew, without axes."""
        for node_id, node in self._graph.nodes.items():
            if node_id not in self._editor or node_id in self._protected or node.origin is None:
                continue
            if traits(node.operator.name).element_wise or _is_fused_with_a_number(node):
                names = self._source.proto.graph.node[node.origin].input
                constants = [self._source.constants[name] for name in names if name in self._source.constants]
                axes = max((len(tensor.shape) for tensor in constants if tensor.size == 1), default=0)
                if axes > 1 or (axes and _is_fused_with_a_number(node) and self._follows_convolution(node)):
                    self._rewritten.add(node_id)
                    yield node_id

    def _repeated_by_readers(self) -> Iterator[NodeId]:
        """Repeated tensors that are read only beside one of full size, element by element: ONNX repeats them
        there without storing the result. They and their readers are each an ONNX node of one operator, so
        that these stay what they are."""
        alone = {group.nodes[0] for group in self._lifted.groups.values() if len(group.nodes) == 1}
        if not any(traits(self._graph[node].operator.name).repeats for node in alone):
            return
        graph = self._editor.build()
        alone = (alone & graph.nodes.keys()).difference(self._dead())
        for node_id in sorted(alone):
            node = graph[node_id]
            if not traits(node.operator.name).repeats or node_id in graph.output_nodes:
                continue
            readers = [graph[user] for user in graph.users(node_id)]
            if self._protected_or_opaque((node, *readers)):
                continue
            if readers and all(r.id in alone and _is_beside_full_size(graph, node, r) for r in readers):
                self._rewritten.update((node_id, *(reader.id for reader in readers)))
                yield node_id

    def _protected_or_opaque(self, nodes: Iterable[Node]) -> bool:
        return any(node.id in self._protected or not _is_understood(node) for node in nodes)

    def _respelled(self) -> Iterator[tuple[str, tuple[NodeId, ...]]]:
        """ONNX nodes that the runtime runs at least as fast as the operators that they are made of."""
        for index, group in self._lifted.groups.items():
            nodes = tuple(node for node in group.nodes if node in self._editor)
            if group.respelled and nodes and not any(node in self._protected for node in nodes):
                self._rewritten.update(nodes)
                yield self._source.proto.graph.node[index].op_type, nodes

    def _follows_convolution(self, node: Node) -> bool:
        while traits(node.operator.name).role in (FusionRole.VECTOR, FusionRole.FACTOR):
            node = self._graph[node.inputs[0].node]
        return traits(node.operator.name).product is Product.CONVOLUTION

    def _dead(self) -> list[NodeId]:
        """Return the nodes that neither an output nor an opaque node needs."""
        graph = self._editor.build()
        ends = [value.node for value in graph.outputs]
        ends += [node.id for node in graph if isinstance(node.operator, Opaque)]
        ends += [node.id for node in graph if node.id in self._protected]
        reached = postorder(ends, lambda n: (*(value.node for value in graph[n].inputs), *graph[n].after))
        needed = {*graph.inputs, *reached}
        return [node_id for node_id in graph.nodes if node_id not in needed]

    def _was_dead(self, node_id: NodeId) -> bool:
        node = self._graph[node_id]
        return (
            _is_understood(node)
            and not self._graph.users(node_id)
            and node_id not in self._graph.output_nodes
        )


def _is_beside_full_size(graph: Graph, repeated: Node, reader: Node) -> bool:
    """Whether a reader works element by element and also reads a tensor of the same size as it is."""
    others = [value for value in reader.inputs if value.node != repeated.id]
    return traits(reader.operator.name).element_wise and any(
        graph.type_of(value) == repeated.types[0] and not traits(graph[value.node].operator.name).repeats
        for value in others
    )


def _is_fused_with_a_number(node: Node) -> bool:
    """Whether the node multiplies by a factor or adds a vector."""
    operator = traits(node.operator.name)
    return operator.role is FusionRole.FACTOR or (
        operator.role is FusionRole.VECTOR and operator.neutral == 0
    )


def _is_understood(node: Node) -> bool:
    return isinstance(node.operator, Operator) and not isinstance(node.operator, Opaque)
