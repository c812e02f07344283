"""Operations that sum rows of gradients into the gradient of a table of which rows are looked up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from superopt.ir.graph import NodeId, Value
from superopt.ir.types import TensorType
from superopt.ops.traits import traits
from superopt.optimizer.cost.machine import bytes_of
from superopt.optimizer.parallel.search.subject import Subject, is_lookup
from superopt.optimizer.parallel.tasks import shape_of, tensor_of


def row_sums(subject: Subject) -> frozenset[NodeId]:
    """The operations that sum rows of gradients into gradients of sparse parameters: they read the indices of
    a look-up. Rows are exchanged in place of such a gradient, which has few others."""
    return frozenset(_row_sums(subject))


def few_row_sums(subject: Subject) -> frozenset[NodeId]:
    """Those of ``row_sums`` of which gathering the rows sends less than reducing the table."""
    return frozenset(
        node
        for node in _row_sums(subject)
        if gathers_less(
            [tensor_of(subject.graph, value) for value in subject.graph[node].inputs],
            subject.operations[subject.numbers[node]].outputs,
        )
    )


def gathers_less(operands: Sequence[TensorType], results: Sequence[TensorType]) -> bool:
    """Whether gathering operands sends less than reducing results: a device receives all operands, or nearly
    two times the results."""
    return sum(map(bytes_of, operands)) < 2 * sum(map(bytes_of, results))


def takes_rows(subject: Subject, node: NodeId, table: NodeId) -> bool:
    """Whether the operation looks up rows of the table and reads it in no other way."""
    first, *others = subject.graph[node].inputs
    is_table = first.node == table and all(value.node != table for value in others)
    return is_table and is_lookup(subject.operations[subject.numbers[node]])


def before_moves(subject: Subject, value: Value) -> Value:
    """What a value is a reshaped or transposed form of."""
    while value.node in subject.numbers:
        node = subject.graph[value.node]
        if len(node.inputs) != 1 or not traits(node.operator.name).moves:
            break
        (value,) = node.inputs
    return value


def _row_sums(subject: Subject) -> Iterator[NodeId]:
    assert subject.step is not None, "gradients are those of training steps"
    readers: dict[Value, list[NodeId]] = defaultdict(list)
    for operation in subject.operations:
        for value in subject.graph[operation.node].inputs:
            readers[before_moves(subject, value)].append(operation.node)
    for state in subject.step.states:
        shape = shape_of(tensor_of(subject.graph, Value(state.input, 0)))
        reading = [node for node in subject.graph.users(state.input) if node in subject.numbers]
        lookups = [node for node in reading if takes_rows(subject, node, state.input)]
        if any(node not in lookups and not _is_of_shape(subject, node, shape) for node in reading):
            continue
        for node in lookups:
            for indices in subject.graph[node].inputs[1:]:
                for reader in readers[before_moves(subject, indices)]:
                    if reader not in lookups and _is_of_shape(subject, reader, shape):
                        yield reader


def _is_of_shape(subject: Subject, node: NodeId, shape: tuple[int, ...]) -> bool:
    return all(shape_of(type_) == shape for type_ in subject.operations[subject.numbers[node]].outputs)
