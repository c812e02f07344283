"""Local simplifications: no-op nodes, and pairs of nodes that one node can replace."""

from __future__ import annotations

from dataclasses import dataclass

from superopt.ir.graph import GraphEditor, Node, Value
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import Operator
from superopt.rewriting.matching import repeated_number


@dataclass(frozen=True, slots=True)
class Same:
    """An existing value that a node's output equals."""

    value: Value
    why: str


@dataclass(frozen=True, slots=True)
class Simpler:
    """An operator on earlier values that gives the same result."""

    operator: Operator
    inputs: tuple[Value, ...]
    why: str


def same_value(graph: GraphEditor, node: Node) -> Same | None:
    """Return the operand that a node passes on unchanged, if any."""
    if not isinstance(node.operator, Operator) or not node.inputs:
        return None
    why = node.operator.why_same(tuple(map(graph.type_of, node.inputs)), node.types[0])
    if why is not None:
        return Same(node.inputs[0], why)
    simpler = simpler_operator(graph, node)
    if simpler is not None:
        types = tuple(map(graph.type_of, simpler.inputs))
        if _leaves_axes(simpler.operator, node.types[0]) or simpler.operator.why_same(types, node.types[0]):
            return Same(simpler.inputs[0], simpler.why)
    return _neutral(graph, node, node.operator)


def _leaves_axes(operator: Operator, output: ValueType) -> bool:
    rank = output.rank if isinstance(output, TensorType) else 0
    return operator.permutation(rank) == tuple(range(rank))


def _neutral(graph: GraphEditor, node: Node, operator: Operator) -> Same | None:
    """Match x + 0, x - 0, x * 1 and x / 1."""
    if operator.neutral is None:
        return None
    slots = (1, 0) if operator.commutative else (1,)
    for slot in slots:
        if repeated_number(graph, node.inputs[slot]) == operator.neutral:
            return Same(node.inputs[1 - slot], f"a step by {operator.neutral}")
    return None


def simpler_operator(graph: GraphEditor, node: Node) -> Simpler | None:
    """Combine two reshapes, transpositions or broadcasts into one operator."""
    type_ = node.types[0] if node.types else None
    if len(node.inputs) != 1 or not isinstance(node.operator, Operator) or not isinstance(type_, TensorType):
        return None
    inner = graph[node.inputs[0].node]
    together = node.operator.merged_with(inner.operator, type_.rank)
    return None if together is None else Simpler(together[0], inner.inputs, together[1])
