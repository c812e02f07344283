"""Write a graph that extends a lifted one by inputs, outputs and states, such as a training step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import onnx
from onnx import numpy_helper

from superopt.domains import Array
from superopt.errors import UnsupportedError
from superopt.ir.graph import Graph, Value
from superopt.onnx_io.changes.simplifying import light
from superopt.onnx_io.files.external import is_external, stored_tensor
from superopt.onnx_io.files.saving import LoweredModel
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.files.stored import ArrayTensor
from superopt.onnx_io.lifting.models import LiftedModel
from superopt.onnx_io.lowering.models import (
    declaration,
    fill_graph,
    kept_initializers,
    original_of,
    require_sorted,
)
from superopt.onnx_io.lowering.writing import GraphWriter
from superopt.onnx_io.protos import copy_with_initializers, copy_without_graph

INLINE_BYTES = 1 << 30
"""Extended models above this size get external data."""

INLINE_TENSOR_BYTES = 1 << 20
"""Larger initialisers are not copied with a graph."""


@dataclass(frozen=True)
class Extension:
    """The interface of an extended graph: ``outputs`` by name, in order; ``initial`` holds the contents of
    inputs that are overridable initialisers, ``weights`` those of constants, both by label; ``metadata`` is
    added to the model's."""

    outputs: Mapping[str, Value]
    initial: Mapping[str, Array] = field(default_factory=dict[str, "Array"])
    weights: Mapping[str, Array] = field(default_factory=dict[str, "Array"])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


def extend(lifted: LiftedModel, graph: Graph, extension: Extension) -> LoweredModel:
    """The model that computes ``graph``, which contains the lifted graph or parts of it, and has the outputs
    of the extension only. ONNX nodes that are unchanged keep their names. Raises UnsupportedError for an
    operator without a form in the model's opset."""
    source = lifted.source
    if source.fixed_reason is not None or source.opset is None:
        raise UnsupportedError(f"{source.name} cannot be extended: {source.fixed_reason}")
    editor = graph.edit()
    editor.set_outputs(extension.outputs.values())
    graph = editor.build()
    original = original_of(lifted, graph)
    original = replace(
        original,
        stored={**original.stored, **dict.fromkeys(extension.weights)},
        taken=original.taken.union(extension.weights, extension.initial),
    )

    def content(label: str) -> Array:
        return extension.weights[label] if label in extension.weights else lifted.weight(label)

    written = GraphWriter(graph, source.opset, content, list(extension.outputs), original).write()
    proto = copy_without_graph(source.proto)
    kept = kept_initializers(source, written)
    fill_graph(proto.graph, source, written, kept)
    for label in sorted(written.constants.intersection(extension.weights)):
        proto.graph.initializer.append(numpy_helper.from_array(extension.weights[label], label))
    _add_inputs(proto.graph, lifted.graph, graph)
    proto.graph.output.extend(declaration(graph, value, name) for name, value in extension.outputs.items())
    for key, value in extension.metadata.items():
        proto.metadata_props.add(key=key, value=value)
    require_sorted(proto.graph, kept)
    shared = {name: tensor for name, tensor in source.tensors.items() if name in kept}
    shared |= {label: ArrayTensor.of(array) for label, array in extension.initial.items()}
    return LoweredModel(proto, shared, source, names=written.names, inline_limit=INLINE_BYTES)


def _add_inputs(graph: onnx.GraphProto, before: Graph, after: Graph) -> None:
    for node_id in after.inputs:
        if node_id not in before.nodes:
            graph.input.append(declaration(after, Value(node_id)))


def skeleton(source: SourceModel) -> onnx.ModelProto:
    """The model without the contents of large initialisers, for a model with another graph (``derived``)."""
    tensors = (light(tensor, INLINE_TENSOR_BYTES) for tensor in source.proto.graph.initializer)
    return copy_with_initializers(source.proto, tensors)


def derived(source: SourceModel, proto: onnx.ModelProto) -> SourceModel:
    """The source with a graph that was made from its skeleton; large contents are those of the source."""
    tensors = {
        tensor.name: source.tensors[tensor.name]
        if is_external(tensor)
        else stored_tensor(tensor, source.base)
        for tensor in proto.graph.initializer
    }
    return replace(source, proto=proto, tensors=tensors, given=None, came_from=None, prepared=())


__all__ = ["Extension", "derived", "extend", "skeleton"]
