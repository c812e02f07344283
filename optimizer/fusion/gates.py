"""Fusion patterns in decomposed form: ``x * gate(x)`` (gelu, its tanh form, silu) and row normalisation."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeAlias

from superopt.ir.graph import Graph, NodeId
from superopt.ir.plan import FusionGroup
from superopt.ops.roles import FusionRole
from superopt.ops.traits import named, traits

FreeNodes: TypeAlias = "Container[NodeId]"
"""Nodes that depend on weights alone: they are constant-folded and belong to no group."""

TRANSPARENT = named(lambda operator: operator.role is FusionRole.TRANSPARENT)
"""Operators that vanish when a graph is lowered, or cost nothing: fusion sees through them."""

_MAX_MEMBERS = 12
_MAX_DISTANCE = 6


def gate_of(
    graph: Graph, node_id: NodeId, free: FreeNodes, is_available: Callable[[NodeId], bool]
) -> FusionGroup | None:
    """The gated group that contains the node, None if there is none. ``is_available`` tells which nodes no
    other group has taken. If two gates claim a node, the one with the larger id has no group, so that groups
    never overlap."""
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
            operator = traits(graph.nodes[current].operator.name)
            if operator.gate:
                found.append(current)
            elif operator.gate_step is None:
                continue
            readers = _readers(graph, current)
            for neighbour in (*_sources(graph, current), *(readers if len(readers) <= 2 else ())):
                if neighbour not in seen and neighbour not in free:
                    seen.add(neighbour)
                    following.append(neighbour)
        frontier = following
    return sorted(found)


def _readers(graph: Graph, node_id: NodeId) -> list[NodeId]:
    """The readers of a node, skipping nodes that vanish when lowered."""
    found: dict[NodeId, None] = {}
    for user in graph.users(node_id):
        if graph.nodes[user].operator.name in TRANSPARENT:
            found.update(dict.fromkeys(_readers(graph, user)))
        else:
            found[user] = None
    return list(found)


def _sources(graph: Graph, node_id: NodeId) -> list[NodeId]:
    """The operands of a node, skipping nodes that vanish when lowered."""
    found: list[NodeId] = []
    for value in graph.nodes[node_id].inputs:
        source = graph.nodes[value.node]
        while source.operator.name in TRANSPARENT:
            source = graph.nodes[source.inputs[0].node]
        found.append(source.id)
    return found


def _members(
    graph: Graph, gate: NodeId, free: FreeNodes, is_available: Callable[[NodeId], bool]
) -> set[NodeId]:
    """From the gate down to the products that use it, and up through steps without other readers."""
    if not is_available(gate):
        return set()
    steps = traits(graph.nodes[gate].operator.name).gate

    def joins(node_id: NodeId) -> bool:
        step = traits(graph.nodes[node_id].operator.name).gate_step
        return node_id not in free and step in steps and is_available(node_id)

    members = {gate}
    last = gate
    while len(members) < _MAX_MEMBERS and last not in graph.output_nodes:
        readers = _readers(graph, last)
        if len(readers) != 1 or not joins(readers[0]):
            break
        last = readers[0]
        members.add(last)
    waiting = sorted(members)
    while waiting and len(members) < _MAX_MEMBERS:
        for source in _sources(graph, waiting.pop()):
            if source in members or source in graph.output_nodes or not joins(source):
                continue
            if members.issuperset(_readers(graph, source)):
                members.add(source)
                waiting = sorted(members)
    return members


def _reads_twice(graph: Graph, members: set[NodeId], free: FreeNodes) -> bool:
    """Whether some node is read twice, which distinguishes a gate from a chain."""
    seen: set[NodeId] = set()
    for member in members:
        for source in _sources(graph, member):
            if source in free:
                continue
            if source in seen:
                return True
            seen.add(source)
    return False


def _execution_order(graph: Graph, members: set[NodeId]) -> tuple[NodeId, ...]:
    ordered: list[NodeId] = []
    waiting = sorted(members)
    while waiting:
        ready = next(m for m in waiting if not any(source in waiting for source in _sources(graph, m)))
        ordered.append(ready)
        waiting.remove(ready)
    return tuple(ordered)
