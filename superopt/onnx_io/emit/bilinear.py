"""Emit convolutions by bilinear algorithms, in the form that ONNX Runtime 1.31 computes fastest on a CPU.

The runtime keeps images in blocks of channels between convolutions. So data are transformed by convolutions
of each channel by itself, one for each point, and all points are multiplied by one grouped convolution. The
results are transformed back by a matrix product for each axis, behind which one axis is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from superopt.ir.graph import Node, Value
from superopt.onnx_io.emit.bilinear_form import Form, floats
from superopt.onnx_io.emit.bilinear_images import open_shapes, write_image
from superopt.onnx_io.emit.recipes import Emission, OnnxAttribute, Operand, Recipe, Writer, known
from superopt.onnx_io.emit.tensor_nodes import TensorNodes
from superopt.ops.bilinear.convolution import FilterTransform


def bilinear_conv(emission: Emission, node: Node) -> Recipe:
    """A bilinear convolution without bias."""
    return bilinear_convolution(emission, node, node.values, None)


def bilinear_convolution(
    emission: Emission, node: Node, defines: tuple[Value, ...], bias: Value | None
) -> Recipe:
    """A bilinear convolution; the bias is added at points where it is transformed back to itself."""
    form = Form.of(emission, node)
    shapes = open_shapes(emission, node.id, form)
    operands = (*node.inputs, *(() if bias is None else (bias,)))

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        nodes = TensorNodes(writer, form.element)
        image, weight, *biases = names[: len(operands)]
        shape = None if shapes is None else shapes.writing(writer, names[len(operands) :])
        phases, samples = form.phases, _samples(emission, node)
        if phases is None:
            _convolved(nodes, form, image, weight, biases, outputs[0], shape)
            return
        if phases.sequence == 1:
            weight = nodes.reshaped(weight, (form.points * form.outputs, -1, form.taps[0], 1))
        image = phases.apart(nodes, image, samples, form.channels, shape)
        result = writer.temporary("phases")
        _convolved(nodes, form, image, weight, biases, result, shape)
        phases.together(nodes, result, samples, form.outputs, outputs[0], shape)

    read = () if shapes is None else shapes.operands
    return Recipe(defines, (*map(Operand, operands), *read), write)


def _samples(emission: Emission, node: Node) -> int:
    samples = emission.type(node.value).shape[0]
    return samples if isinstance(samples, int) else -1


def _convolved(
    nodes: TensorNodes,
    form: Form,
    image: str,
    weight: str,
    biases: Sequence[str],
    output: str,
    shape: Callable[[str], str] | None,
) -> None:
    """The convolution without a dilation."""
    prepare = _Apart if form.is_apart else _Joined
    products = prepare(nodes, form, weight, biases)
    strips = form.strips()
    if len(strips) == 1:
        write_image(nodes, form, products.of(form, image), output, shape)
        return
    done: list[str] = []
    for strip, low, high in strips:
        rows = nodes.piece(image, 2, low, high)
        done.append(nodes.writer.temporary("strip"))
        write_image(nodes, strip, products.of(strip, rows), done[-1])
    nodes.node("Concat", done, {"axis": 2}, output)


def _at_points(nodes: TensorNodes, form: Form, image: str) -> list[str]:
    """The transform of the data: tensors that together have the channels of the first point of the columns
    before those of the second."""
    parts, channels = [image], form.channels
    for axis in form.transformed:
        joined, tiling = nodes.joined(parts), axis.tiling
        attributes: dict[str, OnnxAttribute] = {
            "group": channels,
            "kernel_shape": axis.pair(tiling.reads, 1),
            "strides": axis.pair(tiling.step, 1),
            "pads": axis.margins,
        }
        kernels = [
            np.tile(row.reshape(1, 1, *axis.pair(tiling.reads, 1)), (channels, 1, 1, 1))
            for row in floats(tiling.left)
        ]
        parts = [nodes.node("Conv", [joined, nodes.numbers(kernel)], attributes) for kernel in kernels]
        channels *= axis.points
    return parts


class _Joined:
    """One convolution with the groups of all points."""

    def __init__(self, nodes: TensorNodes, form: Form, weight: str, biases: Sequence[str]) -> None:
        self._nodes = nodes
        self._operands = [weight]
        for bias in biases:
            column = nodes.numbers(form.unit[:, np.newaxis])
            self._operands.append(nodes.reshaped(nodes.node("Mul", [column, bias]), [-1]))

    def of(self, form: Form, image: str) -> str:
        """The products at all points."""
        joined = self._nodes.joined(_at_points(self._nodes, form, image))
        attributes = {**form.products, "group": form.points * form.groups}
        return self._nodes.node("Conv", [joined, *self._operands], attributes)


class _Apart:
    """A convolution for each point."""

    def __init__(self, nodes: TensorNodes, form: Form, weight: str, biases: Sequence[str]) -> None:
        self._nodes = nodes
        self._operands = [[part] for part in nodes.divided(weight, form.points, form.outputs)]
        for bias in biases:
            for operands, factor in zip(self._operands, form.unit, strict=True):
                if factor == 1:
                    operands.append(bias)
                elif factor != 0:
                    operands.append(nodes.node("Mul", [bias, nodes.numbers(np.asarray(factor))]))

    def of(self, form: Form, image: str) -> str:
        """The products at all points."""
        parts = _at_points(self._nodes, form, image)
        results = [
            self._nodes.node("Conv", [part, *operands], form.products)
            for part, operands in zip(parts, self._operands, strict=True)
        ]
        return self._nodes.joined(results)


def filter_transform(emission: Emission, node: Node) -> Recipe:
    """Matrix products from both sides for each part of the kernel, for kernels computed at run time."""
    operator = node.operator
    assert isinstance(operator, FilterTransform)
    type_ = emission.type(node.inputs[0])
    shape = [known(operator.name, size) for size in type_.shape]
    final = [known(operator.name, size) for size in emission.type(node.value).shape]
    rows, columns = (
        floats(algorithm[1]) if algorithm else np.ones((1, 1))
        for algorithm in (operator.rows, operator.columns)
    )

    def write(writer: Writer, names: tuple[str, ...], results: tuple[str, ...]) -> None:
        nodes = TensorNodes(writer, type_.element)
        kernel, sizes = names[0], list(shape)
        for axis, zeros in enumerate(operator.zeros, start=2):
            if zeros:
                behind = nodes.numbers(np.zeros((*sizes[:axis], zeros, *sizes[axis + 1 :])))
                kernel = nodes.node("Concat", [kernel, behind], {"axis": axis})
                sizes[axis] += zeros
        kernels, down, across = shape[0] * shape[1], *final[2:]
        kernel = nodes.reshaped(kernel, (kernels, down, rows.shape[1], sizes[3]))
        if operator.rows:
            kernel = nodes.node("MatMul", [nodes.numbers(rows), kernel])
        kernel = nodes.reshaped(kernel, (kernels, down, len(rows), across, columns.shape[1]))
        if operator.columns:
            kernel = nodes.node("MatMul", [kernel, nodes.numbers(columns.T)])
        nodes.reshaped(nodes.transposed(kernel, (4, 2, 0, 1, 3)), final, results[0])

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


__all__ = ["bilinear_conv", "bilinear_convolution", "filter_transform"]
