"""Puts the bodies of model-local functions in place of the calls.

A function has no types of its own: its nodes have types, and constants, only at a call. Runtimes do the same
when they load a model, so that nothing becomes slower.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import onnx
from onnx.inliner import inline_selected_functions

from superopt.onnx_io.changes.simplifying import light
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.protos import copy_with_initializers, nodes_within
from superopt.onnx_io.sizes.inference import without_weights


def with_functions_inlined(source: SourceModel, keep: Collection[str] = ()) -> SourceModel:
    """The model without calls of its own functions; the same model if there are none. A function with another
    operator set than the model, and one that a node with a name in ``keep`` calls, is called still."""
    if source.fixed_reason is not None or not source.proto.functions:
        return source
    known = {(function.domain, function.name) for function in source.proto.functions}
    calls = [node for node in nodes_within(source.proto.graph) if (node.domain, node.op_type) in known]
    kept = {(node.domain, node.op_type) for node in calls if node.name and node.name in keep}
    if not any((node.domain, node.op_type) not in kept for node in calls):
        return source
    skeleton = copy_with_initializers(source.proto, map(light, source.proto.graph.initializer))
    try:
        inlined = inline_selected_functions(skeleton, sorted(kept), exclude=True)
        onnx.checker.check_model(without_weights(inlined))  # pyright: ignore[reportUnknownMemberType]
    except (onnx.checker.ValidationError, RuntimeError, ValueError):
        return source
    if len(inlined.functions) == len(source.proto.functions):
        return source
    return replace(source, proto=inlined, came_from=source)
