"""Discrimination net: the rules that may match at a node, selected by the operators around it.

The shape of a node is its operator and the operators below it to a given depth. The rules that a shape allows
are computed once and cached across graphs.
"""

from __future__ import annotations

from collections.abc import Sequence

from superopt.ir.graph import Graph, GraphOperator, NodeId, Weight
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Application, Term, Variable
from superopt.ops.attributes import normalise_attribute
from superopt.ops.base import Operator
from superopt.ops.opaque import Opaque
from superopt.ops.traits import ALIASES, HALVES, graph_name, named, traits
from superopt.rewriting import Substitution
from superopt.rewriting.binding import patterns

_DEPTH = 3
_UNKNOWN = 0
_MAY_BE_NUMBERS = ALIASES | named(lambda operator: operator.fills)
_WRITTEN_IN_SEVERAL_WAYS = frozenset(("axis", "padding", "perm", "shape", "size", "value"))


class Net:
    """Rules indexed by the operators required around their first root."""

    def __init__(self, substitutions: Sequence[Substitution]) -> None:
        self._by_root: dict[str, list[tuple[int, Application]]] = {}
        for position, substitution in enumerate(substitutions):
            root = substitution.roots[0]
            self._by_root.setdefault(graph_name(root.operator), []).append((position, root))
        self._numbers: dict[tuple[object, ...], int] = {}
        self._shapes: list[tuple[GraphOperator | None, tuple[int, ...]]] = [(None, ())]
        self._allowed: dict[int, tuple[int, ...]] = {}

    def allowed(self, graph: Graph, node: NodeId, known: dict[tuple[NodeId, int], int]) -> tuple[int, ...]:
        """Indices of the rules that may match with their first root at the node. ``known`` caches shapes
        found in the same graph."""
        shape = self._shape(graph, node, _DEPTH, known)
        found = self._allowed.get(shape)
        if found is None:
            operator, _ = self._shapes[shape]
            of_root = () if operator is None else self._by_root.get(operator.name, ())
            found = tuple(position for position, root in of_root if self._fits(root, shape))
            self._allowed[shape] = found
        return found

    def _shape(self, graph: Graph, node_id: NodeId, depth: int, known: dict[tuple[NodeId, int], int]) -> int:
        if depth == 0:
            return _UNKNOWN
        found = known.get((node_id, depth))
        if found is None:
            node = graph.nodes[node_id]
            operator = node.operator
            below = [self._shape(graph, value.node, depth - 1, known) for value in node.inputs]
            if not isinstance(operator, Operator) or isinstance(operator, Opaque):
                is_number = isinstance(operator, Weight) and operator.number is not None
                key: tuple[object, ...] = (operator.name, is_number)
            else:
                key = (operator, *below)
            found = self._numbers.get(key)
            if found is None:
                found = self._numbers[key] = len(self._shapes)
                self._shapes.append((operator, tuple(below)))
            known[node_id, depth] = found
        return found

    def _fits(self, term: Term, shape: int) -> bool:
        operator, below = self._shapes[shape]
        if operator is None or isinstance(term, Variable):
            return True
        if traits(term.operator).fills:
            is_number = isinstance(operator, Weight) and operator.number is not None
            return is_number or operator.name in _MAY_BE_NUMBERS
        if operator.name != graph_name(term.operator) or not isinstance(operator, Operator):
            return False
        if term.operator in HALVES:
            return self._fits(term.inputs[0], below[0])
        if not _attributes_fit(term, operator):
            return False
        if traits(term.operator).joins:
            return True
        if len(below) != len(term.inputs):
            return False
        orders = (below, below[::-1]) if operator.commutative else (below,)
        return any(all(map(self._fits, term.inputs, order)) for order in orders)


def _attributes_fit(term: Application, operator: Operator) -> bool:
    for name, pattern in patterns(term):
        if isinstance(pattern, AttributeVariable) or name in _WRITTEN_IN_SEVERAL_WAYS:
            continue
        value = getattr(operator, name)
        if pattern not in (value, normalise_attribute(name, value)):
            return False
    return True
