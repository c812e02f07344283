"""Derivability of single equations by term rewriting with kept equations.

Terms are interned, so that equality is object identity.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from superopt.ir.terms import Application, AttributeTerm, AttributeVariable, Term, Variable
from superopt.ops.traits import HALVES

Attributes: TypeAlias = "tuple[tuple[str, AttributeTerm], ...]"
Outputs: TypeAlias = "tuple[Term, ...]"

SLACK = 1
STEPS = 3
"""Step limit, equal to the default of `library coverage`, so that dropped rules are found derivable there."""
_OUTPUT_FORMS = 60
_MOST_ORDERS = 32
_MOST_NODES = 200_000
"""Maximum number of cached terms, about 1 KB each."""


class Node:
    """An interned term: a variable when ``operator`` is empty, then ``name`` is its name."""

    __slots__ = ("attributes", "inputs", "name", "number", "open", "operator", "size", "variables")

    def __init__(
        self, operator: str, name: str, attributes: Attributes, inputs: tuple[Node, ...], number: int
    ) -> None:
        self.number = number
        self.operator = operator
        self.name = name
        self.attributes = attributes
        self.inputs = inputs
        self.open = any(isinstance(value, AttributeVariable) for _, value in attributes)
        self.size: int = bool(operator) + sum(child.size for child in inputs)
        own = frozenset((name,)) if not operator else frozenset[str]()
        self.variables: frozenset[str] = own.union(*(child.variables for child in inputs))


@dataclass(frozen=True, slots=True)
class Rewriting:
    """``source`` may be replaced by ``target``."""

    source: Node
    target: Node


@dataclass(frozen=True, slots=True)
class Merge:
    """Two terms that are the ``halves`` of ``whole``."""

    sources: tuple[Node, Node]
    whole: Node
    halves: tuple[Attributes, Attributes]


class _Neighbours:
    """The terms after one rewrite of a term, in order of discovery; grows with the equations."""

    __slots__ = ("found", "of_inputs", "tried")

    def __init__(self, inputs: int) -> None:
        self.found: dict[Node, None] = {}
        self.tried = [0, 0]
        self.of_inputs = [0] * inputs


class _Side:
    """Rewrites indexed by the operators at root and first argument of their source, with cached results."""

    def __init__(self) -> None:
        self.rewritings: dict[tuple[str, str], list[Rewriting]] = {}
        self.neighbours: dict[Node, _Neighbours] = {}
        self.count = 0
        self.current: dict[Node, int] = {}

    def add(self, source: Node, target: Node) -> None:
        first = source.inputs[0].operator if source.inputs else ""
        self.rewritings.setdefault((source.operator, first), []).append(Rewriting(source, target))
        self.count += 1

    def all(self) -> Iterable[Rewriting]:
        """Every rewriting."""
        return itertools.chain.from_iterable(self.rewritings.values())

    def forget(self) -> None:
        """Clears cached results, not the rewrites."""
        self.neighbours.clear()
        self.current.clear()


class Binding:
    """A substitution for variables and attribute variables of a pattern."""

    __slots__ = ("attributes", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.attributes: dict[str, AttributeTerm] = {}


class Theory:
    """The kept equations, indexed by the root operator of the matched side.

    ``limit`` bounds the number of terms explored on either side of one query.
    """

    def __init__(self, limit: int = 300) -> None:
        self._nodes: dict[tuple[str, str, Attributes, tuple[int, ...]], Node] = {}
        self._forward = _Side()
        self._backward = _Side()
        self._smaller = _Side()
        self._merges: list[Merge] = []
        self._commutative: set[tuple[str, Attributes]] = set()
        self._ordered: dict[Node, frozenset[Node]] = {}
        self._limit = limit
        self._made = 0

    def forget_much(self) -> None:
        """Clears cached search results; keeps all equations."""
        if len(self._nodes) < _MOST_NODES:
            return
        rewritings = [r for side in (self._forward, self._backward) for r in side.all()]
        roots = [root for r in rewritings for root in (r.source, r.target)]
        roots += [root for merge in self._merges for root in (*merge.sources, merge.whole)]
        self._nodes = {_key(node): node for root in roots for node in _subnodes(root)}
        for side in (self._forward, self._backward, self._smaller):
            side.forget()
        self._ordered.clear()

    def add(self, source: Outputs, target: Outputs, *, backward: bool) -> None:
        """An equation from source to target, and ``backward`` as well; several outputs are a merge."""
        if len(source) > 1:
            merge = self._merge(source, target)
            if merge is not None:
                self._merges.append(merge)
            return
        (left,), (right,) = (tuple(map(self._interned, side)) for side in (source, target))
        if left.operator == right.operator and left.inputs == right.inputs[::-1] and left.size == 1:
            self._commutative.add((left.operator, left.attributes))
            self._ordered.clear()
        self._add(left, right, backward=backward)
        if backward:
            self._add(right, left, backward=True)

    def derives(self, source: Term, target: Term, steps: int = STEPS) -> bool:
        """Whether source rewrites to target, or to a simplification of target, in at most ``steps`` steps.

        Intermediate terms may exceed the larger side by at most SLACK operators (as trees).
        """
        return self._derives(self._interned(source), self._interned(target), steps)

    def gives_at_once(self, source: Term, target: Term) -> bool:
        """Whether one step leads from source to target, up to the order of commuting arguments."""
        ends = self._orders(self._interned(target))
        starts = self._orders(self._interned(source))
        if not starts.isdisjoint(ends):
            return True
        return any(not ends.isdisjoint(self._neighbours(start, self._forward)) for start in starts)

    def simplifies(self, term: Term) -> bool:
        """Whether a strictly shrinking equation applies anywhere in the term."""
        return bool(self._neighbours(self._interned(term), self._smaller))

    def derives_merge(self, source: Outputs, target: Outputs) -> bool:
        """Whether a known merge gives this one, after a step on each output and before steps on the whole."""
        asked = self._merge(source, target)
        if asked is None:
            return False
        choices = [self._reachable(node) for node in asked.sources]
        for left, right in itertools.product(*choices):
            for known in self._merges:
                if known.halves != asked.halves:
                    continue
                binding = Binding()
                if _matches(known.sources[0], left, binding) and _matches(known.sources[1], right, binding):
                    whole = self._instantiated(known.whole, binding)
                    if whole is asked.whole or self._derives(whole, asked.whole, 4):
                        return True
        return False

    def _reachable(self, node: Node) -> list[Node]:
        known = {node: None}
        for _ in range(2):
            for start in list(known):
                for other in self._neighbours(start, self._forward):
                    if other.size <= node.size + SLACK and len(known) < _OUTPUT_FORMS:
                        known[other] = None
        return list(known)

    def _orders(self, node: Node) -> frozenset[Node]:
        """The term with the arguments of commutative operators in any order, up to a bound."""
        if not node.operator:
            return frozenset((node,))
        known = self._ordered.get(node)
        if known is not None:
            return known
        found: dict[Node, None] = {}
        for inputs in itertools.product(*(sorted(self._orders(child), key=_number) for child in node.inputs)):
            found[self._node(node.operator, "", node.attributes, inputs)] = None
            if (node.operator, node.attributes) in self._commutative:
                found[self._node(node.operator, "", node.attributes, inputs[::-1])] = None
            if len(found) >= _MOST_ORDERS:
                break
        self._ordered[node] = result = frozenset(found)
        return result

    def _add(self, a: Node, b: Node, *, backward: bool) -> None:
        if not a.operator:
            return
        self._forward.add(a, b)
        if b.operator and a.variables <= b.variables and _open_names(a) <= _open_names(b):
            self._backward.add(b, a)
        if b.size < a.size:
            self._backward.add(a, b)
            if not backward:
                self._smaller.add(a, b)

    def _merge(self, source: Outputs, target: Outputs) -> Merge | None:
        wholes = [t for t in target if isinstance(t, Application) and t.operator in HALVES]
        if len(source) != 2 or len(wholes) != 2 or wholes[0].inputs != wholes[1].inputs:
            return None
        first, second = source
        halves = (wholes[0].attributes, wholes[1].attributes)
        return Merge(
            (self._interned(first), self._interned(second)), self._interned(wholes[0].inputs[0]), halves
        )

    def _derives(self, source: Node, target: Node, steps: int) -> bool:
        size = max(source.size, target.size) + SLACK
        ahead, behind = {source}, {target}
        front, back = [source], [target]
        for step in range(steps):
            if step % 2 == 0:
                front = self._expanded(front, ahead, self._forward, size)
            else:
                back = self._expanded(back, behind, self._backward, size)
            if not ahead.isdisjoint(behind):
                return True
        return False

    def _expanded(self, frontier: list[Node], known: set[Node], side: _Side, size: int) -> list[Node]:
        found: list[Node] = []
        for node in frontier:
            for other in self._neighbours(node, side):
                if other.size <= size and other not in known:
                    if len(known) >= self._limit:
                        return found
                    known.add(other)
                    found.append(other)
        return found

    def _neighbours(self, node: Node, side: _Side) -> Iterable[Node]:
        """The results of rewriting one subterm once; only equations added since the last call are tried."""
        if not node.operator:
            return ()
        known = side.neighbours.get(node)
        if known is None:
            known = side.neighbours[node] = _Neighbours(len(node.inputs))
        if side.current.get(node) == side.count:
            return known.found
        side.current[node] = side.count
        first = node.inputs[0].operator if node.inputs else ""
        for which, key in enumerate(((node.operator, ""), (node.operator, first))[: 1 + bool(first)]):
            rewritings = side.rewritings.get(key, ())
            for rewriting in itertools.islice(rewritings, known.tried[which], None):
                binding = Binding()
                if _matches(rewriting.source, node, binding):
                    known.found[self._instantiated(rewriting.target, binding)] = None
            known.tried[which] = len(rewritings)
        for place, child in enumerate(node.inputs):
            others = self._neighbours(child, side)
            new = list(itertools.islice(others, known.of_inputs[place], None))
            for other in new:
                inputs = (*node.inputs[:place], other, *node.inputs[place + 1 :])
                known.found[self._node(node.operator, "", node.attributes, inputs)] = None
            known.of_inputs[place] += len(new)
        return known.found

    def _instantiated(self, pattern: Node, binding: Binding) -> Node:
        if not pattern.operator:
            return binding.nodes.get(pattern.name, pattern)
        attributes = pattern.attributes
        if pattern.open:
            attributes = tuple(
                (name, binding.attributes[value.name] if isinstance(value, AttributeVariable) else value)
                for name, value in attributes
            )
        inputs = tuple([self._instantiated(child, binding) for child in pattern.inputs])
        return self._node(pattern.operator, "", attributes, inputs)

    def _interned(self, term: Term) -> Node:
        if isinstance(term, Variable):
            return self._node("", term.name, (), ())
        return self._node(
            term.operator, "", term.attributes, tuple(self._interned(child) for child in term.inputs)
        )

    def _node(self, operator: str, name: str, attributes: Attributes, inputs: tuple[Node, ...]) -> Node:
        key = (operator, name, attributes, tuple([child.number for child in inputs]))
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = Node(operator, name, attributes, inputs, self._made)
            self._made += 1
        return node


def tree_size(*terms: Term) -> int:
    """The number of operators of the terms as trees."""
    return sum(1 + tree_size(*term.inputs) for term in terms if isinstance(term, Application))


def _key(node: Node) -> tuple[str, str, Attributes, tuple[int, ...]]:
    return (node.operator, node.name, node.attributes, tuple([child.number for child in node.inputs]))


def _open_names(node: Node) -> frozenset[str]:
    """The attribute variables of a term."""
    own = (value.name for _, value in node.attributes if isinstance(value, AttributeVariable))
    return frozenset(own).union(*map(_open_names, node.inputs))


def _subnodes(node: Node) -> Iterable[Node]:
    yield node
    for child in node.inputs:
        yield from _subnodes(child)


def _number(node: Node) -> int:
    return node.number


def _matches(pattern: Node, node: Node, binding: Binding) -> bool:
    """Whether the node is an instance of the pattern; extends the binding, even on failure."""
    if not pattern.operator:
        return binding.nodes.setdefault(pattern.name, node) is node
    if pattern.operator != node.operator:
        return False
    if pattern.open:
        if not _attributes_match(pattern, node, binding):
            return False
    elif pattern.attributes != node.attributes:
        return False
    return all(_matches(a, b, binding) for a, b in zip(pattern.inputs, node.inputs, strict=True))


def _attributes_match(pattern: Node, node: Node, binding: Binding) -> bool:
    for (name, value), (other_name, other) in zip(pattern.attributes, node.attributes, strict=True):
        if name != other_name:
            return False
        if isinstance(value, AttributeVariable):
            if binding.attributes.setdefault(value.name, other) != other:
                return False
        elif value != other:
            return False
    return True
