"""Gated steps, ``x * gate(x)``: gelu and silu in the pieces in which exporters write them."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeAlias

from superopt.ir.graph import Graph, NodeId, Value
from superopt.ir.plan import FusionGroup

FreeNodes: TypeAlias = "Container[NodeId]"
"""The nodes that depend on weights alone: they are folded and belong to no group."""

_GATES = frozenset(("erf", "sigmoid"))
_STEPS = frozenset(("add", "mul", "div", "scale", "bias_add", "channel_scale"))
_MAX_MEMBERS = 10
_MAX_DISTANCE = 6


def gate_of(
    graph: Graph, node_id: NodeId, free: FreeNodes, is_available: Callable[[NodeId], bool]
) -> FusionGroup | None:
    """The gated group that holds the node, None when there is none.

    ``is_available`` says which nodes no other group has taken. Of two gates that claim a node, the one with
    the larger id has no group, so that groups never overlap.
    """
    for gate in _gates_near(graph, node_id, free):
        members = _members(graph, gate, free, is_available)
        if node_id not in members or not _reads_twice(graph, members, free):
            continue
        rivals = {other for member in members for other in _gates_near(graph, member, free) if other < gate}
        if any(not members.isdisjoint(_members(graph, other, free, is_available)) for other in rivals):
            return None
        ordered = _execution_order(graph, members)
        return FusionGroup(ordered[-1], ordered)
    return None


def _gates_near(graph: Graph, node_id: NodeId, free: FreeNodes) -> list[NodeId]:
    found: list[NodeId] = []
    seen = {node_id}
    frontier = [node_id]
    for _ in range(_MAX_DISTANCE):
        following: list[NodeId] = []
        for current in frontier:
            node = graph.nodes[current]
            name = node.operator.name
            if name in _GATES:
                found.append(current)
            elif name not in _STEPS:
                continue
            users = graph.users(current)
            for neighbour in (*(v.node for v in node.inputs), *(users if len(users) <= 2 else ())):
                if neighbour not in seen and neighbour not in free:
                    seen.add(neighbour)
                    following.append(neighbour)
        frontier = following
    return sorted(found)


def _members(
    graph: Graph, gate: NodeId, free: FreeNodes, is_available: Callable[[NodeId], bool]
) -> set[NodeId]:
    """From the gate down to the products that use it, and up through steps that nothing else reads."""
    if not is_available(gate):
        return set()
    members = {gate}
    node = graph.nodes[gate]
    while len(members) < _MAX_MEMBERS and node.id not in graph.output_nodes:
        users = graph.users(node.id)
        if len(users) != 1 or not _is_step(graph, users[0], free) or not is_available(users[0]):
            break
        node = graph.nodes[users[0]]
        members.add(node.id)
    waiting = sorted(members)
    while waiting and len(members) < _MAX_MEMBERS:
        for value in graph.nodes[waiting.pop()].inputs:
            source = value.node
            if source in members or source in graph.output_nodes or not _is_step(graph, source, free):
                continue
            if members.issuperset(graph.users(source)) and is_available(source):
                members.add(source)
                waiting = sorted(members)
    return members


def _is_step(graph: Graph, node_id: NodeId, free: FreeNodes) -> bool:
    return node_id not in free and graph.nodes[node_id].operator.name in _STEPS


def _reads_twice(graph: Graph, members: set[NodeId], free: FreeNodes) -> bool:
    """Whether some value is read at two places: what makes the group a gate and not a mere chain."""
    seen: set[Value] = set()
    for member in members:
        for value in graph.nodes[member].inputs:
            if value.node in free:
                continue
            if value in seen:
                return True
            seen.add(value)
    return False


def _execution_order(graph: Graph, members: set[NodeId]) -> tuple[NodeId, ...]:
    ordered: list[NodeId] = []
    waiting = sorted(members)
    while waiting:
        ready = next(m for m in waiting if not any(v.node in waiting for v in graph.nodes[m].inputs))
        ordered.append(ready)
        waiting.remove(ready)
    return tuple(ordered)
