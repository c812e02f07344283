"""Lowering: converts a rewritten graph back to an ONNX model; nodes that no rewrite touched are unchanged."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import onnx
from onnx import TensorProto, helper

from superopt.domains import Array
from superopt.errors import SuperoptError, UnsupportedError
from superopt.ir.dimensions import as_symbol
from superopt.ir.graph import Graph, Value, Weight
from superopt.ir.plan import Plan
from superopt.ir.types import TensorType, UnknownType
from superopt.onnx_io.files.saving import LoweredModel
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.lifting.models import LiftedModel
from superopt.onnx_io.lowering.kept import kept_nodes
from superopt.onnx_io.lowering.units import Original, Written
from superopt.onnx_io.lowering.writing import PREFIX, GraphWriter
from superopt.onnx_io.protos import (
    IR_WITH_FREE_INITIALIZERS,
    ONNX_ELEMENTS,
    captured_names,
    copy_without_graph,
)

FUSION_KEY = "superopt.fusion"

_SPILLED = 1 << 20
"""Bytes of a computed constant that goes to a temporary file where the model's own weights are in files."""


def lower(lifted: LiftedModel, graph: Graph, plan: Plan) -> LoweredModel:
    """The model that computes ``graph``, a rewritten form of the lifted one. Inputs, outputs, their names and
    types, opsets, IR version and metadata are preserved. ONNX nodes that no rewrite touched are copied; new
    ones are called ``superopt/...``. Weight-only values become initialisers. The plan's fusion groups are
    written to the model's metadata as ``superopt.fusion``. Raises UnsupportedError when an operator of the
    graph has no form in the model's opset."""
    source = lifted.source
    if graph is lifted.graph or source.fixed_reason is not None:
        if graph is not lifted.graph and graph.signature != lifted.graph.signature:
            raise UnsupportedError(f"{source.name} cannot be rewritten: {source.fixed_reason}")
        return LoweredModel.of_source(source, lifted.names)
    assert source.opset is not None, "a model without standard operators has a fixed_reason"
    outputs = [value.name for value in source.proto.graph.output]
    written = GraphWriter(
        graph,
        source.opset,
        lifted.weight,
        outputs,
        original_of(lifted, graph),
        _SPILLED if source.has_external_data else sys.maxsize,
    ).write()
    if written.untouched and source.came_from is None:
        return LoweredModel.of_source(source, lifted.names)
    proto = copy_without_graph(source.proto)
    kept = kept_initializers(source, written)
    fill_graph(proto.graph, source, written, kept)
    proto.graph.output.extend(source.as_given.proto.graph.output)
    proto.graph.value_info.extend(_open_results(proto.graph, graph, written, source.opset))
    _annotate(proto, graph, plan, written)
    require_sorted(proto.graph, kept.union(written.spilled))
    shared = {name: tensor for name, tensor in source.tensors.items() if name in kept}
    shared |= written.spilled
    return LoweredModel(proto, shared, source, names=written.names)


def original_of(lifted: LiftedModel, graph: Graph) -> Original:
    """What a graph that was derived from a lifted one keeps of its model."""
    source = lifted.source
    nodes = source.proto.graph.node
    stored: dict[str, int | None] = dict.fromkeys(source.tensors)
    for index, node in enumerate(nodes):
        if node.op_type == "Constant" and node.output and node.output[0] in source.constants:
            stored[node.output[0]] = index
    read = {name for node in nodes for name in (*node.input, *captured_names(node))}
    read.update(value.name for value in source.proto.graph.output)
    return Original(
        nodes=nodes,
        kept=kept_nodes(lifted, graph),
        names=lifted.names,
        stored={label: index for label, index in stored.items() if label not in source.overridable},
        taken=source.names,
        dead=tuple(index for index, node in enumerate(nodes) if read.isdisjoint(node.output)),
    )


def kept_initializers(source: SourceModel, written: Written) -> frozenset[str]:
    """Initialisers that are read, that a caller may override, or that were never read."""
    graph = source.proto.graph
    read = {name for node in graph.node for name in (*node.input, *captured_names(node))}
    read.update(value.name for value in graph.output)
    now = written.constants.union(value.name for value in graph.output)
    return frozenset(
        name for name in source.tensors if name in now or name in source.overridable or name not in read
    )


def fill_graph(graph: onnx.GraphProto, source: SourceModel, written: Written, kept: frozenset[str]) -> None:
    """Adds all but outputs: the source's inputs and descriptions, and what was written."""
    before = source.proto.graph
    for field, value in before.ListFields():
        if field.name in ("doc_string", "name"):
            setattr(graph, field.name, value)
        elif field.name == "metadata_props":
            graph.metadata_props.extend(value)
    graph.node.extend(written.nodes)
    graph.initializer.extend(written.initializers)
    needs_inputs = source.proto.ir_version < IR_WITH_FREE_INITIALIZERS
    graph.input.extend(
        value
        for value in before.input
        if not needs_inputs or value.name not in source.tensors or value.name in kept
    )
    if needs_inputs:
        graph.input.extend(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            for tensor in written.initializers
        )
        graph.input.extend(
            helper.make_tensor_value_info(name, tensor.data_type, tensor.shape)
            for name, tensor in written.spilled.items()
        )
    gone = _vanished(before, written, kept)
    graph.value_info.extend(value for value in before.value_info if value.name not in gone)
    graph.quantization_annotation.extend(
        annotation for annotation in before.quantization_annotation if annotation.tensor_name not in gone
    )


_INFERS_RANKS = 14
"""The operator set since which the rank of a Reshape is inferred from how a shape is computed."""


def _open_results(
    model: onnx.GraphProto, graph: Graph, written: Written, opset: int
) -> Iterator[onnx.ValueInfoProto]:
    """Declarations of the results of new Reshape and Slice nodes with open sizes. Where the only one is the
    first, under a name that an input declares, it is named: ONNX Runtime does not know the name of a size
    that is inferred, and may not see that two tensors have the same shape: it fuses less, and adds nodes that
    refuse an empty batch. Others are declared for their rank in old operator sets: there the runtime infers
    none from a shape that is computed, and then refuses some readers of the result."""
    named = {size.dim_param for value in model.input for size in value.type.tensor_type.shape.dim}
    declared = {value.name for value in (*model.input, *model.output, *model.value_info)}
    values = {name: value for value, name in written.names.items() if name not in declared}
    nodes = [n for n in written.nodes if n.op_type in ("Reshape", "Slice") and n.name.startswith(PREFIX)]
    for name in (name for node in nodes for name in node.output if name in values):
        type_ = graph.type_of(values[name])
        if isinstance(type_, TensorType) and type_.element in ONNX_ELEMENTS:
            first, others = type_.shape[:1], type_.shape[1:]
            is_named = any(as_symbol(size) in named for size in first)
            if is_named and all(isinstance(size, int) for size in others):
                yield declaration(graph, values[name], name)
            elif opset < _INFERS_RANKS and not all(isinstance(size, int) for size in type_.shape):
                sizes = [size if isinstance(size, int) else None for size in type_.shape]
                yield helper.make_tensor_value_info(name, ONNX_ELEMENTS[type_.element], sizes)


def _vanished(before: onnx.GraphProto, written: Written, kept: frozenset[str]) -> set[str]:
    """Names of tensors that the model no longer has."""
    had = {name for node in before.node for name in node.output}.union(t.name for t in before.initializer)
    has = {name for node in written.nodes for name in node.output}.union(kept)
    return had - has


def require_sorted(graph: onnx.GraphProto, kept: frozenset[str]) -> None:
    """Final check: every tensor is produced once, and before it is read."""
    known = {value.name for value in graph.input}.union(kept, (tensor.name for tensor in graph.initializer))
    for node in graph.node:
        for name in (*node.input, *captured_names(node)):
            if name and name not in known:
                raise SuperoptError(
                    f"lowering wrote node {node.name!r}, which reads {name!r} before it is made"
                )
        for name in node.output:
            if name in known:
                raise SuperoptError(f"lowering wrote node {node.name!r}, which makes {name!r} a second time")
        known.update(name for name in node.output if name)
    for value in graph.output:
        if value.name not in known:
            raise SuperoptError(f"lowering lost the output {value.name!r}")


def _annotate(proto: onnx.ModelProto, graph: Graph, plan: Plan, written: Written) -> None:
    groups: list[list[str]] = []
    for group in plan.restricted_to(graph).fusion.values():
        names = [written.names[Value(node)] for node in group.members if Value(node) in written.names]
        if len(names) > 1:
            groups.append(names)
    if groups:
        for entry in [entry for entry in proto.metadata_props if entry.key == FUSION_KEY]:
            proto.metadata_props.remove(entry)
        proto.metadata_props.add(key=FUSION_KEY, value=json.dumps(groups, ensure_ascii=False))


def build_model(
    graph: Graph,
    weights: Mapping[str, Array] | Callable[[str], Array],
    opset: int = 17,
    *,
    source: SourceModel | None = None,
    ir_version: int = 8,
) -> bytes:
    """A self-contained model of a graph without a source model, for cost measurements and tests. Inputs have
    the names of the graph's inputs, outputs are ``output_0``, ``output_1``, ... ``weights`` gives the content
    of weights by label. Opaque nodes are copied from ``source``, whose functions and opsets then apply. For
    an output of unknown rank only the name is declared. Raises UnsupportedError for an operator without a
    form in the opset."""
    content = weights if callable(weights) else weights.__getitem__
    labels: dict[str, TensorType] = {
        node.operator.label: node.operator.type for node in graph if isinstance(node.operator, Weight)
    }
    outputs = [f"output_{index}" for index in range(len(graph.outputs))]
    inputs = [declaration(graph, Value(node)) for node in graph.inputs]
    taken = frozenset((*labels, *(value.name for value in inputs)))
    model = onnx.ModelProto()
    if source is None:
        model.ir_version = ir_version
        model.opset_import.append(helper.make_opsetid("", opset))
    else:
        model = copy_without_graph(source.proto)
        taken |= source.names
        opset = source.opset or opset
    original = Original(
        nodes=() if source is None else source.proto.graph.node, stored=dict.fromkeys(labels), taken=taken
    )
    written = GraphWriter(graph, opset, content, outputs, original).write()
    model.graph.name = "graph"
    model.graph.node.extend(written.nodes)
    model.graph.input.extend(inputs)
    model.graph.output.extend(
        onnx.ValueInfoProto(name=name)
        if isinstance(graph.type_of(value), UnknownType)
        else declaration(graph, value, name)
        for name, value in zip(outputs, graph.outputs, strict=True)
    )
    model.graph.initializer.extend(written.initializers)
    for label in sorted(written.constants):
        model.graph.initializer.append(_stored(label, content(label)))
    if model.ir_version < IR_WITH_FREE_INITIALIZERS:
        model.ir_version = IR_WITH_FREE_INITIALIZERS
    return model.SerializeToString()


def _stored(label: str, array: Array) -> TensorProto:
    return onnx.numpy_helper.from_array(array, label)


def declaration(graph: Graph, value: Value, name: str | None = None) -> onnx.ValueInfoProto:
    """The declaration of a graph input or output; raises UnsupportedError for an unknown type."""
    operator = graph[value.node].operator
    type_ = graph.type_of(value)
    label = name if name is not None else str(getattr(operator, "label", ""))
    if not isinstance(type_, TensorType):
        raise UnsupportedError(f"{label}: the type of an input or output must be known, got {type_}")
    if type_.element not in ONNX_ELEMENTS:
        raise UnsupportedError(f"{label}: element type {type_.element} cannot be declared")
    shape: Sequence[int | str] = [size if isinstance(size, int) else str(size) for size in type_.shape]
    return helper.make_tensor_value_info(label, ONNX_ELEMENTS[type_.element], shape)


__all__ = [
    "build_model",
    "declaration",
    "fill_graph",
    "kept_initializers",
    "lower",
    "original_of",
    "require_sorted",
]
