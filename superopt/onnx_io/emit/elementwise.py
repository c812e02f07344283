"""Emit elementwise operators: explicit broadcasts become implicit, missing operators are decomposed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from superopt.errors import UnsupportedError
from superopt.ir.dimensions import Dimension
from superopt.ir.graph import GraphOperator, Node, Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.emit.recipes import Emission, Number, Operand, Recipe, Writer
from superopt.onnx_io.emit.runtime_shapes import RuntimeShape
from superopt.onnx_io.emit.shape import repeated_number
from superopt.onnx_io.emit.single_elements import single_element
from superopt.onnx_io.lifting.elementwise import ROOTS
from superopt.onnx_io.protos import dtype_of
from superopt.ops.base import Operator, axis_of
from superopt.ops.elementwise.activation import Gelu, HardSigmoid, HardSwish, LogSoftmax, Silu, Softmax
from superopt.ops.elementwise.affine import ChannelOperator
from superopt.ops.elementwise.arithmetic import Add, Divide, Multiply, Power, Scale, Subtract, Sum
from superopt.ops.elementwise.clipping import clip_of
from superopt.ops.elementwise.order import Clip, Extremum, Maximum, Minimum
from superopt.ops.images.convolution import Conv
from superopt.ops.shape import Broadcast

BINARY: dict[type[Operator], str] = {
    Add: "Add",
    Subtract: "Sub",
    Sum: "Sum",
    Multiply: "Mul",
    Divide: "Div",
    Maximum: "Max",
    Minimum: "Min",
}
VARIADIC_BROADCAST = 8
"""The opset since which Max, Min and Sum broadcast their operands."""


def number(writer: Writer, value: float, element: ElementType) -> str:
    """A 0-d initialiser."""
    return writer.constant(np.asarray(value).astype(dtype_of(element)), "number")


@dataclass(frozen=True, slots=True)
class Part:
    """One operand of an operator: its value and shape."""

    operand: Operand | Number
    shape: tuple[Dimension, ...]


def before_broadcast(emission: Emission, value: Value, rank: int | None) -> Part:
    """The operand of a broadcast, or the value itself."""
    node = emission.graph[emission.resolve(value).node]
    while isinstance(node.operator, Broadcast):
        value = node.inputs[0]
        node = emission.graph[emission.resolve(value).node]
    repeated = repeated_number(node.operator)
    if repeated is not None:
        return Part(repeated, ())
    return Part(Operand(value, rank=rank), emission.type(value).shape)


def covers(shapes: list[tuple[Dimension, ...]], target: tuple[Dimension, ...]) -> bool:
    """Whether numpy broadcasting of the shapes gives exactly the target."""
    if max(len(shape) for shape in shapes) != len(target):
        return False
    padded = [(1,) * (len(target) - len(shape)) + shape for shape in shapes]
    return all(any(shape[axis] == size for shape in padded) for axis, size in enumerate(target))


def without_broadcasts(
    emission: Emission, operands: Sequence[Value], target: tuple[Dimension, ...], trailing: int = 0
) -> tuple[Operand | Number, ...]:
    """The operands, as many as possible before broadcasting, where ONNX's implicit broadcasting gives the
    same result. The last ``trailing`` axes do not take part in it (the matrices of a product)."""
    rank = None if trailing else len(target)
    whole = [Part(Operand(value, rank=rank), emission.type(value).shape) for value in operands]
    bare = [before_broadcast(emission, value, rank) for value in operands]
    pairs = list(zip(bare, whole, strict=True))
    for chosen in sorted(itertools.product((0, 1), repeat=len(pairs)), key=sum):
        choice = [pair[which] for pair, which in zip(pairs, chosen, strict=True)]
        if all(
            _inner(part, trailing) == _inner(full, trailing) for part, full in zip(choice, whole, strict=True)
        ):
            shapes = [part.shape[: len(part.shape) - trailing] for part in choice]
            if covers(shapes, target):
                return tuple(part.operand for part in choice)
    return tuple(part.operand for part in whole)


def _inner(part: Part, count: int) -> tuple[Dimension, ...]:
    """The last axes of a part's shape, at most as many as it has."""
    return part.shape[max(0, len(part.shape) - count) :]


def pointwise(emission: Emission, node: Node) -> Recipe:
    """Add, Sub, Mul, Div, Max, Min, Sum.

    A constant comes second where the order does not matter: ONNX Runtime 1.31 fuses a layer normalisation
    that adds its epsilon as the first operand, and then uses 1e-5 instead.
    """
    assert isinstance(node.operator, Operator)
    op_type = BINARY[type(node.operator)]
    target = emission.type(node.value).shape
    inputs = node.inputs
    if node.operator.commutative:
        inputs = tuple(sorted(inputs, key=lambda value: emission.is_constant(emission.resolve(value))))
    parts: tuple[Operand | Number, ...] = tuple(map(Operand, inputs))
    if emission.opset >= VARIADIC_BROADCAST or not isinstance(node.operator, Extremum | Sum):
        parts = without_broadcasts(emission, inputs, target)

    singles = [single_element(emission, part, target) for part in parts]

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        pairs = zip(singles, operands, strict=True)
        writer.node(op_type, [single.write(writer, name) for single, name in pairs], outputs)

    return Recipe(node.values, tuple(single.operand for single in singles), write)


def scale(emission: Emission, node: Node) -> Recipe:
    """Mul by a 0-d tensor; ONNX Runtime does not fold one with an axis of size 1 into a convolution, which
    is why the factor of a convolution has none for images of any size."""
    assert isinstance(node.operator, Scale)
    data, factor = node.inputs
    gate = emission.producer(data, HardSigmoid)
    clipped = None if gate is None else clip_of(gate.operator, _source(emission, factor))
    if gate is not None and clipped is not None:
        return _between(emission, node, gate.inputs[0], clipped.low, clipped.high)
    target = () if emission.producer(data, Conv) else emission.type(data).shape
    single = single_element(emission, Operand(factor), target)

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        writer.node("Mul", [operands[0], single.write(writer, operands[1])], outputs)

    return Recipe(node.values, (Operand(data), single.operand), write)


def _source(emission: Emission, value: Value) -> GraphOperator:
    return emission.graph[emission.resolve(value).node].operator


def clip(emission: Emission, node: Node) -> Recipe:
    """Clip between two numbers."""
    assert isinstance(node.operator, Clip)
    return _between(emission, node, node.inputs[0], node.operator.low, node.operator.high)


def _between(
    emission: Emission, node: Node, data: Value, low: Fraction | int, high: Fraction | int
) -> Recipe:
    element = emission.type(node.value).element
    if low > high and emission.opset < CLIP_TAKES_OPERANDS:
        raise UnsupportedError(
            f"clip: operator set {emission.opset} needs bounds in order, got {low}, {high}"
        )

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        if writer.opset < CLIP_TAKES_OPERANDS:
            writer.node("Clip", operands, outputs, {"min": float(low), "max": float(high)})
        else:
            bounds = (number(writer, float(bound), element) for bound in (low, high))
            writer.node("Clip", [*operands, *bounds], outputs)

    return Recipe(node.values, (Operand(data),), write)


CLIP_TAKES_OPERANDS = 11
"""The opset since which the bounds of Clip are operands."""


class Spread:
    """A vector shaped to broadcast with a tensor along one axis: stored in that shape if it is a weight, else
    reshaped."""

    def __init__(self, emission: Emission, node: Node, position: int) -> None:
        assert isinstance(node.operator, ChannelOperator)
        rank = emission.rank(node.inputs[0])
        axis = axis_of(node.operator.name, node.operator.axis, rank)
        vector = node.inputs[position]
        length = emission.type(vector).shape[0]
        self._shape: RuntimeShape | None = None
        trailing = rank - axis - 1
        if not trailing:
            self.operand = Operand(vector)
        elif emission.is_constant(vector) and isinstance(length, int):
            self.operand = Operand(vector, (length, *(1,) * trailing), rank)
        else:
            self.operand = Operand(vector)
            self._shape = RuntimeShape(emission, node.id, (-1, *(1,) * trailing))

    def write(self, writer: Writer, name: str) -> str:
        """Returns the name of the shaped vector."""
        if self._shape is None:
            return name
        shaped = writer.temporary("vector")
        writer.node("Reshape", [name, self._shape.write(writer, ())], [shaped])
        return shaped


def per_channel(emission: Emission, node: Node, op_type: str) -> Recipe:
    """Mul, Add or PRelu with one number per channel."""
    vector = Spread(emission, node, 1)

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        writer.node(op_type, [operands[0], vector.write(writer, operands[1])], outputs)

    return Recipe(node.values, (Operand(node.inputs[0]), vector.operand), write)


def power(emission: Emission, node: Node) -> Recipe:
    """Pow with a constant exponent, or roots and reciprocals."""
    assert isinstance(node.operator, Power)
    element, exponent = emission.type(node.value).element, float(node.operator.exponent)
    *first, last = ROOTS.get(node.operator.exponent, ("Pow",))

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        result = operands[0]
        for op_type in first:
            made = writer.temporary("root")
            writer.node(op_type, [result], [made])
            result = made
        numbers = [number(writer, exponent, element)] if last == "Pow" else []
        writer.node(last, [result, *numbers], outputs)

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def hard_swish(_emission: Emission, node: Node) -> Recipe:
    """HardSwish, or x * HardSigmoid(x) before opset 14."""
    assert isinstance(node.operator, HardSwish)

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        if writer.opset >= 14:
            writer.node("HardSwish", operands, outputs)
            return
        gate = writer.temporary("gate")
        writer.node("HardSigmoid", operands, [gate], {"alpha": 1 / 6, "beta": 0.5})
        writer.node("Mul", [operands[0], gate], outputs)

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def silu(emission: Emission, node: Node) -> Recipe:
    """x * Sigmoid(alpha x), which ONNX Runtime fuses and every opset has, instead of Swish."""
    assert isinstance(node.operator, Silu)
    alpha, element = float(node.operator.alpha), emission.type(node.value).element

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        (x,) = operands
        scaled, gate = x, writer.temporary("gate")
        if alpha != 1:
            scaled = writer.temporary("scaled")
            writer.node("Mul", [x, number(writer, alpha, element)], [scaled])
        writer.node("Sigmoid", [scaled], [gate])
        writer.node("Mul", [x, gate], outputs)

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def gelu(emission: Emission, node: Node) -> Recipe:
    """Gelu, or its definition before opset 20, in the form that ONNX Runtime fuses."""
    assert isinstance(node.operator, Gelu)
    operator, element = node.operator, emission.type(node.value).element

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        if writer.opset >= 20:
            writer.node("Gelu", operands, outputs, {"approximate": operator.approximate})
            return
        (x,) = operands
        curve = (_curve_by_tanh if operator.approximate == "tanh" else _curve_by_erf)(writer, x, element)
        raised, product = writer.temporary("raised"), writer.temporary("product")
        writer.node("Add", [curve, number(writer, 1.0, element)], [raised])
        writer.node("Mul", [x, raised], [product])
        writer.node("Mul", [product, number(writer, 0.5, element)], outputs)

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def _curve_by_erf(writer: Writer, x: str, element: ElementType) -> str:
    scaled, curve = writer.temporary("scaled"), writer.temporary("curve")
    writer.node("Div", [x, number(writer, math.sqrt(2), element)], [scaled])
    writer.node("Erf", [scaled], [curve])
    return curve


def _curve_by_tanh(writer: Writer, x: str, element: ElementType) -> str:
    names = [writer.temporary(hint) for hint in ("cube", "bent", "sum", "scaled", "curve")]
    cube, bent, total, scaled, curve = names
    writer.node("Pow", [x, number(writer, 3.0, element)], [cube])
    writer.node("Mul", [cube, number(writer, 0.044715, element)], [bent])
    writer.node("Add", [x, bent], [total])
    writer.node("Mul", [total, number(writer, math.sqrt(2 / math.pi), element)], [scaled])
    writer.node("Tanh", [scaled], [curve])
    return curve


def softmax(emission: Emission, node: Node) -> Recipe:
    """Softmax, LogSoftmax; before opset 13 they span all axes from the given one on, so the axis is moved
    to the end."""
    assert isinstance(node.operator, Softmax | LogSoftmax)
    form = node.operator.onnx
    assert form is not None, "both are one node"
    type_: TensorType = emission.type(node.value)
    axis = axis_of(node.operator.name, node.operator.axis, type_.rank)
    moved = (*(other for other in range(type_.rank) if other != axis), axis)
    back = tuple(moved.index(position) for position in range(type_.rank))
    spans_more = any(size != 1 for size in type_.shape[axis + 1 :])

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        if writer.opset >= 13 or not spans_more:
            writer.node(form.op_type, operands, outputs, {"axis": axis})
            return
        last, result = writer.temporary("last"), writer.temporary("result")
        writer.node("Transpose", operands, [last], {"perm": moved})
        writer.node(form.op_type, [last], [result], {"axis": type_.rank - 1})
        writer.node("Transpose", [result], outputs, {"perm": back})

    return Recipe(node.values, (Operand(node.inputs[0]),), write)
