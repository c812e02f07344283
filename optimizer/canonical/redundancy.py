"""Which nodes give back what they are given, and which say in two steps what one says."""

from __future__ import annotations

from dataclasses import dataclass

from superopt.ir.graph import GraphEditor, GraphOperator, Node, Value
from superopt.ir.types import TensorType
from superopt.ops.affine import BiasAdd, ChannelScale
from superopt.ops.elementwise import Add, Divide, Identity, Multiply, Power, Scale, Subtract
from superopt.ops.matrix import Transpose
from superopt.ops.shape import Broadcast, Concat, Reshape, Split
from superopt.rewriting.matching import repeated_number


@dataclass(frozen=True, slots=True)
class Same:
    """An existing value that a node's output equals."""

    value: Value
    why: str


@dataclass(frozen=True, slots=True)
class Simpler:
    """An operator that says the same of earlier values."""

    operator: GraphOperator
    inputs: tuple[Value, ...]
    why: str


def same_value(graph: GraphEditor, node: Node) -> Same | None:
    """The operand that the node passes on unchanged, if it does."""
    match node.operator:
        case Identity():
            return Same(node.inputs[0], "it does nothing")
        case Reshape() | Broadcast() if graph.type_of(node.inputs[0]) == node.types[0]:
            return Same(node.inputs[0], "the shape is that already")
        case Transpose() if _is_identity(node):
            return Same(node.inputs[0], "axes stay where they are")
        case Transpose() if _undoes(graph, node):
            return Same(graph[node.inputs[0].node].inputs[0], "two transpositions that cancel")
        case Concat() if len(node.inputs) == 1:
            return Same(node.inputs[0], "there is nothing to join")
        case Split() if len(node.operator.sizes) == 1:
            return Same(node.inputs[0], "there is one piece")
        case Power() if node.operator.exponent == 1:
            return Same(node.inputs[0], "the power 1")
        case _:
            return _neutral(graph, node)


def _neutral(graph: GraphEditor, node: Node) -> Same | None:
    """x + 0, x - 0, x * 1, x / 1."""
    match node.operator:
        case Add() | BiasAdd() | Subtract():
            number = 0
        case Multiply() | Scale() | ChannelScale() | Divide():
            number = 1
        case _:
            return None
    slots = (1, 0) if node.operator.commutative else (1,)
    for slot in slots:
        if repeated_number(graph, node.inputs[slot]) == number:
            return Same(node.inputs[1 - slot], f"a step by {number}")
    return None


def simpler_operator(graph: GraphEditor, node: Node) -> Simpler | None:
    """Reshape of reshape, transposition of transposition, broadcast of broadcast as one."""
    if len(node.inputs) != 1:
        return None
    (source,) = node.inputs
    inner = graph[source.node]
    match node.operator, inner.operator:
        case Reshape(), Reshape():
            return Simpler(node.operator, inner.inputs, "two reshapes are one")
        case Broadcast(), Broadcast():
            return Simpler(node.operator, inner.inputs, "two broadcasts are one")
        case Transpose(), Transpose():
            first, second = _permutation(inner), _permutation(node)
            together = tuple(first[axis] for axis in second)
            swapped = (*range(len(together) - 2), len(together) - 1, len(together) - 2)
            operator = Transpose() if together == swapped else Transpose(together)
            return Simpler(operator, inner.inputs, "two transpositions are one")
        case _:
            return None


def _permutation(node: Node) -> tuple[int, ...]:
    assert isinstance(node.operator, Transpose)
    type_ = node.types[0]
    assert isinstance(type_, TensorType)
    return node.operator.permutation(type_.rank)


def _is_identity(node: Node) -> bool:
    permutation = _permutation(node)
    return permutation == tuple(range(len(permutation)))


def _undoes(graph: GraphEditor, node: Node) -> bool:
    inner = graph[node.inputs[0].node]
    if not isinstance(inner.operator, Transpose):
        return False
    first, second = _permutation(inner), _permutation(node)
    return tuple(first[axis] for axis in second) == tuple(range(len(first)))
