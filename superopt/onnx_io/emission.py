"""The table of emitters from operators to ONNX nodes; operators with a declared ONNX form need no entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import cast

import onnx
from onnx.defs import OpSchema

from superopt.errors import UnsupportedError
from superopt.ir.graph import Node
from superopt.onnx_io import (
    emit_bilinear,
    emit_conv_data_gradient,
    emit_conv_weight_gradient,
    emit_elementwise,
    emit_gradients,
    emit_layers,
    emit_reductions,
    emit_selection,
    emit_shape,
)
from superopt.onnx_io.recipes import Emission, OnnxAttribute, Operand, Recipe, Writer
from superopt.ops import Operator, attributes_of
from superopt.ops.activation import Gelu, HardSwish, LogSoftmax, Silu, Softmax
from superopt.ops.affine import Affine, BatchNormScale, BatchNormShift, BiasAdd, ChannelScale
from superopt.ops.bilinear import BilinearConv, FilterTransform
from superopt.ops.conv_gradients import ConvDataGradient, ConvWeightGradient
from superopt.ops.convolution import Conv, Enlarge, KernelResponse
from superopt.ops.elementwise import Add, Divide, Multiply, Power, Scale, Subtract
from superopt.ops.filled import Full, Ones
from superopt.ops.gradients import (
    ChannelSum,
    LookupGradient,
    MatmulWeightGradient,
    SumTo,
    Unreshape,
)
from superopt.ops.lookup import Lookup
from superopt.ops.matrix import Matmul, Transpose
from superopt.ops.normalization import LayerNormalization, RmsNormalization
from superopt.ops.order import Clip, Maximum, Minimum, PRelu
from superopt.ops.pool_gradients import AveragePoolGradient, LinearUpsampleGradient, MaxPoolGradient
from superopt.ops.pooling import AveragePool, MaxPool
from superopt.ops.precision import Cast
from superopt.ops.reduction import ReduceMax, ReduceMean, ReduceMin, ReduceSum
from superopt.ops.selection import Equal, Greater, LogicalAnd, LogicalNot, LogicalOr, Select
from superopt.ops.shape import Broadcast, Concat, Reshape, Split
from superopt.ops.transposed import ConvTranspose
from superopt.ops.upsampling import LinearUpsample, NearestUpsample

EMITTERS: Mapping[type[Operator], Callable[[Emission, Node], Recipe]] = {
    Add: emit_elementwise.pointwise,
    Affine: emit_layers.affine,
    AveragePool: emit_layers.average_pool,
    AveragePoolGradient: emit_gradients.average_pool_gradient,
    BatchNormScale: emit_layers.batch_norm_scale,
    BatchNormShift: emit_layers.batch_norm_shift,
    BiasAdd: emit_layers.bias_add,
    BilinearConv: emit_bilinear.bilinear_conv,
    Broadcast: emit_shape.broadcast,
    ChannelScale: lambda emission, node: emit_elementwise.per_channel(emission, node, "Mul"),
    Cast: emit_selection.cast,
    ChannelSum: emit_gradients.channel_sum,
    Clip: emit_elementwise.clip,
    Concat: emit_shape.concat,
    Conv: emit_layers.conv,
    ConvDataGradient: emit_conv_data_gradient.conv_data_gradient,
    ConvTranspose: emit_layers.conv_transpose,
    ConvWeightGradient: emit_conv_weight_gradient.conv_weight_gradient,
    Divide: emit_elementwise.pointwise,
    Enlarge: emit_layers.enlarge,
    Equal: emit_selection.pointwise,
    FilterTransform: emit_bilinear.filter_transform,
    Full: emit_shape.filled,
    Gelu: emit_elementwise.gelu,
    Greater: emit_selection.pointwise,
    HardSwish: emit_elementwise.hard_swish,
    KernelResponse: emit_layers.kernel_response,
    LayerNormalization: emit_reductions.layer_normalization,
    LinearUpsample: emit_layers.upsample,
    LinearUpsampleGradient: emit_gradients.upsample_linear_gradient,
    LogicalAnd: emit_selection.pointwise,
    LogicalNot: emit_selection.pointwise,
    LogicalOr: emit_selection.pointwise,
    LogSoftmax: emit_elementwise.softmax,
    Lookup: emit_selection.lookup,
    LookupGradient: emit_gradients.lookup_gradient,
    Matmul: emit_layers.matmul,
    MatmulWeightGradient: emit_gradients.matmul_weight_gradient,
    Maximum: emit_elementwise.pointwise,
    MaxPool: emit_layers.max_pool,
    MaxPoolGradient: emit_gradients.maxpool_gradient,
    Minimum: emit_elementwise.pointwise,
    Multiply: emit_elementwise.pointwise,
    NearestUpsample: emit_layers.upsample,
    Ones: emit_shape.filled,
    Power: emit_elementwise.power,
    PRelu: lambda emission, node: emit_elementwise.per_channel(emission, node, "PRelu"),
    ReduceMax: emit_reductions.reduction,
    ReduceMean: emit_reductions.reduction,
    ReduceMin: emit_reductions.reduction,
    ReduceSum: emit_reductions.reduction,
    Reshape: emit_shape.reshape,
    RmsNormalization: emit_reductions.rms_normalization,
    Scale: emit_elementwise.scale,
    Select: emit_selection.pointwise,
    Silu: emit_elementwise.silu,
    Softmax: emit_elementwise.softmax,
    Split: emit_shape.split,
    Subtract: emit_elementwise.pointwise,
    SumTo: emit_gradients.sum_to,
    Transpose: emit_shape.transpose,
    Unreshape: emit_shape.reshape,
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
