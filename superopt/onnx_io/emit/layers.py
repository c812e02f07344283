"""Emit layers with their biases: matrix products, convolutions, poolings and batch normalisation."""

from __future__ import annotations

import numpy as np

from superopt.errors import UnsupportedError
from superopt.ir.graph import Node, Value
from superopt.ir.types import ElementType
from superopt.onnx_io.emit.bilinear import bilinear_convolution
from superopt.onnx_io.emit.bilinear_product import product_with_bias
from superopt.onnx_io.emit.elementwise import Spread, per_channel, without_broadcasts
from superopt.onnx_io.emit.recipes import Emission, OnnxAttribute, Operand, Recipe, Writer, known
from superopt.onnx_io.emit.shape import only_reshapes
from superopt.onnx_io.protos import dtype_of
from superopt.ops.base import axis_of
from superopt.ops.bilinear.convolution import BilinearConv
from superopt.ops.bilinear.product import BilinearMatmul
from superopt.ops.elementwise.affine import Affine, BatchNormScale, BatchNormShift, BiasAdd
from superopt.ops.images.convolution import Conv, Enlarge, KernelResponse
from superopt.ops.images.pooling import AveragePool, MaxPool, Pool
from superopt.ops.images.transposed import ConvTranspose
from superopt.ops.images.upsampling import LinearUpsample, Upsample
from superopt.ops.images.windows import Padding
from superopt.ops.matrix import Matmul, Transpose

ACTIVATIONS = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}


def matmul(emission: Emission, node: Node) -> Recipe:
    """MatMul; batch dimensions broadcast implicitly."""
    assert isinstance(node.operator, Matmul)
    target = emission.type(node.value).shape[:-2]
    parts = without_broadcasts(emission, node.inputs, target, trailing=2)

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        writer.node("MatMul", operands, outputs)

    return Recipe(node.values, parts, write)


def bias_add(emission: Emission, node: Node) -> Recipe:
    """The bias of a convolution or Gemm with no other reader, or an Add."""
    assert isinstance(node.operator, BiasAdd)
    data, bias = node.inputs
    rank = emission.rank(data)
    axis = axis_of("bias_add", node.operator.axis, rank)
    transposed = emission.producer(data, ConvTranspose)
    if transposed is not None and axis == 1:
        return _transposed(emission, transposed, node.values, bias)
    layer = emission.producer(data, Conv)
    if layer is not None and axis == 1 and getattr(layer.operator, "activation", "") == "none":
        return _convolution(emission, layer, node.values, bias)
    bilinear = emission.producer(data, BilinearConv)
    if bilinear is not None and axis == 1:
        return bilinear_convolution(emission, bilinear, node.values, bias)
    blocks = emission.producer(data, BilinearMatmul)
    if blocks is not None and axis == rank - 1:
        recipe = product_with_bias(emission, blocks, node.values, bias)
        if recipe is not None:
            return recipe
    product = emission.producer(data, Matmul)
    if product is not None and axis == 1 and rank == 2 and _fits_gemm(emission, product):
        return _gemm(emission, product, node.values, bias)
    return per_channel(emission, node, "Add")


def _fits_gemm(emission: Emission, product: Node) -> bool:
    types = [emission.type(value) for value in product.inputs]
    return all(t.rank == 2 and t.element in (ElementType.FLOAT, ElementType.DOUBLE) for t in types)


def _gemm(emission: Emission, product: Node, defines: tuple[Value, ...], bias: Value) -> Recipe:
    operands: list[Value] = []
    flags: dict[str, OnnxAttribute] = {}
    for value, flag in zip(product.inputs, ("transA", "transB"), strict=True):
        source = emission.graph[emission.resolve(value).node]
        transposed = _is_transposed(emission, source)
        operands.append(source.inputs[0] if transposed else value)
        if transposed:
            flags[flag] = 1

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        writer.node("Gemm", names, outputs, flags)

    return Recipe(defines, (*(Operand(value) for value in operands), Operand(bias)), write)


def _is_transposed(emission: Emission, source: Node) -> bool:
    """Whether Gemm can read the operand of a transposed matrix; a vector is reshaped, which is faster."""
    is_swapped = isinstance(source.operator, Transpose) and source.operator.permutation(2) == (1, 0)
    return is_swapped and not only_reshapes(emission, source)


def conv(emission: Emission, node: Node) -> Recipe:
    """Conv without bias, followed by its activation as a separate node."""
    return _convolution(emission, node, node.values, None)


def _convolution(emission: Emission, node: Node, defines: tuple[Value, ...], bias: Value | None) -> Recipe:
    operator = node.operator
    assert isinstance(operator, Conv)
    data, weight = emission.type(node.inputs[0]), emission.type(node.inputs[1])
    kernel = (known("conv", weight.shape[2]), known("conv", weight.shape[3]))
    attributes: dict[str, OnnxAttribute] = {
        "dilations": operator.dilation,
        "group": known("conv, groups", operator.groups(data, weight)),
        "kernel_shape": kernel,
        "strides": operator.stride,
        **padding_attributes(operator.padding, kernel, operator.dilation),
    }

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        if operator.activation == "none":
            writer.node("Conv", names, outputs, attributes)
            return
        result = writer.temporary("conv")
        writer.node("Conv", names, [result], attributes)
        writer.node(ACTIVATIONS[operator.activation], [result], outputs)

    operands = (*node.inputs, *(() if bias is None else (bias,)))
    return Recipe(defines, tuple(Operand(value) for value in operands), write)


def conv_transpose(emission: Emission, node: Node) -> Recipe:
    """ConvTranspose without bias."""
    return _transposed(emission, node, node.values, None)


def _transposed(emission: Emission, node: Node, defines: tuple[Value, ...], bias: Value | None) -> Recipe:
    operator = node.operator
    assert isinstance(operator, ConvTranspose)
    weight = emission.type(node.inputs[1])
    kernel = tuple(known("conv_transpose", size) for size in weight.shape[2:])
    attributes: dict[str, OnnxAttribute] = {
        "dilations": operator.dilation,
        "kernel_shape": kernel,
        "pads": tuple(known("conv_transpose", margin) for margin in operator.margins(kernel)),
        "strides": operator.stride,
    }

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        writer.node("ConvTranspose", names, outputs, attributes)

    operands = (*node.inputs, *(() if bias is None else (bias,)))
    return Recipe(defines, tuple(Operand(value) for value in operands), write)


def flip(emission: Emission, node: Node) -> Recipe:
    """Gathers the columns, then the rows, of a kernel that is computed at run time from the last to the
    first."""
    type_ = emission.type(node.inputs[0])
    sizes = [known("flip", size) for size in type_.shape[2:]]

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        rows, columns = (writer.constant(np.arange(size)[::-1].copy(), "backwards") for size in sizes)
        part = writer.temporary("flip")
        writer.node("Gather", [names[0], columns], [part], {"axis": 3})
        writer.node("Gather", [part, rows], outputs, {"axis": 2})

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def padding_attributes(
    padding: Padding, kernel: tuple[int, int], dilation: tuple[int, int]
) -> dict[str, OnnxAttribute]:
    """``pads`` where the numbers are known, ``auto_pad`` where they depend on the input size."""
    match padding:
        case "valid":
            return {"pads": (0, 0, 0, 0)}
        case "same":
            top, left = (d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True))
            return {"pads": (top, left, top, left)}
        case "same_upper" | "same_lower":
            return {"auto_pad": padding.upper()}
        case _:
            assert isinstance(padding, tuple)
            return {"pads": padding}


def _pool(node: Node, op_type: str, more: dict[str, OnnxAttribute]) -> Recipe:
    operator = node.operator
    assert isinstance(operator, Pool)
    attributes = {
        "kernel_shape": operator.kernel,
        "strides": operator.stride,
        **padding_attributes(operator.padding, operator.kernel, (1, 1)),
        **more,
    }

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        writer.node(op_type, names, outputs, attributes)

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def max_pool(_emission: Emission, node: Node) -> Recipe:
    """MaxPool."""
    assert isinstance(node.operator, MaxPool)
    return _pool(node, "MaxPool", {})


def average_pool(_emission: Emission, node: Node) -> Recipe:
    """AveragePool, with or without counting the padding."""
    assert isinstance(node.operator, AveragePool)
    counted = node.operator.includes_padding
    return _pool(node, "AveragePool", {"count_include_pad": 1} if counted else {})


def upsample(emission: Emission, node: Node) -> Recipe:
    """Resize by factors; requires opset 11."""
    operator = node.operator
    assert isinstance(operator, Upsample)
    if emission.opset < 11:
        raise UnsupportedError(f"{operator.name}: operator set {emission.opset} has no equivalent Resize")
    is_linear = isinstance(operator, LinearUpsample)
    attributes: dict[str, OnnxAttribute] = {
        "mode": "linear" if is_linear else "nearest",
        "coordinate_transformation_mode": "half_pixel" if is_linear else "asymmetric",
        **({} if is_linear else {"nearest_mode": "floor"}),
    }

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        scales = writer.constant(np.array([1, 1, *operator.stride], np.float32), "scales")
        nowhere = "" if writer.opset >= 13 else writer.constant(np.zeros(0, np.float32), "region")
        writer.node("Resize", [*names, nowhere, scales], outputs, attributes)

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def affine(emission: Emission, node: Node) -> Recipe:
    """BatchNormalization with mean 0, variance 1 and epsilon 0 along axis 1, else Mul and Add."""
    assert isinstance(node.operator, Affine)
    type_ = emission.type(node.inputs[0])
    axis = axis_of("affine", node.operator.axis, type_.rank)
    channels = type_.shape[1] if type_.rank > 1 else None
    if axis == 1 and isinstance(channels, int) and type_.element in (ElementType.FLOAT, ElementType.DOUBLE):
        dtype = dtype_of(type_.element)

        def normalise(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
            mean = writer.constant(np.zeros(channels, dtype), "zeros")
            variance = writer.constant(np.ones(channels, dtype), "ones")
            writer.node("BatchNormalization", [*names, mean, variance], outputs, {"epsilon": 0.0})

        return Recipe(node.values, tuple(Operand(value) for value in node.inputs), normalise)
    factor, term = Spread(emission, node, 1), Spread(emission, node, 2)

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        product = writer.temporary("product")
        writer.node("Mul", [names[0], factor.write(writer, names[1])], [product])
        writer.node("Add", [product, term.write(writer, names[2])], outputs)

    return Recipe(node.values, (Operand(node.inputs[0]), factor.operand, term.operand), write)


def enlarge(emission: Emission, node: Node) -> Recipe:
    """Concatenates zeros on all sides of a kernel that is computed at run time. Pad is not used, because ONNX
    Runtime fuses a Pad into the following convolution even if it pads the kernel."""
    assert isinstance(node.operator, Enlarge)
    type_ = emission.type(node.inputs[0])
    shape = [known("enlarge", size) for size in type_.shape]
    steps = [
        (axis, (new - old) // 2)
        for axis, old, new in zip((2, 3), shape[2:], node.operator.kernel, strict=True)
        if new > old
    ]

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        sizes, part = list(shape), names[0]
        for step, (axis, margin) in enumerate(steps, start=1):
            zeros = np.zeros((*sizes[:axis], margin, *sizes[axis + 1 :]), dtype_of(type_.element))
            side = writer.constant(zeros, "zeros")
            result = outputs[0] if step == len(steps) else writer.temporary("enlarged")
            writer.node("Concat", [side, part, side], [result], {"axis": axis})
            sizes[axis], part = sizes[axis] + 2 * margin, result
        if not steps:
            writer.node("Identity", [part], outputs)

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def batch_norm_scale(emission: Emission, node: Node) -> Recipe:
    """gamma / sqrt(variance + epsilon), for statistics computed at run time."""
    assert isinstance(node.operator, BatchNormScale)
    epsilon = np.asarray(float(node.operator.epsilon)).astype(dtype_of(emission.type(node.value).element))

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        shifted, deviation = writer.temporary("shifted"), writer.temporary("deviation")
        writer.node("Add", [names[1], writer.constant(epsilon, "epsilon")], [shifted])
        writer.node("Sqrt", [shifted], [deviation])
        writer.node("Div", [names[0], deviation], outputs)

    return Recipe(node.values, tuple(Operand(value) for value in node.inputs), write)


def batch_norm_shift(_emission: Emission, node: Node) -> Recipe:
    """beta - mean * scale, for statistics computed at run time."""
    assert isinstance(node.operator, BatchNormShift)

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        product = writer.temporary("product")
        writer.node("Mul", [names[2], names[0]], [product])
        writer.node("Sub", [names[1], product], outputs)

    return Recipe(node.values, tuple(Operand(value) for value in node.inputs), write)


def kernel_response(emission: Emission, node: Node) -> Recipe:
    """The convolution of an image of the kernel's size, for kernels computed at run time."""
    assert isinstance(node.operator, KernelResponse)
    weight, vector = (emission.type(value) for value in node.inputs)
    kernel = (known("kernel_response", weight.shape[2]), known("kernel_response", weight.shape[3]))
    channels = known("kernel_response", vector.shape[0])
    groups = channels // known("kernel_response", weight.shape[1])

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        column, image, answer = (writer.temporary(hint) for hint in ("column", "image", "answer"))
        one_pixel = writer.constant(np.array([1, channels, 1, 1], np.int64), "shape")
        size = writer.constant(np.array([1, channels, *kernel], np.int64), "shape")
        flat = writer.constant(np.array([-1], np.int64), "shape")
        writer.node("Reshape", [names[1], one_pixel], [column])
        writer.node("Expand", [column, size], [image])
        writer.node("Conv", [image, names[0]], [answer], {"group": groups, "kernel_shape": kernel})
        writer.node("Reshape", [answer, flat], outputs)

    return Recipe(node.values, tuple(Operand(value) for value in node.inputs), write)
