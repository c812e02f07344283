"""Operators between images of one row, which stand for sequences: they work on the images, not the sequences.

A convolution of a sequence is one of an image of one row, between two reshapes. What lies between such
convolutions moves in front of the reshapes, so that those cancel. The runtime keeps its layout for images.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from superopt.ir.graph import Graph, GraphEditor, Node, NodeId, Value
from superopt.ir.types import TensorType
from superopt.ops import Operator
from superopt.ops.filled import Filled
from superopt.ops.shape import Broadcast, Cutting, Joining, Reshape

_ROW = 2
"""The axis of an image that has one position."""


def on_rows(graph: GraphEditor, node: Node, reshapes: Container[NodeId]) -> tuple[Value, ...] | None:
    """The values of a node on sequences, calculated on images of one row and reshaped, where each of its
    operands is a sequence that one of the ``reshapes`` makes of such an image; None where that is not so."""
    operator = node.operator
    if not isinstance(operator, Operator) or not node.inputs or not _may_move(operator):
        return None
    count = len(node.inputs) - operator.side_inputs
    images = list(_images(graph, node.inputs[:count], reshapes))
    if len(images) < count or all(image is None for image in images):
        return None
    shape = next(graph.type_of(image) for image in images if image is not None)
    assert isinstance(shape, TensorType)
    operands = [
        repeated(graph, value, shape) if image is None else image
        for value, image in zip(node.inputs, images, strict=False)
    ]
    if any(operand is None for operand in operands):
        return None
    made = graph.add(operator, (*(o for o in operands if o is not None), *node.inputs[count:]))
    return tuple(
        graph.add(Reshape(type_.shape), (value,)).value
        for value, type_ in zip(made.values, node.types, strict=True)
        if isinstance(type_, TensorType)
    )


def _may_move(operator: Operator) -> bool:
    """Whether an axis of one position behind the channels makes no difference to the operator."""
    if operator.element_wise:
        return True
    axis: object = getattr(operator, "axis", None)
    return axis == 1 and (operator.per_channel or isinstance(operator, Joining | Cutting))


def _images(
    graph: GraphEditor, operands: tuple[Value, ...], reshapes: Container[NodeId]
) -> Iterator[Value | None]:
    """The image of each sequence, None for what repeats one number; ends at an operand that is neither."""
    for operand in operands:
        made = graph[operand.node]
        if repeats_a_number(graph, made):
            yield None
        elif made.id in reshapes and _is_row_of(graph, made.inputs[0], operand):
            yield made.inputs[0]
        else:
            return


def _is_row_of(graph: GraphEditor, image: Value, sequence: Value) -> bool:
    before, after = graph.type_of(image), graph.type_of(sequence)
    if not isinstance(before, TensorType) or not isinstance(after, TensorType) or before.rank != _ROW + 2:
        return False
    return before.shape[_ROW] == 1 and (*before.shape[:_ROW], before.shape[_ROW + 1]) == after.shape


def repeats_a_number(graph: Graph | GraphEditor, node: Node) -> bool:
    if isinstance(node.operator, Broadcast):
        return _is_number(graph, node.inputs[0])
    return isinstance(node.operator, Filled)


def _is_number(graph: Graph | GraphEditor, value: Value) -> bool:
    type_ = graph.type_of(value)
    return isinstance(type_, TensorType) and type_.elements == 1


def repeated(graph: GraphEditor, value: Value, image: TensorType) -> Value | None:
    """The number that a value repeats, in a tensor of this type; None if the number has more axes."""
    made = graph[value.node]
    if isinstance(made.operator, Filled):
        return graph.add(made.operator.task((image,)), ()).value
    source = made.inputs[0]
    type_ = graph.type_of(source)
    assert isinstance(type_, TensorType)
    return graph.add(Broadcast(image.shape), (source,)).value if type_.rank <= image.rank else None
