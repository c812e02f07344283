"""The table of emitters from operators to ONNX nodes; operators with a declared ONNX form need no entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import cast

import onnx
from onnx.defs import OpSchema

from superopt.errors import UnsupportedError
from superopt.ir.graph import Node
from superopt.onnx_io.emit import (
    bilinear,
    bilinear_product,
    conv_data_gradient,
    conv_weight_gradient,
    elementwise,
    gradients,
    layers,
    reductions,
    selection,
    shape,
)
from superopt.onnx_io.emit.recipes import Emission, OnnxAttribute, Operand, Recipe, Writer
from superopt.ops import Operator, attributes_of
from superopt.ops.bilinear.convolution import BilinearConv, FilterTransform
from superopt.ops.bilinear.product import BilinearMatmul, ProductTransform
from superopt.ops.elementwise.activation import Gelu, HardSwish, LogSoftmax, Silu, Softmax
from superopt.ops.elementwise.affine import Affine, BatchNormScale, BatchNormShift, BiasAdd, ChannelScale
from superopt.ops.elementwise.arithmetic import Add, Divide, Multiply, Power, Scale, Subtract, Sum
from superopt.ops.elementwise.order import Clip, Maximum, Minimum, PRelu
from superopt.ops.elementwise.precision import Cast
from superopt.ops.elementwise.selection import Equal, Greater, LogicalAnd, LogicalNot, LogicalOr, Select
from superopt.ops.filled import Full, Ones
from superopt.ops.gradients.convolution import ConvDataGradient, ConvWeightGradient
from superopt.ops.gradients.pooling import AveragePoolGradient, LinearUpsampleGradient, MaxPoolGradient
from superopt.ops.gradients.transposes import (
    ChannelSum,
    LookupGradient,
    MatmulWeightGradient,
    SumTo,
    Unreshape,
)
from superopt.ops.images.convolution import Conv, Enlarge, KernelResponse
from superopt.ops.images.pooling import AveragePool, MaxPool
from superopt.ops.images.transposed import ConvTranspose, Flip
from superopt.ops.images.upsampling import LinearUpsample, NearestUpsample
from superopt.ops.lookup import Lookup
from superopt.ops.matrix import Matmul, Transpose
from superopt.ops.normalization import LayerNormalization, RmsNormalization
from superopt.ops.reduction import ReduceMax, ReduceMean, ReduceMin, ReduceSum
from superopt.ops.shape import Broadcast, Concat, Reshape, Split

EMITTERS: Mapping[type[Operator], Callable[[Emission, Node], Recipe]] = {
    Add: gradients.addition,
    Affine: layers.affine,
    AveragePool: layers.average_pool,
    AveragePoolGradient: gradients.average_pool_gradient,
    BatchNormScale: layers.batch_norm_scale,
    BatchNormShift: layers.batch_norm_shift,
    BiasAdd: layers.bias_add,
    BilinearConv: bilinear.bilinear_conv,
    BilinearMatmul: bilinear_product.bilinear_matmul,
    Broadcast: shape.broadcast,
    ChannelScale: lambda emission, node: elementwise.per_channel(emission, node, "Mul"),
    Cast: selection.cast,
    ChannelSum: gradients.channel_sum,
    Clip: elementwise.clip,
    Concat: shape.concat,
    Conv: layers.conv,
    ConvDataGradient: conv_data_gradient.conv_data_gradient,
    ConvTranspose: layers.conv_transpose,
    Flip: layers.flip,
    ConvWeightGradient: conv_weight_gradient.conv_weight_gradient,
    Divide: elementwise.pointwise,
    Enlarge: layers.enlarge,
    Equal: selection.pointwise,
    FilterTransform: bilinear.filter_transform,
    Full: shape.filled,
    Gelu: elementwise.gelu,
    Greater: selection.pointwise,
    HardSwish: elementwise.hard_swish,
    KernelResponse: layers.kernel_response,
    LayerNormalization: reductions.layer_normalization,
    LinearUpsample: layers.upsample,
    LinearUpsampleGradient: gradients.upsample_linear_gradient,
    LogicalAnd: selection.pointwise,
    LogicalNot: selection.pointwise,
    LogicalOr: selection.pointwise,
    LogSoftmax: elementwise.softmax,
    Lookup: selection.lookup,
    LookupGradient: gradients.lookup_gradient,
    Matmul: layers.matmul,
    MatmulWeightGradient: gradients.matmul_weight_gradient,
    Maximum: elementwise.pointwise,
    MaxPool: layers.max_pool,
    MaxPoolGradient: gradients.maxpool_gradient,
    Minimum: elementwise.pointwise,
    Multiply: elementwise.pointwise,
    NearestUpsample: layers.upsample,
    Ones: shape.filled,
    Power: elementwise.power,
    PRelu: lambda emission, node: elementwise.per_channel(emission, node, "PRelu"),
    ProductTransform: bilinear_product.product_transform,
    ReduceMax: reductions.reduction,
    ReduceMean: reductions.reduction,
    ReduceMin: reductions.reduction,
    ReduceSum: reductions.reduction,
    Reshape: shape.reshape,
    RmsNormalization: reductions.rms_normalization,
    Scale: elementwise.scale,
    Select: selection.pointwise,
    Silu: elementwise.silu,
    Softmax: elementwise.softmax,
    Split: shape.split,
    Subtract: elementwise.pointwise,
    Sum: elementwise.pointwise,
    SumTo: gradients.sum_to,
    Transpose: shape.transpose,
    Unreshape: shape.reshape,
}


def has_form(operator: type[Operator], opset: int) -> bool:
    """Whether the operator can be written in the operator set, by older nodes if an emitter does so."""
    return operator in EMITTERS or operator.onnx is None or operator.onnx.since <= opset


def recipe(emission: Emission, node: Node) -> Recipe:
    """The recipe for a node, together with those merged into it. Raises UnsupportedError for an operator
    without a form in ONNX or the model's opset."""
    if not isinstance(node.operator, Operator):
        raise UnsupportedError(f"{node.operator.name} has no ONNX form")
    emitter = EMITTERS.get(type(node.operator), _by_form)
    return emitter(emission, node)


def _by_form(emission: Emission, node: Node) -> Recipe:
    operator = node.operator
    assert isinstance(operator, Operator)
    form = operator.onnx
    if form is None:
        raise UnsupportedError(f"{operator.name} has no ONNX form")
    if emission.opset < form.since:
        raise UnsupportedError(
            f"{operator.name}: operator set {emission.opset} has no equivalent {form.op_type}, "
            f"which was introduced in {form.since}"
        )
    schema = onnx.defs.get_schema(form.op_type, emission.opset, "")
    values = attributes_of(operator)
    attributes = {name: _attribute(schema, name, values[field]) for field, name in form.attributes}

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        writer.node(form.op_type, operands, outputs, attributes)

    return Recipe(node.values, tuple(Operand(value) for value in node.inputs), write)


def _attribute(schema: OpSchema, name: str, value: object) -> OnnxAttribute:
    """The value in the type that ONNX declares: whole fractions become floats where required."""
    kind = schema.attributes[name].type
    if kind == OpSchema.AttrType.FLOAT:
        assert isinstance(value, (int, float, Fraction)), f"{schema.name}.{name} is {value!r}"
        return float(value)
    if isinstance(value, tuple):
        return [int(str(item)) for item in cast("tuple[object, ...]", value)]
    assert isinstance(value, (int, str)), f"{schema.name}.{name} is {value!r}"
    return value
