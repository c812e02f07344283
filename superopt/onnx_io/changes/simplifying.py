"""Simplification before lifting: sizes that a model computes from known sizes become constants.

The chains that computed them are removed, and shape inference can infer the types that depend on them. Only
small tensors become constants. So do shapes of Reshape nodes that hold unknown sizes, where these follow from
the tensor itself. What decides an If node stays computed: ONNX Runtime puts the branch of a constant
condition in its place and then infers its types more strictly than those of the If node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from superopt.domains import Array
from superopt.onnx_io.changes.padding import without_pads
from superopt.onnx_io.changes.reshaping import with_constant_shapes
from superopt.onnx_io.files.external import STUB, bytes_of, is_external, stored_tensor
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.files.stored import StoredTensor
from superopt.onnx_io.protos import (
    IR_WITH_FREE_INITIALIZERS,
    STANDARD_DOMAINS,
    captured_names,
    copy_without_graph,
)
from superopt.onnx_io.sizes.inference import SMALL, InferredTypes, infer_types
from superopt.onnx_io.sizes.shape_data import EVALUATED, LARGEST, SIZE_READERS, evaluate, is_symbolic

ROUNDS = 8
"""Maximum repetitions of type inference."""

DISPOSABLE = frozenset((*EVALUATED, *SIZE_READERS, "Constant"))
"""Operators without effects, whose nodes can be removed when unused."""


def simplify(source: SourceModel) -> SourceModel:
    """The model with known sizes as initialisers; the source itself if there are none."""
    if source.fixed_reason is not None or source.opset is None:
        return source
    if source.proto.ir_version < IR_WITH_FREE_INITIALIZERS:
        return source
    known = _Known(source, source.opset)
    model = source.proto
    for _ in range(ROUNDS):
        if not known.extend(model):
            break
        model = known.apply(model, model.graph.node)
    shaped = None if known.inferred is None else with_constant_shapes(model.graph, known.inferred)
    if shaped is not None:
        known.add(shaped.constants)
        model = known.apply(model, shaped.nodes)
    nodes = without_pads(model.graph, known.contents)
    if nodes is not None:
        model = known.apply(model, nodes)
    if model is source.proto:
        return source
    stored = known.stored(model)
    tensors = {name: tensor for name, tensor in source.tensors.items() if name in stored}
    folded = {
        tensor.name: stored_tensor(tensor, source.base)
        for tensor in model.graph.initializer
        if tensor.name in known.folded
    }
    fewer = len(source.proto.graph.node) - len(model.graph.node)
    return replace(
        source,
        proto=model,
        tensors={**tensors, **folded},
        came_from=source,
        folded=source.folded + fewer,
    )


def is_followed(tensor: StoredTensor) -> bool:
    """Whether a constant may hold sizes, indices or a mask, or is a single number."""
    return (tensor.size <= LARGEST and tensor.data_type in _INTEGERS) or (
        tensor.size == 1 and tensor.data_type in _FLOATS
    )


def followed_constants(source: SourceModel) -> dict[str, Array]:
    """The contents of all constants that may hold sizes, indices or a mask, or are single numbers."""
    return {
        name: np.asarray(tensor.numpy()) for name, tensor in source.constants.items() if is_followed(tensor)
    }


def may_be_replaced(content: Array) -> bool:
    """Integers, booleans and single numbers; other floating-point tensors are folded when lowering."""
    return content.dtype.kind in "ib" or content.size == 1


def _is_constant(content: Array) -> bool:
    return not is_symbolic(content) and may_be_replaced(content)


_INTEGERS = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE)


class _Known:
    """Contents of small tensors by name, and those that became initialisers."""

    def __init__(self, source: SourceModel, opset: int) -> None:
        self._opset = opset
        self._source = source
        self.contents = followed_constants(source)
        self.folded: set[str] = set()
        self.inferred: InferredTypes | None = None
        self._added: set[str] = set()
        graph = source.proto.graph
        self._read_at_first = _names_read(graph.node).union(value.name for value in graph.output)
        self._returned = {value.name for value in graph.output}
        self._stays = self._returned | _names_deciding(graph.node)

    def extend(self, model: onnx.ModelProto) -> bool:
        """Evaluates all that is possible; returns whether anything new was found."""
        found = False
        nodes = [node for node in model.graph.node if self._is_open(node)]
        asks_for_types = any(node.op_type in SIZE_READERS for node in nodes)
        if asks_for_types:
            self.inferred = infer_types(model, self._source.apart, self.contents)
        followed: Mapping[str, Array] = {} if self.inferred is None else self.inferred.contents
        for node in nodes:
            contents = [followed[name] for name in node.output if name in followed]
            if len(contents) < len(node.output) and node.op_type not in SIZE_READERS:
                known = [self.contents[name] for name in node.input if name in self.contents]
                contents = evaluate(node, known, self._opset) if len(known) == len(node.input) else ()
            if len(contents) == len(node.output) and all(map(_is_constant, contents)):
                self.contents.update(zip(node.output, contents, strict=True))
                found = True
        return found

    def add(self, constants: Mapping[str, Array]) -> None:
        """Makes new constants known, by names that the model does not have."""
        self.contents.update(constants)
        self._added.update(constants)

    def _is_open(self, node: onnx.NodeProto) -> bool:
        return (
            node.domain in STANDARD_DOMAINS
            and (node.op_type in EVALUATED or node.op_type in SIZE_READERS)
            and not all(name in self.contents for name in node.output)
        )

    def apply(self, model: onnx.ModelProto, nodes: Iterable[onnx.NodeProto]) -> onnx.ModelProto:
        """The model without nodes whose outputs are known, and without those that are then unused."""
        graph = model.graph
        kept = [node for node in nodes if not self._is_replaced(node)]
        while True:
            read = _names_read(kept).union(self._returned)
            needed = [node for node in kept if not self._is_left_over(node, read)]
            if len(needed) == len(kept):
                break
            kept = needed
        gone = {n for node in graph.node for n in node.output} - {n for node in kept for n in node.output}
        result = copy_without_graph(model)
        for field, value in graph.ListFields():
            if not field.is_repeated:
                setattr(result.graph, field.name, value)
            elif field.name not in ("node", "initializer", "value_info", "quantization_annotation"):
                getattr(result.graph, field.name).extend(value)
        result.graph.node.extend(kept)
        stays = self.stored(result)
        result.graph.initializer.extend(
            tensor if tensor.name in self.folded else light(tensor)
            for tensor in graph.initializer
            if tensor.name in stays
        )
        have = {tensor.name for tensor in result.graph.initializer}
        for name in sorted(gone.union(self._added).intersection(read) - have):
            result.graph.initializer.append(numpy_helper.from_array(self.contents[name], name))
            self.folded.add(name)
        lost = gone.difference(read)
        result.graph.value_info.extend(value for value in graph.value_info if value.name not in gone)
        result.graph.quantization_annotation.extend(
            entry for entry in graph.quantization_annotation if entry.tensor_name not in lost
        )
        return result

    def stored(self, model: onnx.ModelProto) -> set[str]:
        """The initialisers that are read, visible to callers, or that were never read."""
        read = _names_read(model.graph.node).union(value.name for value in model.graph.output)
        visible = {value.name for value in model.graph.input}
        names = {tensor.name for tensor in self._source.proto.graph.initializer} | self.folded
        return {n for n in names if n in read or n in visible or n not in self._read_at_first}

    def _is_replaced(self, node: onnx.NodeProto) -> bool:
        if node.op_type == "Constant" or not self._stays.isdisjoint(node.output):
            return False
        return bool(node.output) and all(name in self.contents for name in node.output)

    def _is_left_over(self, node: onnx.NodeProto, read: set[str]) -> bool:
        return (
            node.op_type in DISPOSABLE
            and node.domain in STANDARD_DOMAINS
            and read.isdisjoint(node.output)
            and not self._read_at_first.isdisjoint(node.output)
        )


def light(tensor: TensorProto, small: int = SMALL) -> TensorProto:
    """A tensor of more than ``small`` bytes without its content, which stays in the source model."""
    if is_external(tensor) or bytes_of(tensor) <= small:
        return tensor
    stub = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    stub.doc_string = tensor.doc_string
    stub.metadata_props.extend(tensor.metadata_props)
    stub.data_location = TensorProto.EXTERNAL
    stub.external_data.add(key="location", value=STUB)
    return stub


def _names_deciding(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """The conditions of If nodes, and all that they are computed from."""
    names = {node.input[0] for node in nodes if node.op_type == "If"}
    for node in reversed(nodes):
        if not names.isdisjoint(node.output):
            names.update(node.input)
    return names


def _names_read(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    return {name for node in nodes for name in (*node.input, *captured_names(node))}
