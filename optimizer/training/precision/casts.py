"""Nodes in low precision as float32 nodes between pairs of casts, which give the same numbers to the bit.

A node in low precision computes in float32 from operands that were rounded to the format, and its results are
rounded: that is what kernels of matrix units do, up to the order of their sums. ONNX Runtime has no bfloat16
kernels for processors, and computes float16 ones in float32 between casts of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from superopt.ir.graph import Graph, GraphEditor, Node, NodeId, Value, Weight
from superopt.ops.elementwise.precision import Cast
from superopt.ops.filled import Filled
from superopt.optimizer.training.precision.formats import LowPrecision
from superopt.optimizer.training.precision.sensitivity import is_float32, keeps_format

Edge: TypeAlias = tuple[NodeId, Value]
"""A node and a value that it reads."""


@dataclass(frozen=True)
class PrecisionPlan:
    """Nodes that run in low precision, and the operands for which these nodes have casts of their own; other
    readers of a value share one."""

    format: LowPrecision
    low: frozenset[NodeId] = field(default_factory=frozenset[NodeId])
    exclusive: frozenset[Edge] = field(default_factory=frozenset[Edge])


@dataclass(frozen=True)
class MixedGraph:
    """A graph with pairs of casts; ``rounded`` maps results that are rounded to what their readers read."""

    graph: Graph
    rounded: Mapping[Value, Value]
    shared_casts: int
    exclusive_casts: int

    def value(self, value: Value) -> Value:
        """The value of this graph for one of the graph without casts."""
        return self.rounded.get(value, value)


class Rounding:
    """Which values of a graph are rounded where nodes run in low precision."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._exact = _numbers(graph)
        self._operands: dict[NodeId, tuple[Value, ...]] = {}

    def operands(self, node: Node) -> tuple[Value, ...]:
        """The operands, each once, that are rounded if their producers run in float32: float32 tensors that
        are no repeated number, which a kernel holds in the precision that it computes in."""
        found = self._operands.get(node.id)
        if found is None:
            read = dict.fromkeys(node.inputs)
            found = tuple(v for v in read if is_float32(self._graph, v) and v.node not in self._exact)
            self._operands[node.id] = found
        return found

    def rounds_results(self, node: Node) -> bool:
        """Whether the results for rounded operands need rounding."""
        return not keeps_format(node.operator) or any(value.node in self._exact for value in node.inputs)


def with_casts(graph: Graph, plan: PrecisionPlan) -> MixedGraph:
    """The graph with the pairs of casts of a plan."""
    editor, rounding = graph.edit(), Rounding(graph)
    low = sorted(plan.low, key=graph.position.__getitem__)
    rounded: dict[Value, Value] = {}
    for node_id in low:
        node = graph[node_id]
        if rounding.rounds_results(node):
            for value in node.values:
                rounded[value] = _pair(editor, value, plan.format)
                editor.redirect({value: rounded[value]}, graph.users(node_id))
    shared: dict[Value, Value] = {}
    exclusive = 0
    for node_id in low:
        own: dict[Value, Value] = {}
        for value in rounding.operands(graph[node_id]):
            if value.node in plan.low:
                continue
            if (node_id, value) in plan.exclusive:
                own[value] = _pair(editor, value, plan.format)
                exclusive += 1
            else:
                if value not in shared:
                    shared[value] = _pair(editor, value, plan.format)
                own[value] = shared[value]
        read = zip(graph[node_id].inputs, editor[node_id].inputs, strict=True)
        editor.set_inputs_of(node_id, tuple(own.get(value, present) for value, present in read))
    return MixedGraph(editor.build(), rounded, len(shared), exclusive)


def without_casts(graph: Graph) -> Graph:
    """The graph in which readers of a pair of casts read what it rounds."""
    found = dict(_pairs(graph))
    if not found:
        return graph
    editor = graph.edit()
    sources = {value: _source(value, found) for value in found}
    readers = {user for value in found for user in graph.users(value.node)}
    editor.redirect(sources, readers)
    whole = {value.node for value in found}
    halves = {graph[node].inputs[0].node for node in whole}
    editor.remove(whole)
    editor.remove(half for half in halves if whole.issuperset(graph.users(half)))
    return editor.build()


def _pair(editor: GraphEditor, value: Value, precision: LowPrecision) -> Value:
    low = editor.add(Cast(precision), (value,))
    return editor.add(Cast("f32"), (low.value,)).value


def _pairs(graph: Graph) -> Iterator[tuple[Value, Value]]:
    """The results of pairs, with what they round."""
    for node in graph:
        if not isinstance(node.operator, Cast) or not is_float32(graph, node.value):
            continue
        before = graph[node.inputs[0].node]
        if isinstance(before.operator, Cast) and is_float32(graph, before.inputs[0]):
            yield node.value, before.inputs[0]


def _source(value: Value, pairs: Mapping[Value, Value]) -> Value:
    while value in pairs:
        value = pairs[value]
    return value


def _numbers(graph: Graph) -> frozenset[NodeId]:
    """The nodes that repeat a number: filled tensors, weights of one element, and what is computed from
    these."""
    found: set[NodeId] = set()
    for node_id in graph.order:
        node = graph[node_id]
        operator = node.operator
        if isinstance(operator, Weight):
            is_number = operator.type.elements == 1
        elif isinstance(operator, Filled):
            is_number = True
        else:
            is_number = bool(node.inputs) and all(value.node in found for value in node.inputs)
        if is_number:
            found.add(node_id)
    return frozenset(found)
