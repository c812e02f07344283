"""A fingerprint of a graph that follows rewrites at the price of what they touch.

Every value belongs to a class, and a rewrite leaves the class of what it replaces as it is: both are equal. A
graph is the multiset of its nodes, each an operator on classes that gives classes. Rewrites at different
places therefore give one fingerprint in whatever order they are applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from superopt.ir.graph import Graph, Node, NodeId, Value
from superopt.rewriting import Rewrite

_MASK = (1 << 64) - 1


@dataclass(frozen=True, eq=False)
class Digest:
    """``fingerprint`` is valid within one process; equal graphs derived alike have equal ones."""

    fingerprint: int
    classes: Mapping[Value, int]

    @staticmethod
    def of(graph: Graph) -> Digest:
        """The digest of a graph from scratch."""
        classes: dict[Value, int] = {}
        total = 0
        for node_id in graph.order:
            node = graph.nodes[node_id]
            for value in node.values:
                classes[value] = _fresh_class(node, value.port, classes)
            total += _node_hash(node, classes)
        return Digest((total + _ends(graph, classes)) & _MASK, classes)

    def after(self, before: Graph, rewrite: Rewrite) -> Digest:
        """The digest of the rewritten graph; ``before`` is the graph that this one belongs to."""
        graph = rewrite.graph
        classes = dict(self.classes)
        total = self.fingerprint - _ends(before, classes)
        rewired: dict[NodeId, None] = {}
        added = set(rewrite.added)
        for value in rewrite.replaced.values():
            rewired.update((user, None) for user in graph.users(value.node) if user not in added)
        for node_id in (*rewrite.removed, *rewired):
            total -= _node_hash(before.nodes[node_id], classes)
        kept: dict[Value, int] = {}
        for old, new in rewrite.replaced.items():
            kept.setdefault(new, classes[old])
        for node_id in rewrite.added:
            node = graph.nodes[node_id]
            for value in node.values:
                found = kept.get(value)
                classes[value] = _fresh_class(node, value.port, classes) if found is None else found
            total += _node_hash(node, classes)
        for node_id in rewired:
            total += _node_hash(graph.nodes[node_id], classes)
        for node_id in rewrite.removed:
            for value in before.nodes[node_id].values:
                del classes[value]
        return Digest((total + _ends(graph, classes)) & _MASK, classes)


def _fresh_class(node: Node, port: int, classes: Mapping[Value, int]) -> int:
    return hash((node.operator, _operands(node, classes), port))


def _node_hash(node: Node, classes: Mapping[Value, int]) -> int:
    return hash((node.operator, _operands(node, classes), tuple(classes[value] for value in node.values)))


def _operands(node: Node, classes: Mapping[Value, int]) -> tuple[int, ...]:
    operands = [classes[value] for value in node.inputs]
    return tuple(sorted(operands) if getattr(node.operator, "commutative", False) else operands)


def _ends(graph: Graph, classes: Mapping[Value, int]) -> int:
    return hash(tuple(classes[value] for value in graph.outputs))
