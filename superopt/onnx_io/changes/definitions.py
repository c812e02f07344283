"""Puts definitions by simpler operators in place of nodes that the algebra does not describe.

Most definitions are the function bodies of the ONNX standard. Those that overflow there, or that the standard
has not, are written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

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
    names_within,
)
from superopt.onnx_io.sizes.inference import infer_types

STANDARD = (
    "MeanVarianceNormalization",
    "Shrink",
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


DEFINITIONS: Mapping[str, Define] = {
    "CastLike": _cast_like,
}
"""Operators with a definition of this module."""
