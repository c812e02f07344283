"""Repair models that violate the ONNX specification in ways that runtimes tolerate, with a warning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import onnx

from superopt.onnx_io.lowering.ordering import in_order
from superopt.onnx_io.protos import captured_names, copy_without_graph
from superopt.onnx_io.sizes.inference import without_weights


def repaired(model: onnx.ModelProto) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """The model with topologically sorted nodes and unique initialisers, and the changes made; the model
    itself if there were none. Of initialisers with one name the last one is used."""
    warnings: list[str] = []
    nodes = sorted_nodes(model.graph.node)
    if nodes is not model.graph.node:
        warnings.append("its nodes are not in topological order")
    times = Counter(tensor.name for tensor in model.graph.initializer)
    twice = [name for name, count in times.items() if count > 1]
    if twice:
        warnings.append(f"several initialisers are called {twice[0]!r}: the last one is used")
    if not warnings:
        return model, ()
    result = copy_without_graph(model)
    for field, content in model.graph.ListFields():
        if not field.is_repeated:
            setattr(result.graph, field.name, content)
        elif field.name not in ("node", "initializer"):
            getattr(result.graph, field.name).extend(content)
    result.graph.node.extend(nodes)
    last = {tensor.name: index for index, tensor in enumerate(model.graph.initializer)}
    result.graph.initializer.extend(model.graph.initializer[index] for index in sorted(last.values()))
    return result, tuple(warnings)


def with_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy without weights in which inputs and outputs of unknown rank are scalars, for the ONNX checker,
    which knows no others."""
    result = without_weights(model)
    for value in (*result.graph.input, *result.graph.output):
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.SetInParent()
    return result


def sorted_nodes(nodes: Sequence[onnx.NodeProto]) -> Sequence[onnx.NodeProto]:
    """The nodes in topological order; the same sequence if already sorted. Raises CyclicGraphError."""
    items = list(nodes)
    producers = {name: node for node in items for name in node.output if name}
    place = {id(node): index for index, node in enumerate(items)}

    def reads(node: onnx.NodeProto) -> list[onnx.NodeProto]:
        names = (*node.input, *captured_names(node))
        return [producers[name] for name in names if name in producers]

    if all(place[id(source)] < place[id(node)] for node in items for source in reads(node)):
        return nodes
    return list(in_order(items, reads, lambda node: node.name or node.op_type))
