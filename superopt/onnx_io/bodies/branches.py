"""Puts the branch of an If node with a known condition in its place.

ONNX Runtime does the same to a constant condition, and then infers the types of the branch more strictly than
those of the If node, which makes some models fail to load. Therefore a caller says whether the result loads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import TensorProto, helper

from superopt.domains import Array
from superopt.onnx_io.bodies.names import node_names, rename, value_names
from superopt.onnx_io.bodies.rewriting import Place, places
from superopt.onnx_io.changes.simplifying import followed_constants, light, simplify
from superopt.onnx_io.files.external import stored_tensor
from superopt.onnx_io.files.saving import LoweredModel
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.lowering.writing import PREFIX
from superopt.onnx_io.protos import IR_WITH_FREE_INITIALIZERS, copy_without, free_names, names_within
from superopt.onnx_io.sizes.declarations import without_false_types
from superopt.onnx_io.sizes.inference import infer_types

Loads = Callable[[LoweredModel], bool]

_ROUNDS = 8
"""Maximum depth of If nodes in each other's branches that are decided."""


def with_known_branches(
    source: SourceModel, loads: Loads, keep: Collection[str] = (), prefix: str = ""
) -> SourceModel:
    """The model with branches in place of If nodes whose condition follows from sizes and constants, where it
    still loads; the same model where there are none. Nodes with a name in ``keep`` stay. ``prefix`` is the
    path of the model if it is a body, with a slash."""
    for _ in range(_ROUNDS):
        if source.fixed_reason is not None or source.proto.ir_version < IR_WITH_FREE_INITIALIZERS:
            break
        if not any(node.op_type == "If" for node in source.proto.graph.node):
            break
        simple = simplify(without_false_types(source))
        found = _decided(simple, keep)
        accepted = _accepted(simple, found, loads, prefix) if found else None
        if accepted is None:
            break
        source = accepted
    return source


def _accepted(
    simple: SourceModel, found: Mapping[int, Place], loads: Loads, prefix: str
) -> SourceModel | None:
    """The model with all of the branches, else with those that load one after the other."""
    whole = _replaced(simple, found, prefix)
    if loads(LoweredModel.of_derived(whole)):
        return whole
    chosen: dict[int, Place] = {}
    best = None
    for index, place in found.items() if len(found) > 1 else ():
        candidate = _replaced(simple, {**chosen, index: place}, prefix)
        if loads(LoweredModel.of_derived(candidate)):
            chosen[index], best = place, candidate
    return best


def _decided(source: SourceModel, keep: Collection[str]) -> dict[int, Place]:
    """The taken branches of If nodes with known conditions, by the index of the node."""
    followed = followed_constants(source)
    inferred = infer_types(source.proto, source.apart, followed)
    contents: Mapping[str, Array] = {**followed, **inferred.contents}
    taken: dict[int, Place] = {}
    for place in places(source.proto.graph):
        node = source.proto.graph.node[place.node]
        if node.op_type != "If" or node.name in keep or place.graph.sparse_initializer:
            continue
        condition = contents.get(node.input[0])
        if condition is None or condition.dtype != np.bool_ or condition.size != 1:
            continue
        if node.attribute[place.attribute].name == ("then_branch" if condition.item() else "else_branch"):
            taken[place.node] = place
    return taken


@dataclass(frozen=True)
class _Branch:
    """A branch with the names that it has in place of its node."""

    nodes: tuple[onnx.NodeProto, ...]
    initializers: tuple[TensorProto, ...]
    declared: tuple[onnx.ValueInfoProto, ...]


def _replaced(source: SourceModel, found: Mapping[int, Place], prefix: str) -> SourceModel:
    model = source.proto
    times = Counter(names_within(model.graph))
    result = copy_without(model, ("node", "initializer", "value_info"))
    graph = result.graph
    graph.initializer.extend(map(light, model.graph.initializer))
    tensors = dict(source.tensors)
    gone: set[str] = set()
    for index, node in enumerate(model.graph.node):
        if index not in found:
            graph.node.append(node)
            continue
        branch = _branch(node, found[index], prefix, times)
        gone.update(node.output)
        graph.node.extend(branch.nodes)
        graph.value_info.extend(branch.declared)
        for tensor in branch.initializers:
            tensors[tensor.name] = stored_tensor(tensor, source.base)
            graph.initializer.append(light(tensor))
    graph.value_info.extend(value for value in model.graph.value_info if value.name not in gone)
    steps = (
        f"{prefix}{place.path} in place of its node, whose condition is known" for place in found.values()
    )
    return replace(
        source,
        proto=result,
        tensors=tensors,
        came_from=source,
        prepared=(*source.prepared, *steps),
    )


def _branch(node: onnx.NodeProto, place: Place, prefix: str, times: Counter[str]) -> _Branch:
    """The branch as part of the outer graph. Names that also occur outside the branch are replaced;
    ``times`` counts every name in the model."""
    graph = onnx.GraphProto()
    graph.CopyFrom(place.graph)
    made = {name for inner in graph.node for name in inner.output if name}
    own = made.union(tensor.name for tensor in graph.initializer)
    here = Counter(names_within(graph))
    nested = set(value_names(graph)) - set(free_names(place.graph))
    path = f"{PREFIX}{prefix}{place.path}/"
    values = {name: path + name for name in nested if times[name] > here[name]}
    named = [name for name in node_names(graph) if name]
    nodes = {name: path + name for name in named if times[name] > here[name]}
    aliases: list[tuple[str, str]] = []
    direct: dict[str, str] = {}
    for inner, outer in zip((value.name for value in graph.output), node.output, strict=False):
        if not outer:
            continue
        if inner in made and inner not in direct:
            direct[inner] = outer
        else:
            aliases.append((inner, outer))
    rename(graph, {**values, **direct}, nodes)
    written = list(graph.node)
    for inner, outer in aliases:
        name = direct.get(inner, values.get(inner, inner))
        written.append(helper.make_node("Identity", [name], [outer], f"{path}{outer}"))
    kept = {values.get(name, name) for name in own if name not in direct}
    declared = tuple(value for value in graph.value_info if value.name in kept)
    return _Branch(tuple(written), tuple(graph.initializer), declared)
