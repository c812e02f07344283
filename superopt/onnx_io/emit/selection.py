"""Emit choices, comparisons, logic on truth values, and casts."""

from __future__ import annotations

from superopt.errors import UnsupportedError
from superopt.ir.graph import Node
from superopt.ir.types import ElementType
from superopt.onnx_io.emit.elementwise import VARIADIC_BROADCAST, number, without_broadcasts
from superopt.onnx_io.emit.recipes import Emission, Operand, Recipe, Writer
from superopt.onnx_io.protos import ONNX_ELEMENTS
from superopt.ops.base import Operator
from superopt.ops.elementwise.precision import Cast
from superopt.ops.elementwise.selection import Equal, Greater, LogicalAnd, LogicalNot, LogicalOr, Select

NAMES: dict[type[Operator], tuple[str, int]] = {
    Equal: ("Equal", 7),
    Greater: ("Greater", 7),
    LogicalAnd: ("And", 7),
    LogicalNot: ("Not", 1),
    LogicalOr: ("Or", 7),
    Select: ("Where", 9),
}
"""The ONNX operators, and the opsets since which they broadcast."""


EQUAL_OF_FLOATS = 11
CAST_TO_BFLOAT16 = 13


def pointwise(emission: Emission, node: Node) -> Recipe:
    """Where, Greater, Equal, And, Or, Not; conditions that are numbers are compared with 0 first."""
    operator = node.operator
    assert isinstance(operator, Operator)
    op_type, since = NAMES[type(operator)]
    if isinstance(operator, Equal) and emission.type(node.inputs[0]).element.is_float:
        since = EQUAL_OF_FLOATS
    if emission.opset < since:
        raise UnsupportedError(f"{operator.name}: operator set {emission.opset} has no {op_type}")
    numbers = [
        (slot, emission.type(value).element)
        for slot, value in enumerate(node.inputs)
        if slot in operator.conditions and emission.type(value).element is not ElementType.BOOL
    ]

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        names = list(operands)
        for slot, element in numbers:
            names[slot] = writer.temporary("condition")
            writer.node("Greater", [operands[slot], number(writer, 0, element)], [names[slot]])
        writer.node(op_type, names, outputs)

    return Recipe(
        node.values, without_broadcasts(emission, node.inputs, emission.type(node.value).shape), write
    )


def lookup(emission: Emission, node: Node) -> Recipe:
    """Gather along the first axis; indices that are numbers are rounded to the nearest row first."""
    count, indices = emission.type(node.inputs[0]).shape[0], emission.type(node.inputs[1]).element
    if indices.is_float and emission.opset < VARIADIC_BROADCAST:
        raise UnsupportedError(f"lookup: operator set {emission.opset} needs whole numbers as indices")
    if indices.is_float and not isinstance(count, int):
        raise UnsupportedError(f"lookup: indices that are numbers need a known number of rows, got {count}")

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        table, rows = operands
        if indices.is_float:
            assert isinstance(count, int)
            rows = _nearest(writer, rows, count, indices)
        writer.node("Gather", [table, rows], outputs, {"axis": 0})

    return Recipe(node.values, tuple(map(Operand, node.inputs)), write)


def _nearest(writer: Writer, indices: str, count: int, element: ElementType) -> str:
    """The nearest rows, halves down, within those that there are, as whole numbers."""
    names = [writer.temporary(hint) for hint in ("below", "whole", "least", "most", "rows")]
    below, whole, least, most, rows = names
    writer.node("Sub", [indices, number(writer, 0.5, element)], [below])
    writer.node("Ceil", [below], [whole])
    writer.node("Max", [whole, number(writer, -count, element)], [least])
    writer.node("Min", [least, number(writer, count - 1, element)], [most])
    writer.node("Cast", [most], [rows], {"to": ONNX_ELEMENTS[ElementType.INT64]})
    return rows


def cast(emission: Emission, node: Node) -> Recipe:
    """Cast to the type of the result."""
    assert isinstance(node.operator, Cast)
    element = emission.type(node.value).element
    if element is ElementType.BFLOAT16 and emission.opset < CAST_TO_BFLOAT16:
        raise UnsupportedError(f"cast: operator set {emission.opset} has no bfloat16")

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        writer.node("Cast", operands, outputs, {"to": ONNX_ELEMENTS[element]})

    return Recipe(node.values, (Operand(node.inputs[0]),), write)
