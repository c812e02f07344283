"""Data structures for incremental cost: a set with an overlay of changes, and ordered groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import cast

from superopt.ir.graph import Graph, NodeId
from superopt.ir.plan import FusionGroup
from superopt.traversal import postorder


class Overlay:
    """A set of nodes with an overlay of changes; the underlying set is not modified."""

    __slots__ = ("base", "changed")

    def __init__(self, base: set[NodeId]) -> None:
        self.base = base
        self.changed: dict[NodeId, bool] = {}

    def __contains__(self, node_id: object) -> bool:
        changed = self.changed.get(cast("NodeId", node_id))
        return node_id in self.base if changed is None else changed

    def without(self, removed: Collection[NodeId]) -> set[NodeId]:
        """The set with the changes applied and some nodes removed; the same object where nothing changes."""
        if not self.changed and self.base.isdisjoint(removed):
            return self.base
        result = self.base.difference(removed)
        for node_id, is_member in self.changed.items():
            (result.add if is_member else result.discard)(node_id)
        return result


def in_order(groups: Mapping[NodeId, FusionGroup], order: Iterable[NodeId]) -> list[FusionGroup]:
    """Distinct groups, ordered by the position of their last member."""
    position = {node_id: index for index, node_id in enumerate(order)}
    distinct = {id(group): group for group in groups.values()}.values()
    return sorted(distinct, key=lambda group: max(position[member] for member in group.members))


def local_order(graph: Graph, groups: Mapping[NodeId, FusionGroup]) -> Iterator[NodeId]:
    """The nodes of the groups, operands first; ties by id."""

    def sources(node_id: NodeId) -> Iterator[NodeId]:
        return (value.node for value in reversed(graph.nodes[node_id].inputs) if value.node in groups)

    return postorder(sorted(groups), sources)
