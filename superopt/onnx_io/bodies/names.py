"""Names within a subgraph: rename them, and identify subgraphs that are equal up to their names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import onnx

from superopt.onnx_io.lowering.writing import PREFIX
from superopt.onnx_io.protos import subgraphs


def value_names(graph: onnx.GraphProto) -> dict[str, None]:
    """The names of all tensors in the graph and its subgraphs, in order of first use."""
    return {name: None for name in _values(graph) if name}


def node_names(graph: onnx.GraphProto) -> tuple[str, ...]:
    """The names of all nodes in the graph and its subgraphs, in order."""
    return tuple(_nodes(graph))


def _values(graph: onnx.GraphProto) -> Iterator[str]:
    for value in (*graph.input, *graph.output):
        yield value.name
    for tensor in graph.initializer:
        yield tensor.name
    for sparse in graph.sparse_initializer:
        yield sparse.values.name
    for node in graph.node:
        yield from node.input
        yield from node.output
        for nested in subgraphs(node):
            yield from _values(nested)
    for value in graph.value_info:
        yield value.name


def _nodes(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield node.name
        for nested in subgraphs(node):
            yield from _nodes(nested)


def rename(graph: onnx.GraphProto, values: Mapping[str, str], nodes: Mapping[str, str]) -> None:
    """Renames tensors and nodes in a graph and its subgraphs; those without a new name keep theirs."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = values.get(value.name, value.name)
    for tensor in graph.initializer:
        tensor.name = values.get(tensor.name, tensor.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = values.get(sparse.values.name, sparse.values.name)
    for annotation in graph.quantization_annotation:
        annotation.tensor_name = values.get(annotation.tensor_name, annotation.tensor_name)
        for entry in annotation.quant_parameter_tensor_names:
            entry.value = values.get(entry.value, entry.value)
    for node in graph.node:
        node.name = nodes.get(node.name, node.name)
        node.input[:] = [values.get(name, name) for name in node.input]
        node.output[:] = [values.get(name, name) for name in node.output]
        for configuration in node.device_configurations:
            for sharding in configuration.sharding_spec:
                sharding.tensor_name = values.get(sharding.tensor_name, sharding.tensor_name)
        for nested in subgraphs(node):
            rename(nested, values, nodes)


def digest(graph: onnx.GraphProto, constants: Mapping[str, str]) -> str:
    """Equal for graphs that are equal but for the names of tensors and nodes and for documentation.
    ``constants`` identifies the tensors whose content is not in the graph."""
    copy = onnx.GraphProto()
    copy.CopyFrom(graph)
    rename(copy, {name: f"t{index}" for index, name in enumerate(value_names(graph))}, {})
    known = [
        f"{index}:{constants[name]}" for index, name in enumerate(value_names(graph)) if name in constants
    ]
    _clear_documentation(copy)
    content = copy.SerializeToString(deterministic=True)
    return hashlib.sha256("\n".join((*known, "")).encode() + content).hexdigest()


def _clear_documentation(graph: onnx.GraphProto) -> None:
    graph.name = ""
    graph.ClearField("doc_string")
    graph.ClearField("metadata_props")
    for tensor in graph.initializer:
        tensor.ClearField("doc_string")
    for node in graph.node:
        for field in ("name", "doc_string", "metadata_props"):
            node.ClearField(field)
        for nested in subgraphs(node):
            _clear_documentation(nested)


def with_names_of(
    written: onnx.GraphProto, first: onnx.GraphProto, second: onnx.GraphProto, declared: onnx.GraphProto
) -> onnx.GraphProto:
    """The rewritten form of one graph with the names of another that has the same digest, and with the name,
    inputs and outputs that the latter is ``declared`` with."""
    copy = onnx.GraphProto()
    copy.CopyFrom(written)
    values = dict(zip(value_names(first), value_names(second), strict=True))
    nodes = dict(zip(node_names(first), node_names(second), strict=True))
    rename(copy, values, {old: new for old, new in nodes.items() if old})
    copy.name, copy.doc_string = declared.name, declared.doc_string
    for field in ("input", "output"):
        copy.ClearField(field)
        getattr(copy, field).extend(getattr(declared, field))
    return copy


def set_apart(graph: onnx.GraphProto, original: onnx.GraphProto, path: str, taken: frozenset[str]) -> None:
    """Gives every tensor and node that is not in the ``original`` subgraph a name with the subgraph's path,
    so that it clashes with no other in the model, whose names are ``taken``."""
    used = set(taken)
    own, named = value_names(original), frozenset(node_names(original))
    values = {name: _fresh(name, path, used) for name in value_names(graph) if name not in own}
    nodes = {name: _fresh(name, path, set()) for name in node_names(graph) if name and name not in named}
    rename(graph, values, nodes)


def _fresh(name: str, path: str, used: set[str]) -> str:
    own = f"{PREFIX}{path}/"
    fresh = name if name.startswith(own) else own + name.removeprefix(PREFIX)
    while fresh in used:
        fresh += "'"
    used.add(fresh)
    return fresh
