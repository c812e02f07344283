"""Constants of a graph with rewritten bodies: unread ones are removed, equal new ones stored once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx
from onnx import TensorProto

from superopt.onnx_io.bodies.names import rename
from superopt.onnx_io.changes.simplifying import DISPOSABLE
from superopt.onnx_io.files.external import stored_tensor
from superopt.onnx_io.files.stored import StoredTensor
from superopt.onnx_io.lowering.writing import PREFIX
from superopt.onnx_io.protos import STANDARD_DOMAINS, captured_names, subgraphs

_SHARED = 1024
"""Bytes; equal constants of more than this that several bodies get are stored once."""


def remove_unread(graph: onnx.GraphProto, before: onnx.GraphProto) -> None:
    """Removes in place the initialisers that only bodies read ``before``, and the nodes without effects that
    computed from sizes and constants what bodies no longer read. Initialisers that are inputs stay."""
    once = _read(before)
    while True:
        read = _read(graph)
        left = [node for node in graph.node if not _is_left_over(node, read, once)]
        if len(left) == len(graph.node):
            break
        del graph.node[:]
        graph.node.extend(left)
    visible = {value.name for value in graph.input}
    kept = [t for t in graph.initializer if t.name in read or t.name in visible or t.name not in once]
    if len(kept) < len(graph.initializer):
        del graph.initializer[:]
        graph.initializer.extend(kept)
    made = {name for node in graph.node for name in node.output}.union(visible, (t.name for t in kept))
    declared = [value for value in graph.value_info if value.name in made]
    del graph.value_info[:]
    graph.value_info.extend(declared)


def _read(graph: onnx.GraphProto) -> set[str]:
    names = {name for node in graph.node for name in (*node.input, *captured_names(node))}
    return names.union(value.name for value in graph.output)


def _is_left_over(node: onnx.NodeProto, read: set[str], once: set[str]) -> bool:
    return (
        node.op_type in DISPOSABLE
        and node.domain in STANDARD_DOMAINS
        and read.isdisjoint(node.output)
        and not once.isdisjoint(node.output)
    )


def share_constants(graph: onnx.GraphProto) -> Mapping[str, StoredTensor]:
    """Moves equal constants that rewriting has added to several bodies to the graph around them, in place;
    returns them by name."""
    held: dict[tuple[int, tuple[int, ...], bytes], list[tuple[onnx.GraphProto, TensorProto]]] = {}
    for body, tensor in _added_constants(graph):
        held.setdefault((tensor.data_type, tuple(tensor.dims), tensor.raw_data), []).append((body, tensor))
    shared: dict[str, StoredTensor] = {}
    for several in held.values():
        if len(several) < 2:
            continue
        name = several[0][1].name
        moved = graph.initializer.add()
        moved.CopyFrom(several[0][1])
        shared[name] = stored_tensor(moved, Path())
        for body, tensor in several:
            old = tensor.name
            body.initializer.remove(tensor)
            rename(body, {old: name}, {})
    return shared


def _added_constants(graph: onnx.GraphProto) -> Iterator[tuple[onnx.GraphProto, TensorProto]]:
    """(body, constant) for the constants that rewriting has added to bodies; small ones are left out."""
    for node in graph.node:
        for body in subgraphs(node):
            returned = {value.name for value in body.output}
            for tensor in body.initializer:
                is_added = tensor.name.startswith(PREFIX) and tensor.name not in returned
                if is_added and len(tensor.raw_data) > _SHARED:
                    yield body, tensor
            yield from _added_constants(body)
