"""Write sums so that runtimes have one node for them: a factor and a term for each channel, and rows that are
added to a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from superopt.ir.graph import Graph, GraphEditor, Node, Value
from superopt.ir.types import ElementType, TensorType
from superopt.ops.affine import Affine
from superopt.ops.elementwise import Add, Multiply, Scale, Subtract
from superopt.ops.filled import Full
from superopt.ops.gradients import LookupGradient
from superopt.ops.precision import Cast, precision_of
from superopt.ops.shape import Broadcast, Reshape

CHANNELS = 1
"""The axis of the channels."""

EQUATIONS = (
    "add(channel_scale[axis=1](x, s), bias_add[axis=1](full[value=0](), b)) => affine[axis=1](x, s, b)",
    "add(x, scale(lookup_gradient(i, y), z)) => add(x, lookup_gradient(i, scale(y, z)))",
    "sub(x, lookup_gradient(i, y)) => add(x, lookup_gradient(i, scale(y, full[value=-1]())))",
)
"""What the steps are instances of: a column that is repeated is a vector along the channels."""


def with_sums_in_one_node(graph: Graph, outputs: Iterable[Value]) -> Graph:
    """The graph in which ``x * s + b`` is an affine operator where s and b have one element for each channel,
    and in which rows are scaled before they are added to a table. Only what nothing else that the outputs
    need reads is rewritten: a gradient that is read twice would be reduced twice on several devices. Nodes
    keep their ids."""
    writer = _Writer(graph, outputs)
    for node_id in graph.order:
        writer.rewrite(graph[node_id])
    return writer.editor.build()


class _Writer:
    def __init__(self, graph: Graph, outputs: Iterable[Value]) -> None:
        self._graph = graph
        self._readers = _readers(graph, outputs)
        self.editor = graph.edit()

    def rewrite(self, node: Node) -> None:
        """Replaces a sum, where it has such a form."""
        match node.operator:
            case Add():
                for whole, term in (node.inputs[::-1], node.inputs):
                    if self._as_affine(node, whole, term) or self._with_rows(node, term, whole, sign=1):
                        return
            case Subtract():
                self._with_rows(node, *node.inputs, sign=-1)
            case _:
                pass

    def _as_affine(self, node: Node, product: Value, term: Value) -> bool:
        factors = self._single(product, Multiply)
        terms = _column(self.editor, term)
        if factors is None or terms is None:
            return False
        for data, factor in (factors.inputs, factors.inputs[::-1]):
            column = _column(self.editor, factor)
            if column is not None:
                vectors = (_vector(self.editor, one) for one in (column, terms))
                self.editor.replace(replace(node, operator=Affine(CHANNELS), inputs=(data, *vectors)))
                return True
        return False

    def _with_rows(self, node: Node, table: Value, sums: Value, *, sign: int) -> bool:
        scale = self._single(sums, Scale)
        gradient = self._single(sums if scale is None else scale.inputs[0], LookupGradient)
        if gradient is None or (scale is None and sign == 1):
            return False
        indices, rows = gradient.inputs
        if scale is not None:
            rows = self.editor.add(Scale(), (rows, scale.inputs[1])).value
        if sign == -1:
            rows = self.editor.add(Scale(), (rows, self._minus_one(rows))).value
        added = self.editor.add(gradient.operator, (indices, rows)).value
        self.editor.replace(replace(node, operator=Add(), inputs=(table, added)))
        return True

    def _single(self, value: Value, operator: type[Multiply | Scale | LookupGradient]) -> Node | None:
        """The producer of a value that is read once, if it is such an operator."""
        node = self._graph[value.node]
        return node if isinstance(node.operator, operator) and self._readers[value] == 1 else None

    def _minus_one(self, like: Value) -> Value:
        type_ = self.editor.type_of(like)
        assert isinstance(type_, TensorType), "rows"
        number = self.editor.add(Full(-1, ())).value
        precision = precision_of(type_.element)
        if type_.element is ElementType.FLOAT or precision is None:
            return number
        return self.editor.add(Cast(precision), (number,)).value


def _readers(graph: Graph, outputs: Iterable[Value]) -> Counter[Value]:
    """How often values are read by what the outputs need, the outputs included."""
    found = Counter(outputs)
    needed = {value.node for value in found}
    for node_id in reversed(graph.order):
        if node_id in needed:
            found.update(graph[node_id].inputs)
            needed.update(value.node for value in graph[node_id].inputs)
    return found


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


__all__ = ["EQUATIONS", "with_sums_in_one_node"]
