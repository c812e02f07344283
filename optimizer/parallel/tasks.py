"""The task dimensions of a node as it stands in a graph."""

from __future__ import annotations

from superopt.ir.graph import Graph, Node
from superopt.ir.types import TensorType
from superopt.ops import Operator
from superopt.ops.splits import Splits


def splits_of(graph: Graph, node: Node) -> Splits:
    """How the node can be divided; not at all where it is no operator of tensors of known rank."""
    types = [graph.type_of(value) for value in node.inputs]
    inputs = tuple(type_ for type_ in types if isinstance(type_, TensorType))
    outputs = tuple(type_ for type_ in node.types if isinstance(type_, TensorType))
    if isinstance(node.operator, Operator) and (len(inputs), len(outputs)) == (len(types), len(node.types)):
        return node.operator.splits(inputs, outputs)
    ranks = [len(type_.shape) if isinstance(type_, TensorType) else 0 for type_ in (*types, *node.types)]
    whole = tuple((None,) * rank for rank in ranks)
    return Splits((), whole[: len(types)], whole[len(types) :])
