"""Puts definitions by simpler operators in place of nodes that the algebra does not describe.

Most definitions are the function bodies of the ONNX standard. Those that overflow there, or that the standard
has not, are written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import onnx
from onnx import helper
from onnx.inliner import inline_selected_functions

from superopt.errors import InvalidModelError
from superopt.ir.types import TensorType, ValueType
from superopt.onnx_io.node_building import NodeBuilder, copy_of
from superopt.onnx_io.protos import (
    ONNX_ELEMENTS,
    STANDARD_DOMAINS,
    default_opset,
    dtype_of,
    names_within,
)
from superopt.onnx_io.sizes.inference import infer_types

STANDARD = (
    "Celu",
    "Elu",
    "GroupNormalization",
    "MeanVarianceNormalization",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
    "Selu",
    "Shrink",
    "Softsign",
    "ThresholdedRelu",
)
"""Operators of which ONNX's function bodies are used."""

Types: TypeAlias = "Mapping[str, ValueType]"
Define: TypeAlias = "Callable[[NodeBuilder, onnx.NodeProto, Types], bool]"


def with_definitions(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of the model whose nodes of the main graph have definitions in their place where there are any;
    the model itself if there are none. Large initialisers must be without content (``skeleton``). Raises
    InvalidModelError where the standard's inliner fails."""
    found = {node.op_type for node in model.graph.node if node.domain in STANDARD_DOMAINS}
    if found.isdisjoint((*STANDARD, *DEFINITIONS)):
        return model
    copy = copy_of(model)
    if not found.isdisjoint(STANDARD):
        copy = _inlined(copy)
    _write_own(copy.graph, infer_types(copy).types)
    return copy


def _write_own(graph: onnx.GraphProto, types: Types) -> None:
    builder = NodeBuilder(names_within(graph))
    for node in graph.node:
        define = DEFINITIONS.get(node.op_type) if node.domain in STANDARD_DOMAINS else None
        if define is None or not define(builder, node, types):
            builder.keep(node)
    nodes = list(builder.nodes)
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(builder.initializers)


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the standard's bodies; the inliner needs a declared type for every tensor."""
    given = list(model.graph.value_info)
    version = default_opset(model.opset_import) or 0
    for node in model.graph.node:
        if node.op_type in STANDARD and node.domain in STANDARD_DOMAINS:
            _state_defaults(node, version)
    types = infer_types(model).types
    model.graph.value_info.extend(
        helper.make_tensor_value_info(name, ONNX_ELEMENTS[type_.element], None)
        for name, type_ in types.items()
        if isinstance(type_, TensorType) and type_.element in ONNX_ELEMENTS
    )
    try:
        inlined = inline_selected_functions(
            model, [("", name) for name in STANDARD], inline_schema_functions=True
        )
    except (RuntimeError, ValueError) as error:
        raise InvalidModelError(
            f"ONNX's inliner cannot put the definitions of operators in place: {error}"
        ) from error
    del inlined.graph.value_info[:]
    inlined.graph.value_info.extend(given)
    return inlined


def _state_defaults(node: onnx.NodeProto, opset: int) -> None:
    """Adds attributes that have their default, which the inliner would lose."""
    stated = {attribute.name for attribute in node.attribute}
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    node.attribute.extend(
        attribute.default_value
        for name, attribute in schema.attributes.items()
        if name not in stated and attribute.default_value.name
    )


def _cast_like(builder: NodeBuilder, node: onnx.NodeProto, types: Types) -> bool:
    """A cast to the element type of the second operand."""
    type_ = types.get(node.input[1])
    if not isinstance(type_, TensorType):
        return False
    builder.write("Cast", node.input[:1], node.output[0], {"to": ONNX_ELEMENTS[type_.element]})
    return True


def _softplus(builder: NodeBuilder, node: onnx.NodeProto, types: Types) -> bool:
    """log(1 + exp(x)) as relu(x) + log(1 + exp(-|x|)), which does not overflow."""
    return _write_softplus(builder, node.input[0], node.output[0], types)


def _write_softplus(builder: NodeBuilder, operand: str, output: str, types: Types) -> bool:
    type_ = types.get(operand)
    if not isinstance(type_, TensorType) or not type_.element.is_float:
        return False
    one = builder.constant("one", np.ones((), dtype_of(type_.element)))
    size = builder.add("Abs", [operand], f"{output}.size")
    power = builder.add("Exp", [builder.add("Neg", [size], f"{output}.negative")], f"{output}.power")
    tail = builder.add("Log", [builder.add("Add", [power, one], f"{output}.sum")], f"{output}.tail")
    builder.write("Add", [builder.add("Relu", [operand], f"{output}.line"), tail], output)
    return True


def _mish(builder: NodeBuilder, node: onnx.NodeProto, types: Types) -> bool:
    """x tanh(softplus(x))."""
    output = node.output[0]
    curve = builder.fresh(f"{output}.softplus")
    if not _write_softplus(builder, node.input[0], curve, types):
        return False
    builder.write("Mul", [node.input[0], builder.add("Tanh", [curve], f"{output}.gate")], output)
    return True


def _instance_normalization(builder: NodeBuilder, node: onnx.NodeProto, types: Types) -> bool:
    """Every channel of every sample less its mean, over its deviation."""
    data, scale, shift = node.input
    type_ = types.get(data)
    if not isinstance(type_, TensorType) or type_.rank < 3:
        return False
    dtype, output = dtype_of(type_.element), node.output[0]
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    axes = builder.constant("axes", np.arange(2, type_.rank))
    spread = builder.constant("shape", np.array([-1, *(1 for _ in range(type_.rank - 2))]))
    mean = builder.add("ReduceMean", [data, axes], f"{output}.mean")
    centred = builder.add("Sub", [data, mean], f"{output}.centred")
    square = builder.add("Mul", [centred, centred], f"{output}.square")
    variance = builder.add("ReduceMean", [square, axes], f"{output}.variance")
    shifted = builder.add(
        "Add", [variance, builder.constant("epsilon", np.array(epsilon, dtype))], f"{output}.shifted"
    )
    normal = builder.add(
        "Div", [centred, builder.add("Sqrt", [shifted], f"{output}.deviation")], f"{output}.normal"
    )
    factor, term = (
        builder.add("Reshape", [vector, spread], f"{output}.{name}")
        for vector, name in ((scale, "scale"), (shift, "shift"))
    )
    builder.write("Add", [builder.add("Mul", [normal, factor], f"{output}.scaled"), term], output)
    return True


def _mean(builder: NodeBuilder, node: onnx.NodeProto, types: Types) -> bool:
    """The sum of the operands over their number."""
    type_ = types.get(node.output[0])
    if not isinstance(type_, TensorType):
        return False
    total = node.input[0]
    for operand in node.input[1:]:
        total = builder.add("Add", [total, operand], f"{node.output[0]}.sum")
    count = builder.constant("count", np.array(len(node.input), dtype_of(type_.element)))
    builder.write("Div", [total, count], node.output[0])
    return True


DEFINITIONS: Mapping[str, Define] = {
    "CastLike": _cast_like,
    "InstanceNormalization": _instance_normalization,
    "Mean": _mean,
    "Mish": _mish,
    "Softplus": _softplus,
}
"""Operators with a definition of this module."""
