"""Model structure for viewers: without tensor contents, and the differences between two models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto

from superopt.errors import InvalidModelError
from superopt.onnx_io.protos import tensors_in_model

_SHOWN_BYTES = 256
_CONTENTS = (
    "raw_data",
    "float_data",
    "int32_data",
    "int64_data",
    "double_data",
    "uint64_data",
    "string_data",
    "external_data",
)


@dataclass(frozen=True, slots=True)
class Outlines:
    """Two models without large tensor contents, with every node named, and the differing nodes. ``removed``
    are nodes of the first that the second lacks, ``added`` the reverse; ``changed`` ones are in both with
    different inputs or attributes. Nodes in subgraphs are not compared."""

    before: bytes
    after: bytes
    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]


def outlines(before: Path, after: Path, most: int | None = None) -> Outlines:
    """The outlines of two model files; raises InvalidModelError for a file that is not a model. With
    ``most``, at most that many nodes of each: those that differ, then those near them."""
    first, second = _outline(before), _outline(after)
    old, new = _named(first.graph.node), _named(second.graph.node)
    kept = {name for name in old.keys() & new.keys() if old[name].op_type == new[name].op_type}
    removed = tuple(name for name in old if name not in kept)
    added = tuple(name for name in new if name not in kept)
    changed = tuple(name for name in old if name in kept and old[name] != new[name])
    if most is not None:
        _cut(first, (*removed, *changed), most)
        _cut(second, (*added, *changed), most)
    return Outlines(first.SerializeToString(), second.SerializeToString(), removed, added, changed)


def _outline(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.ModelProto.FromString(path.read_bytes())
    except DecodeError as error:
        raise InvalidModelError(f"{path.name}: not an ONNX model: {error}") from None
    for tensor in tensors_in_model(model):
        if tensor.ByteSize() > _SHOWN_BYTES or tensor.data_location == TensorProto.EXTERNAL:
            for field in _CONTENTS:
                tensor.ClearField(field)
            tensor.ClearField("data_location")
    for node in model.graph.node:
        if not node.name:
            node.name = next((output for output in node.output if output), "")
    return model


def _cut(model: onnx.ModelProto, centres: Iterable[str], most: int) -> None:
    """Keeps the ``most`` nodes nearest to the centres."""
    graph = model.graph
    touching: dict[str, list[int]] = {}
    for place, node in enumerate(graph.node):
        for tensor in (*node.input, *node.output):
            touching.setdefault(tensor, []).append(place)
    wanted = frozenset(centres)
    reached = dict.fromkeys(place for place, node in enumerate(graph.node) if node.name in wanted)
    queue = list(reached or range(min(most, len(graph.node))))
    reached = dict.fromkeys(queue)
    for place in queue:
        if len(reached) >= most:
            break
        node = graph.node[place]
        near = dict.fromkeys(p for tensor in (*node.input, *node.output) for p in touching[tensor])
        fresh = [p for p in near if p not in reached]
        reached.update(dict.fromkeys(fresh))
        queue.extend(fresh)
    nodes = [graph.node[place] for place in sorted(list(reached)[:most])]
    made = {output for node in nodes for output in node.output}
    used = dict.fromkeys(tensor for node in nodes for tensor in node.input if tensor)
    weights = [tensor for tensor in graph.initializer if tensor.name in used]
    known = made | {tensor.name for tensor in weights}
    ends = [value for value in graph.output if value.name in made]
    kept = onnx.GraphProto(name=graph.name, node=nodes, initializer=weights, output=ends)
    kept.input.extend(onnx.ValueInfoProto(name=tensor) for tensor in used if tensor not in known)
    kept.value_info.extend(value for value in graph.value_info if value.name in made or value.name in used)
    graph.CopyFrom(kept)


def _named(nodes: Iterable[onnx.NodeProto]) -> Mapping[str, onnx.NodeProto]:
    return {node.name: node for node in nodes}
