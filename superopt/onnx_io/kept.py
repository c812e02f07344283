"""Which ONNX nodes a rewritten graph leaves as they were, and what their operands are now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from superopt.ir.graph import Graph, NodeId, Value
from superopt.onnx_io.lifting import Group, LiftedModel
from superopt.ops import Opaque


@dataclass(frozen=True, slots=True)
class KeptNode:
    """An ONNX node that stays: ``rewired`` says what an operand that the graph sees has become."""

    index: int
    group: Group
    rewired: Mapping[Value, Value]


def kept_nodes(lifted: LiftedModel, graph: Graph) -> dict[int, KeptNode]:
    """The ONNX nodes whose graph nodes are all there and wired to each other as before.

    Their inner values are read inside only. Operands may have been replaced by values of the same type.
    Opaque nodes are left to the caller.
    """
    found: dict[int, KeptNode] = {}
    for index, group in lifted.groups.items():
        if isinstance(lifted.graph[group.nodes[0]].operator, Opaque):
            continue
        rewired = _rewired(lifted.graph, graph, group)
        if rewired is not None and not _read_inside(graph, group):
            found[index] = KeptNode(index, group, rewired)
    return found


def _rewired(before: Graph, after: Graph, group: Group) -> dict[Value, Value] | None:
    """What each outer operand of the group has become; None if the group is not what it was."""
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
