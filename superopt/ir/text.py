"""Graphs as text, one node per line, for reports, inspection and tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from superopt.ir.graph import Graph, GraphOperator, Input, Node, NodeId, Value, Weight


def format_graph(graph: Graph) -> str:
    """The graph in topological order, such as ``%2 = matmul(x, w): f32[2, 4]``, and its outputs. Inputs and
    weights are shown by name, other nodes by ``%`` and id; ``%5.1`` is the second output."""
    names = {node.id: _name(node) for node in graph}
    lines = [_line(graph, node_id, names) for node_id in graph.order]
    returned = ", ".join(_value(graph, value, names) for value in graph.outputs)
    return "\n".join((*lines, f"return {returned}"))


def format_operator(operator: GraphOperator) -> str:
    """The operator with its non-default attributes, such as ``softmax[axis=1]``."""
    attributes = ", ".join(_attributes(operator))
    return f"{operator.name}[{attributes}]" if attributes else operator.name


def _name(node: Node) -> str:
    operator = node.operator
    return operator.label if isinstance(operator, Input | Weight) else f"%{node.id}"


def _line(graph: Graph, node_id: NodeId, names: dict[NodeId, str]) -> str:
    node = graph[node_id]
    types = ", ".join(str(type_) for type_ in node.types)
    after = f" after {', '.join(names[source] for source in node.after)}" if node.after else ""
    if isinstance(node.operator, Input | Weight):
        return f"{names[node_id]} = {node.operator.name}: {types}{after}"
    inputs = ", ".join(_value(graph, value, names) for value in node.inputs)
    return f"{names[node_id]} = {format_operator(node.operator)}({inputs}): {types}{after}"


def _value(graph: Graph, value: Value, names: dict[NodeId, str]) -> str:
    several = len(graph[value.node].types) > 1
    return f"{names[value.node]}.{value.port}" if several else names[value.node]


def _attributes(operator: GraphOperator) -> Iterator[str]:
    if not dataclasses.is_dataclass(operator):
        return
    for field in dataclasses.fields(operator):
        value: object = getattr(operator, field.name)
        if value != field.default:
            yield f"{field.name}={_attribute(value)}"


def _attribute(value: object) -> str:
    return f"({', '.join(str(part) for part in value)})" if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
