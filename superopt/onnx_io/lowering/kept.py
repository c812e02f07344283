"""Original ONNX nodes that a rewritten graph keeps, with their current operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from superopt.ir.graph import Graph, NodeId, Value
from superopt.onnx_io.emit.recipes import Emission
from superopt.onnx_io.emit.shape import outer_split
from superopt.onnx_io.lifting.models import Group, LiftedModel
from superopt.ops import Opaque
from superopt.ops.shape import Cutting
from superopt.traversal import acyclic


@dataclass(frozen=True, slots=True)
class KeptNode:
    """An ONNX node that is kept: ``rewired`` gives the current operands."""

    index: int
    group: Group
    rewired: Mapping[Value, Value]


def kept_nodes(lifted: LiftedModel, graph: Graph) -> dict[int, KeptNode]:
    """The ONNX nodes whose graph nodes are all present and connected as before. Their inner values must have
    no other readers. Operands may have been replaced by values of the same type. Other tensors that a node
    reads, such as a shape computed at run time, must still exist and not depend on the node. Opaque nodes are
    left to the caller."""
    found: dict[int, KeptNode] = {}
    beside: dict[int, frozenset[NodeId]] = {}
    for index, group in lifted.groups.items():
        if isinstance(lifted.graph[group.nodes[0]].operator, Opaque):
            continue
        rewired = _rewired(lifted.graph, graph, group)
        if rewired is None or _read_inside(graph, group):
            continue
        hidden = _read_beside(lifted.graph, group, rewired)
        if hidden.issubset(graph.nodes):
            found[index] = KeptNode(index, group, rewired)
            if hidden:
                beside[index] = hidden
    while beside:
        cyclic = _in_cycles(graph, found, beside)
        if not cyclic:
            break
        for index in cyclic:
            del found[index], beside[index]
    return found


def _read_beside(before: Graph, group: Group, rewired: Mapping[Value, Value]) -> frozenset[NodeId]:
    """Tensors that an ONNX node reads although no graph node of its group does."""
    read = {value for member in group.nodes for value in before[member].inputs}
    slots = (slot for slot in group.slots if slot is not None and slot not in read)
    return frozenset(rewired.get(slot, slot).node for slot in slots)


def _in_cycles(
    graph: Graph, found: Mapping[int, KeptNode], beside: Mapping[int, frozenset[NodeId]]
) -> set[int]:
    """Nodes that may depend on themselves through tensors outside the graph."""
    head = {member: kept.group.nodes[0] for kept in found.values() for member in kept.group.nodes}
    hidden = {found[index].group.nodes[0]: sources for index, sources in beside.items()}
    sources: dict[NodeId, set[NodeId]] = {}
    for node in graph:
        own = head.get(node.id, node.id)
        read = {value.node for value in node.inputs}.union(node.after, hidden.get(node.id, ()))
        sources.setdefault(own, set()).update(head.get(source, source) for source in read)
        sources[own].discard(own)
    independent = set(acyclic(sources))
    return {index for index in beside if found[index].group.nodes[0] not in independent}


def _rewired(before: Graph, after: Graph, group: Group) -> dict[Value, Value] | None:
    """The current value of each outer operand of the group; None if the group has changed."""
    members = set(group.nodes)
    rewired: dict[Value, Value] = {}
    for member in group.nodes:
        old, new = before[member], after.nodes.get(member)
        if new is None or (new.operator, new.types, new.origin) != (old.operator, old.types, old.origin):
            return None
        if len(old.inputs) != len(new.inputs):
            return None
        for was, now in zip(old.inputs, new.inputs, strict=True):
            if was.node in members:
                intact = was == now
            else:
                intact = (
                    now.node not in members
                    and rewired.setdefault(was, now) == now
                    and (was == now or before.type_of(was) == after.type_of(now))
                )
            if not intact:
                return None
    return rewired


def _read_inside(graph: Graph, group: Group) -> bool:
    """Whether anything outside reads a value that the ONNX node does not offer."""
    members: set[NodeId] = set(group.nodes)
    offered = {value for value in group.outputs if value is not None}
    for member in group.nodes:
        for value in graph[member].values:
            if value in offered:
                continue
            if value in graph.outputs:
                return True
            readers = (graph[user] for user in graph.users(member) if user not in members)
            if any(value in reader.inputs for reader in readers):
                return True
    return False


def splits_to_merge(graph: Graph, kept: frozenset[NodeId]) -> Iterator[NodeId]:
    """Kept splits that become part of an n-ary one, because a new split divides their output or they divide
    its output."""
    everything = Emission(graph, 0, frozenset())
    chains: dict[NodeId, list[NodeId]] = {}
    for node_id in graph.order:
        if not isinstance(graph[node_id].operator, Cutting):
            continue
        chains.setdefault(outer_split(everything, graph[node_id]).id, []).append(node_id)
    for chain in chains.values():
        if not kept.issuperset(chain):
            yield from kept.intersection(chain)
