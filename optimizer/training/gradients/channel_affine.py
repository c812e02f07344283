"""Write a factor and a term for each channel as one operator: runtimes have a kernel of one pass for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from superopt.ir.graph import Graph, GraphEditor, Node, Value
from superopt.ir.types import ElementType, TensorType
from superopt.ops.affine import Affine
from superopt.ops.elementwise import Add, Multiply
from superopt.ops.shape import Broadcast, Reshape

CHANNELS = 1
"""The axis of the channels."""

EQUATION = "add(channel_scale[axis=1](x, s), bias_add[axis=1](full[value=0](), b)) => affine[axis=1](x, s, b)"
"""What a step is an instance of: a column that is repeated is a vector along the channels."""


def with_channel_affine(graph: Graph, outputs: Iterable[Value]) -> Graph:
    """The graph in which ``x * s + b`` is an affine operator where s and b have one element for each channel
    and nothing else that the outputs need reads the product. Nodes keep their ids."""
    editor = graph.edit()
    readers = _readers(graph, outputs)
    for node_id in graph.order:
        node = graph[node_id]
        if isinstance(node.operator, Add):
            for product, term in (node.inputs, node.inputs[::-1]):
                if readers[product] == 1:
                    operands = _operands(editor, graph[product.node], term)
                    if operands is not None:
                        editor.replace(replace(node, operator=Affine(CHANNELS), inputs=operands))
                        break
    return editor.build()


def _readers(graph: Graph, outputs: Iterable[Value]) -> Counter[Value]:
    """How often values are read by what the outputs need, the outputs included."""
    found = Counter(outputs)
    needed = {value.node for value in found}
    for node_id in reversed(graph.order):
        if node_id in needed:
            found.update(graph[node_id].inputs)
            needed.update(value.node for value in graph[node_id].inputs)
    return found


def _operands(editor: GraphEditor, product: Node, term: Value) -> tuple[Value, Value, Value] | None:
    """The tensor, the factors and the terms; None where it is not such a product and such a term."""
    if not isinstance(product.operator, Multiply):
        return None
    terms = _column(editor, term)
    for data, factor in (product.inputs, product.inputs[::-1]):
        factors = _column(editor, factor)
        if terms is not None and factors is not None:
            return data, _vector(editor, factors), _vector(editor, terms)
    return None


def _column(editor: GraphEditor, value: Value) -> Value | None:
    """What is repeated: one element for each channel, 1 along all other axes."""
    node = editor[value.node]
    if not isinstance(node.operator, Broadcast):
        return None
    whole, own = editor.type_of(value), editor.type_of(node.inputs[0])
    if not isinstance(whole, TensorType) or not isinstance(own, TensorType):
        return None
    if own.element not in (ElementType.FLOAT, ElementType.DOUBLE) or own.rank != whole.rank or own.rank < 2:
        return None
    others = (*own.shape[:CHANNELS], *own.shape[CHANNELS + 1 :])
    channels = own.shape[CHANNELS]
    if any(size != 1 for size in others) or not isinstance(channels, int) or channels == 1:
        return None
    return node.inputs[0]


def _vector(editor: GraphEditor, column: Value) -> Value:
    node, type_ = editor[column.node], editor.type_of(column)
    assert isinstance(type_, TensorType), "a column"
    shape = (type_.shape[CHANNELS],)
    if isinstance(node.operator, Reshape):
        before = editor.type_of(node.inputs[0])
        if isinstance(before, TensorType) and before.shape == shape:
            return node.inputs[0]
    return editor.add(Reshape(shape), (column,)).value


__all__ = ["EQUATION", "with_channel_affine"]
