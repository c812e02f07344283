"""Emit data movement operators; their shapes may have to be computed at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from superopt.errors import UnsupportedError
from superopt.ir.dimensions import Dimension
from superopt.ir.graph import GraphOperator, Node, Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.emit.recipes import Emission, Number, Operand, Recipe, Writer
from superopt.onnx_io.emit.runtime_shapes import RuntimeShape, integers
from superopt.onnx_io.emit.tensor_nodes import TensorNodes
from superopt.onnx_io.lifting.cuts import PAD_TAKES_OPERANDS, SLICE_TAKES_OPERANDS
from superopt.onnx_io.lifting.transposes import Steps, faster_steps
from superopt.onnx_io.protos import dtype_of
from superopt.ops.base import axis_of
from superopt.ops.filled import Full, Ones
from superopt.ops.matrix import Transpose, keeps_order
from superopt.ops.shape import Broadcast, Concat, Reshape, Split

SQUEEZE_TAKES_OPERANDS = 13
"""The operator set since which Squeeze and Unsqueeze have axes as an operand."""


def reshaping(emission: Emission, node: Node, shape: tuple[Dimension, ...]) -> RuntimeShape:
    """The shape operand of an ONNX Reshape: 0 copies an unknown size, at most one -1 is inferred."""
    own = emission.type(node.inputs[0]).shape
    if any(size == 0 for size in shape):
        raise UnsupportedError("reshape: an empty tensor")
    copied: list[Dimension] = [
        0 if not isinstance(size, int) and axis < len(own) and own[axis] == size else size
        for axis, size in enumerate(shape)
    ]
    left = [axis for axis, size in enumerate(copied) if not isinstance(size, int)]
    if len(left) == 1:
        copied[left[0]] = -1
        left = []
    return RuntimeShape(emission, node.id, shape if left else copied)


def reshape(emission: Emission, node: Node) -> Recipe:
    """Reshape with its shape operand."""
    assert isinstance(node.operator, Reshape)
    return _reshape(emission, node, node.operator.shape)


def _reshape(emission: Emission, node: Node, target: tuple[Dimension, ...]) -> Recipe:
    shape = reshaping(emission, node, target)
    if shape.may_refuse_empty:
        single = _single_axes(emission, node, target)
        if single is not None:
            return single

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        writer.node("Reshape", [operands[0], shape.write(writer, operands[1:])], outputs)

    return Recipe(node.values, (Operand(node.inputs[0]), *shape.operands), write)


def _single_axes(emission: Emission, node: Node, target: tuple[Dimension, ...]) -> Recipe | None:
    """A Squeeze or Unsqueeze, which take tensors of any size; None where more than axes of size 1 change."""
    own = emission.type(node.inputs[0]).shape
    axes = _axes_beside(*sorted((own, target), key=len))
    if axes is None:
        return None
    op_type = "Unsqueeze" if len(own) < len(target) else "Squeeze"

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        if writer.opset < SQUEEZE_TAKES_OPERANDS:
            writer.node(op_type, operands, outputs, {"axes": axes})
        else:
            writer.node(op_type, [*operands, integers(writer, axes)], outputs)

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def _axes_beside(shape: Sequence[Dimension], longer: Sequence[Dimension]) -> tuple[int, ...] | None:
    """The axes of ``longer`` beside those of ``shape``, if all of them have size 1; None otherwise."""
    others, at = list[int](), 0
    for axis, size in enumerate(longer):
        if at < len(shape) and shape[at] == size:
            at += 1
        elif size == 1:
            others.append(axis)
        else:
            return None
    return tuple(others) if at == len(shape) else None


def _expansion(
    emission: Emission, node: Node, own: tuple[Dimension, ...], shape: tuple[Dimension, ...]
) -> RuntimeShape:
    if emission.opset < 8:
        raise UnsupportedError(f"{node.operator.name}: operator set {emission.opset} has no Expand")
    aligned = (None,) * (len(shape) - len(own)) + own
    sizes = [1 if old == new else new for old, new in zip(aligned, shape, strict=True)]
    return RuntimeShape(emission, node.id, sizes)


def broadcast(emission: Emission, node: Node) -> Recipe:
    """Expand, where the reader does not broadcast implicitly."""
    assert isinstance(node.operator, Broadcast)
    shape = _expansion(emission, node, emission.type(node.inputs[0]).shape, node.operator.shape)

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        writer.node("Expand", [operands[0], shape.write(writer, operands[1:])], outputs)

    return Recipe(node.values, (Operand(node.inputs[0]), *shape.operands), write)


def repeated_number(operator: GraphOperator) -> Number | None:
    """The number that a constant tensor repeats."""
    match operator:
        case Ones():
            return Number(1, ElementType.FLOAT)
        case Full():
            return Number(operator.value, ElementType.FLOAT)
        case _:
            return None


def filled(emission: Emission, node: Node) -> Recipe:
    """Expand of a number, for shapes that are unknown or too large to store."""
    assert isinstance(node.operator, Ones | Full)
    number = repeated_number(node.operator)
    assert number is not None, "the operator fills a tensor"
    shape = _expansion(emission, node, (), node.operator.shape)

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        writer.node("Expand", [operands[0], shape.write(writer, operands[1:])], outputs)

    return Recipe(node.values, (number, *shape.operands), write)


def transpose(emission: Emission, node: Node) -> Recipe:
    """Transpose with an explicit permutation, or two if they are faster; a Reshape where it only changes the
    shape. ONNX Runtime fuses a Transpose with a matrix product, and does not notice that a vector needs
    none."""
    assert isinstance(node.operator, Transpose)
    if only_reshapes(emission, node):
        return _reshape(emission, node, emission.type(node.value).shape)
    data = emission.type(node.inputs[0])
    permutation = node.operator.permutation(data.rank)
    steps = faster_steps(data, permutation)

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        if steps is None:
            writer.node("Transpose", operands, outputs, {"perm": permutation})
        else:
            _write_steps(TensorNodes(writer, data.element), data, steps, operands[0], outputs[0])

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def _write_steps(nodes: TensorNodes, data: TensorType, steps: Steps, operand: str, output: str) -> None:
    """Two Transposes with a Reshape between them, and a Flatten before that if the shape is known up to one
    size: otherwise ONNX Runtime makes one of the two."""
    first = nodes.transposed(operand, steps.first)
    shape = [data.shape[axis] for axis in steps.first]
    if sum(not isinstance(size, int) for size in shape) > 1:
        nodes.transposed(nodes.reshaped(first, [0] * len(shape)), steps.second, output)
        return
    sizes = [size if isinstance(size, int) else -1 for size in shape]
    flat = nodes.node("Flatten", [first], {"axis": 1})
    if steps.is_shape:
        nodes.reshaped(flat, [sizes[axis] for axis in steps.second], output)
    else:
        nodes.transposed(nodes.reshaped(flat, sizes), steps.second, output)


def only_reshapes(emission: Emission, node: Node) -> bool:
    """Whether a transposition can be written as a Reshape to a shape that is known up to one size."""
    assert isinstance(node.operator, Transpose)
    shape = emission.type(node.inputs[0]).shape
    unknown = sum(not isinstance(size, int) for size in shape)
    return unknown <= 1 and 0 not in shape and keeps_order(node.operator.permutation(len(shape)), shape)


def concat(emission: Emission, node: Node) -> Recipe:
    """One n-ary Concat for nested ones along the same axis; a Pad where one tensor is put between tensors of
    one number."""
    assert isinstance(node.operator, Concat)
    padding = _padding(emission, node)
    if padding is not None:
        return _pad(emission, node, padding)
    axis = axis_of("concat", node.operator.axis, emission.rank(node.value))
    parts: list[Value] = []
    waiting = list(reversed(node.inputs))
    while waiting:
        value = waiting.pop()
        inner = emission.producer(value, Concat)
        if inner is not None and _axis_of_concat(emission, inner) == axis:
            waiting.extend(reversed(inner.inputs))
        else:
            parts.append(value)

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        writer.node("Concat", operands, outputs, {"axis": axis})

    return Recipe(node.values, tuple(Operand(part) for part in parts), write)


@dataclass(frozen=True, slots=True)
class _Padding:
    """A tensor, the number around it, and the margins by axis."""

    data: Value
    number: Fraction | int
    margins: Mapping[int, tuple[int, int]]


def _padding(emission: Emission, node: Node) -> _Padding | None:
    """The padding that a concatenation, and others inside of it, add up to; None if it is no padding."""
    axis = _axis_of_concat(emission, node)
    operators = [emission.graph[emission.resolve(value).node].operator for value in node.inputs]
    numbers = [operator.value if isinstance(operator, Full) else None for operator in operators]
    inside = [value for value, number in zip(node.inputs, numbers, strict=True) if number is None]
    around = set(numbers) - {None}
    if len(inside) != 1 or len(around) != 1:
        return None
    (data,), (number,) = inside, around
    sizes = [emission.type(value).shape[axis] for value in node.inputs]
    known_sizes = [size if isinstance(size, int) else 0 for size in sizes]
    at = node.inputs.index(data)
    if number is None or 0 in (*known_sizes[:at], *known_sizes[at + 1 :]):
        return None
    margins = {axis: (sum(known_sizes[:at]), sum(known_sizes[at + 1 :]))}
    inner = emission.producer(data, Concat)
    found = None if inner is None or inner.id in emission.untouched else _padding(emission, inner)
    if found is None or found.number != number or axis in found.margins:
        return _Padding(data, number, margins)
    return _Padding(found.data, number, {**found.margins, **margins})


def _pad(emission: Emission, node: Node, padding: _Padding) -> Recipe:
    rank, element = emission.rank(node.value), emission.type(node.value).element
    pairs = [padding.margins.get(axis, (0, 0)) for axis in range(rank)]
    pads = [*(before for before, _ in pairs), *(after for _, after in pairs)]
    number = float(padding.number)

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        if writer.opset < PAD_TAKES_OPERANDS:
            writer.node("Pad", operands, outputs, {"pads": pads, "value": number})
            return
        value = writer.constant(np.asarray(number).astype(dtype_of(element)), "number")
        writer.node("Pad", [*operands, integers(writer, pads), value], outputs)

    return Recipe(node.values, (Operand(padding.data),), write)


def _axis_of_concat(emission: Emission, node: Node) -> int:
    assert isinstance(node.operator, Concat)
    return axis_of("concat", node.operator.axis, emission.rank(node.value))


def _axis_of_split(emission: Emission, node: Node) -> int:
    assert isinstance(node.operator, Split)
    return axis_of("split", node.operator.axis, emission.rank(node.inputs[0]))


def outer_split(emission: Emission, node: Node) -> Node:
    """The split into which this one is merged: itself, unless its operand is a piece with no other reader."""
    while node.id not in emission.untouched:
        outer = emission.producer(node.inputs[0], Split)
        if outer is None or outer.id in emission.untouched:
            break
        if _axis_of_split(emission, outer) != _axis_of_split(emission, node):
            break
        node = outer
    return node


def split(emission: Emission, node: Node) -> Recipe:
    """One n-ary Split for nested ones along the same axis."""
    node = outer_split(emission, node)
    axis = _axis_of_split(emission, node)
    pieces: list[tuple[Value, Dimension]] = []
    waiting = _pieces(node)
    while waiting:
        value, size = waiting.pop()
        inner = _inner_split(emission, value)
        if inner is not None and _axis_of_split(emission, inner) == axis:
            waiting.extend(_pieces(inner))
        else:
            pieces.append((value, size))
    used = [value for value, _ in pieces if _is_used(emission, value)]
    sizes = [size for _, size in pieces]
    if used and len(used) < len(pieces) and all(isinstance(size, int) for size in sizes):
        return _slices(emission, node, axis, pieces)
    lengths = RuntimeShape(emission, node.id, sizes)
    numbers = [size for size in sizes if isinstance(size, int)]
    if emission.opset < 13 and len(numbers) < len(sizes):
        raise UnsupportedError(f"split: operator set {emission.opset} needs known sizes, got {sizes}")

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        if writer.opset < 13:
            writer.node("Split", operands, outputs, {"axis": axis, "split": numbers})
        else:
            writer.node("Split", [operands[0], lengths.write(writer, operands[1:])], outputs, {"axis": axis})

    return Recipe(tuple(value for value, _ in pieces), (Operand(node.inputs[0]), *lengths.operands), write)


def _is_used(emission: Emission, value: Value) -> bool:
    readers = (emission.graph[user] for user in emission.graph.users(value.node))
    return value in emission.graph.outputs or any(value in reader.inputs for reader in readers)


def _slices(emission: Emission, node: Node, axis: int, pieces: Sequence[tuple[Value, Dimension]]) -> Recipe:
    """A Slice for each piece that is used, so that the others are not copied."""
    used: list[Value] = []
    bounds: list[tuple[int, int]] = []
    start = 0
    for value, size in pieces:
        assert isinstance(size, int)
        if _is_used(emission, value):
            used.append(value)
            bounds.append((start, start + size))
        start += size

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        for output, (first, last) in zip(outputs, bounds, strict=True):
            if writer.opset < SLICE_TAKES_OPERANDS:
                attributes = {"axes": [axis], "starts": [first], "ends": [last]}
                writer.node("Slice", operands, [output], attributes)
            else:
                numbers = [integers(writer, [number]) for number in (first, last, axis)]
                writer.node("Slice", [*operands, *numbers], [output])

    return Recipe(tuple(used), (Operand(node.inputs[0]),), write)


def _pieces(node: Node) -> list[tuple[Value, Dimension]]:
    assert isinstance(node.operator, Split)
    return list(reversed(list(zip(node.values, node.operator.sizes, strict=True))))


def _inner_split(emission: Emission, value: Value) -> Node | None:
    if not emission.graph.is_used_once(value):
        return None
    for user in emission.graph.users(value.node):
        node = emission.graph[user]
        if isinstance(node.operator, Split) and node.inputs == (value,) and user not in emission.untouched:
            return node
    return None
