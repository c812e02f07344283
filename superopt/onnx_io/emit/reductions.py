"""Emit reductions, and normalisations made of them, in the form of the model's opset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from superopt.ir.dimensions import product
from superopt.ir.graph import Node
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.emit.elementwise import number
from superopt.onnx_io.emit.recipes import Emission, Operand, Recipe, Writer, known
from superopt.onnx_io.emit.runtime_shapes import RuntimeShapes
from superopt.onnx_io.emit.tensor_nodes import EXPAND, TensorNodes
from superopt.onnx_io.lifting.reductions import axes_are_an_operand, is_faster_as_product
from superopt.ops.base import Operator, axis_of
from superopt.ops.normalization import LayerNormalization, RmsNormalization
from superopt.ops.reduction import ReduceMax, ReduceMean, ReduceMin, ReduceSum, Reduction

NAMES: Mapping[type[Operator], str] = {
    ReduceSum: "ReduceSum",
    ReduceMean: "ReduceMean",
    ReduceMax: "ReduceMax",
    ReduceMin: "ReduceMin",
}
LAYER_NORMALIZATION_SINCE = 17
RMS_NORMALIZATION_SINCE = 23


def reduction(emission: Emission, node: Node) -> Recipe:
    """ReduceSum, ReduceMean, ReduceMax, ReduceMin; one for nested ones. Axes are kept."""
    assert isinstance(node.operator, Reduction)
    kind = type(node.operator)
    axes, innermost = [_reduced_axis(emission, node)], node
    while True:
        inner = emission.producer(innermost.inputs[0], kind)
        if inner is None or inner.id in emission.untouched or _reduced_axis(emission, inner) in axes:
            break
        axes, innermost = [*axes, _reduced_axis(emission, inner)], inner
    if kind in (ReduceMean, ReduceSum) and len(axes) == 1 and emission.opset >= EXPAND:
        data = emission.type(node.inputs[0])
        if is_faster_as_product(data, axes[0]):
            return _product(emission, node, data, axes[0])

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        reduce_axes(writer, NAMES[kind], operands[0], outputs[0], *sorted(axes))

    return Recipe(node.values, (Operand(innermost.inputs[0]),), write)


def _product(emission: Emission, node: Node, data: TensorType, axis: int) -> Recipe:
    """A product with a row of ones, or of shares, for each sample."""
    samples, others = data.shape[:axis] or (1,), data.shape[axis + 1 :] or (1,)
    size = known(node.operator.name, data.shape[axis])
    row = np.full((1, size), 1 / size if isinstance(node.operator, ReduceMean) else 1.0)
    result = emission.type(node.value).shape
    shapes = RuntimeShapes(
        emission, node.id, {"flat": (samples, size, others), "result": result, "samples": (samples, 1, 1)}
    )

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        nodes = TensorNodes(writer, data.element)
        shape = shapes.writing(writer, operands[1:])
        matrix = nodes.numbers(row)
        if not isinstance(product(samples), int):
            matrix = writer.calculated("Expand", [matrix, shape("samples")])
        sums = nodes.node("MatMul", [matrix, nodes.node("Reshape", [operands[0], shape("flat")])])
        nodes.node("Reshape", [sums, shape("result")], output=outputs[0])

    return Recipe(node.values, (Operand(node.inputs[0]), *shapes.operands), write)


def _reduced_axis(emission: Emission, node: Node) -> int:
    assert isinstance(node.operator, Reduction)
    return axis_of(node.operator.name, node.operator.axis, emission.rank(node.inputs[0]))


def layer_normalization(emission: Emission, node: Node) -> Recipe:
    """LayerNormalization, or its definition before opset 17, in the form that ONNX Runtime fuses."""
    assert isinstance(node.operator, LayerNormalization)
    epsilon = float(node.operator.epsilon)
    type_ = emission.type(node.value)
    last, element = type_.rank - 1, type_.element

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        if writer.opset >= LAYER_NORMALIZATION_SINCE:
            writer.node("LayerNormalization", operands, outputs, {"axis": -1, "epsilon": epsilon})
            return
        x, factor, term = operands
        mean, centred, scaled = (writer.temporary(hint) for hint in ("mean", "centred", "scaled"))
        reduce_axes(writer, "ReduceMean", x, mean, last)
        writer.node("Sub", [x, mean], [centred])
        _by_mean_square(writer, [centred, factor], [scaled], last, element, epsilon)
        writer.node("Add", [scaled, term], outputs)

    return Recipe(node.values, tuple(Operand(value) for value in node.inputs), write)


def rms_normalization(emission: Emission, node: Node) -> Recipe:
    """RMSNormalization, or its definition before opset 23, in the form that ONNX Runtime fuses."""
    assert isinstance(node.operator, RmsNormalization)
    epsilon = float(node.operator.epsilon)
    type_ = emission.type(node.value)
    last, element = type_.rank - 1, type_.element

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        if writer.opset >= RMS_NORMALIZATION_SINCE:
            writer.node("RMSNormalization", operands, outputs, {"axis": -1, "epsilon": epsilon})
        else:
            _by_mean_square(writer, operands, outputs, last, element, epsilon)

    return Recipe(node.values, tuple(Operand(value) for value in node.inputs), write)


def _by_mean_square(
    writer: Writer,
    operands: Sequence[str],
    outputs: Sequence[str],
    axis: int,
    element: ElementType,
    epsilon: float,
) -> None:
    hints = ("square", "mean", "shifted", "deviation", "normal")
    square, mean, shifted, deviation, normal = (writer.temporary(hint) for hint in hints)
    x, factor = operands
    writer.node("Pow", [x, number(writer, 2.0, element)], [square])
    reduce_axes(writer, "ReduceMean", square, mean, axis)
    writer.node("Add", [mean, number(writer, epsilon, element)], [shifted])
    writer.node("Sqrt", [shifted], [deviation])
    writer.node("Div", [x, deviation], [normal])
    writer.node("Mul", [normal, factor], outputs)


def reduce_axes(writer: Writer, op_type: str, operand: str, output: str, *axes: int, keep: int = 1) -> None:
    """Writes one reduction; ``keep`` is 1 if the axes stay with size 1, else 0."""
    if axes_are_an_operand(op_type, writer.opset):
        numbers = writer.constant(np.array(axes, np.int64), "axes")
        writer.node(op_type, [operand, numbers], [output], {"keepdims": keep})
    else:
        writer.node(op_type, [operand], [output], {"axes": axes, "keepdims": keep})
