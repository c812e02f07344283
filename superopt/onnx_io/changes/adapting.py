"""Change a model on request before it is optimised: inline its functions, convert its operator set."""

from __future__ import annotations

from dataclasses import replace

import onnx
from onnx.inliner import inline_local_functions

from superopt.errors import InvalidModelError
from superopt.onnx_io.changes.raise_opset import convert_opset
from superopt.onnx_io.changes.simplifying import light
from superopt.onnx_io.files.external import is_external, stored_tensor
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.node_building import copy_of
from superopt.onnx_io.protos import copy_with_initializers, nodes_within
from superopt.onnx_io.sizes.inference import without_weights


def adapted(source: SourceModel, proto: onnx.ModelProto, what: str) -> SourceModel:
    """The complete model ``proto``, made from the source; its identity in reports stays that of the given
    model. ``what`` describes the change, as in ``converting operator set 13 to 17``."""
    tensors = {
        tensor.name: (is_external(tensor) and source.tensors.get(tensor.name))
        or stored_tensor(tensor, source.base)
        for tensor in proto.graph.initializer
    }
    return replace(
        source,
        proto=proto,
        tensors=tensors,
        given=None,
        came_from=None,
        unadapted=source.received,
        adapted=(*source.adapted, what),
    )


def without_functions(source: SourceModel) -> SourceModel:
    """The model with the bodies of its own functions in place of their calls; the same model if it has none.
    Functions of another operator set are converted to the model's. Raises InvalidModelError where ONNX cannot
    inline one."""
    functions = len(source.proto.functions)
    if not functions:
        return source
    skeleton = copy_with_initializers(source.proto, map(light, source.proto.graph.initializer))
    try:
        inlined = inline_local_functions(skeleton, convert_version=True)
        onnx.checker.check_model(without_weights(inlined))  # pyright: ignore[reportUnknownMemberType]
    except (onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split()).split(" ==> Context")[0]
        raise InvalidModelError(
            f"{source.name}: the functions of the model cannot be inlined: {reason}"
        ) from error
    left = ", ".join(repr(function.name) for function in inlined.functions)
    if left:
        raise InvalidModelError(f"{source.name}: ONNX cannot inline the functions {left} of the model")
    whole = copy_with_initializers(inlined, source.proto.graph.initializer)
    unused = {function.domain for function in source.proto.functions}
    unused.difference_update(node.domain for node in nodes_within(whole.graph))
    for entry in [entry for entry in whole.opset_import if entry.domain in unused]:
        whole.opset_import.remove(entry)
    return adapted(source, whole, f"inlining {functions} function{'s' * (functions > 1)}")


def at_opset(source: SourceModel, opset: int) -> SourceModel:
    """The model converted to a version of the standard operators, newer or older; the same model if it has
    that version. Raises InvalidModelError where ONNX's converter fails, naming the operator."""
    if source.opset == opset:
        return source
    proto = copy_of(source.proto)
    convert_opset(proto, opset)
    return adapted(source, proto, f"converting operator set {source.opset} to {opset}")
