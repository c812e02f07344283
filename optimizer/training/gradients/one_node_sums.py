"""Write sums and products so that runtimes have one fast node for them: a factor and a term for each channel,
and rows that are added to a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from superopt.ir.graph import Graph, GraphEditor, Node, Value
from superopt.ir.types import ElementType, TensorType
from superopt.ops.elementwise.affine import Affine
from superopt.ops.elementwise.arithmetic import Add, Multiply, Scale, Subtract
from superopt.ops.elementwise.precision import Cast, precision_of
from superopt.ops.filled import Full
from superopt.ops.gradients.transposes import LookupGradient
from superopt.ops.shape import Broadcast, Reshape

CHANNELS = 1
"""The axis of the channels."""

FEW_POSITIONS = 400
"""Up to so many positions a factor or a term for each channel is faster by the kernel for both; that for
repeated operands begins anew at each channel. In ONNX Runtime 1.31 it takes 1.8 times as long for 7 x 7
positions, 1.3 times for 14 x 14, and 0.9 times for 28 x 28."""

EQUATIONS = (
    "channel_scale[axis=1](x, s) => affine[axis=1](x, s, full[value=0]())",
    "bias_add[axis=1](x, b) => affine[axis=1](x, ones(), b)",
    "sub(x, bias_add[axis=1](full[value=0](), b)) => bias_add[axis=1](x, scale(b, full[value=-1]()))",
    "add(channel_scale[axis=1](x, s), bias_add[axis=1](full[value=0](), b)) => affine[axis=1](x, s, b)",
    "add(x, scale(lookup_gradient(i, y), z)) => add(x, lookup_gradient(i, scale(y, z)))",
    "sub(x, lookup_gradient(i, y)) => add(x, lookup_gradient(i, scale(y, full[value=-1]())))",
)
"""What the steps are instances of: a column that is repeated is a vector along the channels."""


def with_sums_in_one_node(graph: Graph, outputs: Iterable[Value]) -> Graph:
    """The graph in which ``x * s + b`` is an affine operator where s and b have one element for each channel,
    one of both alone if there are few positions, and in which rows are scaled before they are added to a
    table. What is read twice is not taken apart: a gradient would be reduced twice on several devices. Nodes
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
                table, sums = node.inputs
                if not self._with_rows(node, table, sums, sign=-1):
                    self._shifted(node, table, sums)
            case Multiply():
                self._scaled(node)
            case _:
                pass

    def _scaled(self, node: Node) -> None:
        """A factor for each channel."""
        for data, factor in (node.inputs, node.inputs[::-1]):
            column = _column(self.editor, factor)
            if column is not None and _has_few_positions(node):
                vector = _vector(self.editor, column)
                self._replace(node, data, vector, self._filled(0, vector))
                return

    def _shifted(self, node: Node, data: Value, term: Value) -> None:
        """A term for each channel, which is subtracted."""
        column = _column(self.editor, term)
        if column is not None and _has_few_positions(node):
            vector = _vector(self.editor, column)
            negative = self.editor.add(Scale(), (vector, self._number(-1, vector))).value
            self._replace(node, data, self._filled(1, vector), negative)

    def _replace(self, node: Node, *operands: Value) -> None:
        self.editor.replace(replace(node, operator=Affine(CHANNELS), inputs=operands))

    def _as_affine(self, node: Node, product: Value, term: Value) -> bool:
        factors = self._single(product, Multiply)
        terms = _column(self.editor, term)
        if factors is None or terms is None:
            return False
        for data, factor in (factors.inputs, factors.inputs[::-1]):
            column = _column(self.editor, factor)
            if column is not None:
                self._replace(node, data, _vector(self.editor, column), _vector(self.editor, terms))
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
            rows = self.editor.add(Scale(), (rows, self._number(-1, rows))).value
        added = self.editor.add(gradient.operator, (indices, rows)).value
        self.editor.replace(replace(node, operator=Add(), inputs=(table, added)))
        return True

    def _single(self, value: Value, operator: type[Multiply | Scale | LookupGradient]) -> Node | None:
        """The producer of a value that is read once, if it is such an operator."""
        node = self._graph[value.node]
        return node if isinstance(node.operator, operator) and self._readers[value] == 1 else None

    def _number(self, number: int, like: Value) -> Value:
        return self._constant(Full(number, ()), like)

    def _filled(self, number: int, like: Value) -> Value:
        return self._constant(Full(number, _tensor(self.editor, like).shape), like)

    def _constant(self, operator: Full, like: Value) -> Value:
        """A constant in single precision, as the element type of a tensor."""
        value = self.editor.add(operator).value
        element = _tensor(self.editor, like).element
        precision = precision_of(element)
        if element is ElementType.FLOAT or precision is None:
            return value
        return self.editor.add(Cast(precision), (value,)).value


def _has_few_positions(node: Node) -> bool:
    """Whether an image, or what has other axes behind the channels, has so few positions that are known."""
    type_ = node.types[0]
    if not isinstance(type_, TensorType):
        return False
    sizes = [size for size in type_.shape[CHANNELS + 1 :] if isinstance(size, int)]
    return len(sizes) == type_.rank - CHANNELS - 1 and math.prod(sizes) <= FEW_POSITIONS


def _tensor(editor: GraphEditor, value: Value) -> TensorType:
    type_ = editor.type_of(value)
    assert isinstance(type_, TensorType), "arithmetic is on tensors"
    return type_


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
    node, shape = editor[column.node], (_tensor(editor, column).shape[CHANNELS],)
    if isinstance(node.operator, Reshape):
        before = editor.type_of(node.inputs[0])
        if isinstance(before, TensorType) and before.shape == shape:
            return node.inputs[0]
    return editor.add(Reshape(shape), (column,)).value


__all__ = ["EQUATIONS", "with_sums_in_one_node"]
