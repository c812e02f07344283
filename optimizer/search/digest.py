"""Incremental graph fingerprint: a rewrite updates only what it touches.

Every value belongs to a class, and a rewrite keeps the class of the value that it replaces, since both are
equal. A graph is the multiset of its nodes, each an operator from classes to classes. Rewrites at independent
places therefore give the same fingerprint in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from superopt.ir.graph import Graph, Node, Value
from superopt.rewriting import Rewrite

_MASK = (1 << 64) - 1


@dataclass(frozen=True, eq=False)
class Digest:
    """``fingerprint`` is valid within one process; equal graphs with the same derivation have equal ones."""

    fingerprint: int
    classes: Mapping[Value, int]

    @staticmethod
    def of(graph: Graph) -> Digest:
        """The digest of a graph from scratch."""
        classes: dict[Value, int] = {}
        total = 0
        for node_id in graph.order:
            node = graph.nodes[node_id]
            operands = _operands(node, classes.__getitem__)
            for value in node.values:
                classes[value] = _value_hash(node, operands, value)
            total += _node_hash(node, classes.__getitem__)
        return Digest((total + _ends(graph, classes.__getitem__)) & _MASK, classes)

    def after(self, before: Graph, rewrite: Rewrite) -> DigestUpdate:
        """The digest update of a rewrite; ``before`` is the graph of this digest."""
        return DigestUpdate(self, before, rewrite)


class DigestUpdate:
    """Digest after one rewrite: computes its ``fingerprint`` immediately, the rest on demand."""

    def __init__(self, digest: Digest, before: Graph, rewrite: Rewrite) -> None:
        self._digest = digest
        self._before = before
        self._rewrite = rewrite
        self._classes: dict[Value, int] = {}
        self.fingerprint = self._follow()

    def build(self) -> Digest:
        """The digest of the rewritten graph."""
        classes = {**self._digest.classes, **self._classes}
        for node_id in self._rewrite.removed:
            for value in self._before.nodes[node_id].values:
                del classes[value]
        return Digest(self.fingerprint, classes)

    def _follow(self) -> int:
        rewrite, before, after = self._rewrite, self._before, self._rewrite.graph
        old = self._digest.classes
        added = set(rewrite.added)
        rewired = {
            user: None
            for value in rewrite.replaced.values()
            for user in after.users(value.node)
            if user not in added
        }
        total = self._digest.fingerprint - _ends(before, old.__getitem__)
        for node_id in (*rewrite.removed, *rewired):
            total -= _node_hash(before.nodes[node_id], old.__getitem__)
        kept: dict[Value, int] = {}
        for replaced, replacement in rewrite.replaced.items():
            kept.setdefault(replacement, old[replaced])
        for node_id in rewrite.added:
            node = after.nodes[node_id]
            operands = _operands(node, self._class_of)
            for value in node.values:
                found = kept.get(value)
                self._classes[value] = _value_hash(node, operands, value) if found is None else found
            total += _node_hash(node, self._class_of)
        for node_id in rewired:
            total += _node_hash(after.nodes[node_id], self._class_of)
        return (total + _ends(after, self._class_of)) & _MASK

    def _class_of(self, value: Value) -> int:
        found = self._classes.get(value)
        return self._digest.classes[value] if found is None else found


def _value_hash(node: Node, operands: tuple[int, ...], value: Value) -> int:
    return hash((_operator_of(node), operands, value.port))


def _node_hash(node: Node, class_of: Callable[[Value], int]) -> int:
    results = tuple(class_of(value) for value in node.values)
    return hash((_operator_of(node), _operands(node, class_of), results))


def _operator_of(node: Node) -> tuple[object, ...]:
    """The operator with its class: the hash of a dataclass is that of its fields alone, so that all operators
    without fields have the same."""
    return type(node.operator), node.operator


def _operands(node: Node, class_of: Callable[[Value], int]) -> tuple[int, ...]:
    operands = [class_of(value) for value in node.inputs]
    return tuple(sorted(operands) if getattr(node.operator, "commutative", False) else operands)


def _ends(graph: Graph, class_of: Callable[[Value], int]) -> int:
    return hash(tuple(class_of(value) for value in graph.outputs))
