"""Convert a model to another version of the standard operators, by ONNX's converter, without its weights."""

from __future__ import annotations

import re
from collections.abc import Iterator

import onnx
from onnx import helper, version_converter

from superopt.errors import InvalidModelError
from superopt.onnx_io.files.source import OLDEST_OPSET
from superopt.onnx_io.node_building import copy_of, node_label
from superopt.onnx_io.protos import (
    IR_WITH_FREE_INITIALIZERS,
    STANDARD_DOMAINS,
    captured_names,
    copy_without_graph,
    default_opset,
)
from superopt.onnx_io.sizes.inference import without_weights

OPSET_OF_STEPS = 18
"""The oldest operator set of a training step: the first with BitwiseXor, and with axes as operands of all
reductions."""

IR_OF_STEPS = 8

_RESIZE_CHANGED = 11
"""Before this operator set, Resize and Upsample had pixels at ``asymmetric`` coordinates, rounded down."""

_PAD_CHANGED = 11
"""Before this operator set, the number that Pad fills with was an attribute, ignored unless it fills."""

_FAILURES = (RuntimeError, version_converter.ConvertError)


def with_opset(model: onnx.ModelProto, opset: int = OPSET_OF_STEPS) -> onnx.ModelProto:
    """A copy of the model at operator set ``opset`` or newer, and at IR version 8 or newer. Inputs, outputs,
    initialisers and declared types stay; initialisers that IR version 3 lists as inputs are no inputs any
    more, because from version 4 on they would be overridable. Raises InvalidModelError for a model without
    standard operators, for one older than operator set 7, for an old one with functions, and where ONNX's
    converter fails, naming the operator."""
    copy = copy_of(model)
    raise_opset(copy, opset)
    return copy


def raise_opset(model: onnx.ModelProto, opset: int = OPSET_OF_STEPS) -> None:
    """Converts the model in place as ``with_opset`` does; raises the same errors."""
    version = _version(model)
    if version < OLDEST_OPSET:
        raise InvalidModelError(
            f"the model has operator set {version}; expected {OLDEST_OPSET} or newer, where broadcasting is "
            "as now: export it again"
        )
    raise_ir(model)
    if version >= opset:
        return
    if model.functions:
        raise InvalidModelError(
            f"the model has functions and operator set {version}; expected {opset} or newer, or no functions"
        )
    _convert(model, version, opset)


def convert_opset(model: onnx.ModelProto, opset: int) -> None:
    """Converts the model in place to operator set ``opset``, newer or older than its own, and to an IR
    version that is at least 8 and that of the operator set; otherwise as ``with_opset``. Raises
    InvalidModelError for a model without standard operators or with functions, for an operator set that is
    too new, and where ONNX's converter fails, naming the operator."""
    version = _version(model)
    newest = onnx.defs.onnx_opset_version()
    if opset > newest:
        raise InvalidModelError(f"operator set {opset}: expected at most {newest}, the newest that is known")
    if model.functions:
        raise InvalidModelError(
            "the model has functions, which ONNX cannot convert to another operator set: inline them with "
            "--inline-functions"
        )
    raise_ir(model)
    _convert(model, version, opset)
    model.ir_version = max(model.ir_version, helper.find_min_ir_version_for([helper.make_opsetid("", opset)]))


def _version(model: onnx.ModelProto) -> int:
    version = default_opset(model.opset_import)
    if version is None:
        raise InvalidModelError("the model imports no standard operators; expected ai.onnx 7 or newer")
    return version


def raise_ir(model: onnx.ModelProto) -> None:
    """Raises the IR version in place to 8, if it is older. Initialisers of IR version 3 cannot be overridden
    and stay so: they are no inputs any more."""
    if model.ir_version < IR_WITH_FREE_INITIALIZERS:
        graph = model.graph
        stored = {tensor.name for tensor in graph.initializer}
        inputs = [value for value in graph.input if value.name not in stored]
        del graph.input[:]
        graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, IR_OF_STEPS)


def _convert(model: onnx.ModelProto, version: int, opset: int) -> None:
    """Converts the model in place."""
    skeleton = without_weights(model)
    if version < _PAD_CHANGED:
        _drop_unused_fillings(skeleton.graph)
    skeleton = _typed(skeleton)
    try:
        converted = version_converter.convert_version(skeleton, opset)
    except _FAILURES as error:
        raise InvalidModelError(_complaint(skeleton, version, opset, error)) from error
    if version < _RESIZE_CHANGED:
        _keep_coordinates(converted.graph)
    graph = model.graph
    _replace_nodes(graph, skeleton.graph, converted.graph)
    for entry in model.opset_import:
        if entry.domain in STANDARD_DOMAINS:
            entry.domain, entry.version = "", opset


def _typed(skeleton: onnx.ModelProto) -> onnx.ModelProto:
    """The skeleton with inferred types, which some conversions need."""
    try:
        return onnx.shape_inference.infer_shapes(skeleton, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return skeleton


def _replace_nodes(graph: onnx.GraphProto, before: onnx.GraphProto, after: onnx.GraphProto) -> None:
    """Gives the graph the converted nodes, and the constants that these read in addition. Constant nodes
    that were too large for the skeleton stay, in front."""
    left_out = {value.name for value in before.input}
    large = [node for node in graph.node if node.op_type == "Constant" and left_out.issuperset(node.output)]
    nodes = [*large, *after.node]
    del graph.node[:]
    graph.node.extend(nodes)
    own = {tensor.name for tensor in graph.initializer}
    graph.initializer.extend(tensor for tensor in after.initializer if tensor.name not in own)


def _drop_unused_fillings(graph: onnx.GraphProto) -> None:
    """Drops the attribute ``value`` of Pad nodes that repeat or reflect; the converter keeps it, and newer
    operator sets do not know it."""
    for node in graph.node:
        if node.op_type == "Pad" and node.domain in STANDARD_DOMAINS:
            modes = [attribute.s for attribute in node.attribute if attribute.name == "mode"]
            if modes and modes[0] != b"constant":
                kept = [attribute for attribute in node.attribute if attribute.name != "value"]
                del node.attribute[:]
                node.attribute.extend(kept)


def _keep_coordinates(graph: onnx.GraphProto) -> None:
    """Declares the coordinates that Resize and Upsample had before operator set 11; the converter leaves the
    new defaults, which differ."""
    for node in graph.node:
        if node.op_type == "Resize" and node.domain in STANDARD_DOMAINS:
            named = {attribute.name for attribute in node.attribute}
            for name, text in (("coordinate_transformation_mode", "asymmetric"), ("nearest_mode", "floor")):
                if name not in named:
                    node.attribute.append(helper.make_attribute(name, text))


def _complaint(skeleton: onnx.ModelProto, version: int, opset: int, error: Exception) -> str:
    reason = _reason(error)
    failed = [node for node, why in _not_converted(skeleton, opset) if why == reason]
    where = node_label(failed[0]) if failed else "the model"
    advice = f"export the model at operator set {opset}{' or newer' if opset > version else ''}"
    return f"{where} cannot be converted from operator set {version} to {opset}: {reason}; {advice}"


def _reason(error: Exception) -> str:
    return re.sub(r"^.*failed: ", "", " ".join(str(error).split()))


def _not_converted(skeleton: onnx.ModelProto, opset: int) -> Iterator[tuple[onnx.NodeProto, str]]:
    """The nodes that the converter rejects, each tried by itself, with the reason."""
    graph = skeleton.graph
    values = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
    stored = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        alone = copy_without_graph(skeleton)
        alone.graph.name = graph.name
        alone.graph.node.append(node)
        read = dict.fromkeys(name for name in (*node.input, *captured_names(node)) if name)
        alone.graph.initializer.extend(stored[name] for name in read if name in stored)
        alone.graph.input.extend(
            values.get(name, onnx.ValueInfoProto(name=name)) for name in read if name not in stored
        )
        alone.graph.output.extend(values[name] for name in node.output if name in values)
        try:
            version_converter.convert_version(alone, opset)
        except _FAILURES as error:
            yield node, _reason(error)
