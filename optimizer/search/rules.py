"""Rules indexed for matching: by the operators around their first root, and incrementally near changes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from superopt.ir.graph import Graph, NodeId, Value
from superopt.ir.terms import Application, Term, applications, variables
from superopt.ir.types import ElementType, TensorType
from superopt.ops.base import OPERATORS, Operator
from superopt.ops.shape import Joining
from superopt.ops.traits import ALIASES, traits
from superopt.optimizer.search.net import Net
from superopt.rewriting import Bundle, Match, Rewrite, Substitution, find_matches

_LOOK_EVERY = 64
"""Number of places tried between two checks of the clock."""


@dataclass(frozen=True, slots=True)
class Change:
    """Nodes changed by a rewrite. ``edited`` nodes are new or have other operands; ``around`` also holds
    removed nodes and those that gained or lost a reader."""

    edited: frozenset[NodeId]
    around: frozenset[NodeId]

    def and_then(self, later: Change) -> Change:
        """Union of two changes."""
        return Change(self.edited | later.edited, self.around | later.around)

    @staticmethod
    def of(before: Graph, rewrite: Rewrite) -> Change:
        """The change from the graph before a rewrite to the one after."""
        after = rewrite.graph
        rewired = {user for value in rewrite.replaced.values() for user in after.users(value.node)}
        edited = frozenset(rewired.union(rewrite.added))
        around = set(edited).union(rewrite.removed)
        for node_id in rewrite.removed:
            around.update(value.node for value in before.nodes[node_id].inputs)
        for node_id in rewrite.added:
            around.update(value.node for value in after.nodes[node_id].inputs)
        around.update(value.node for value in (*rewrite.replaced, *rewrite.replaced.values()))
        return Change(edited, frozenset(around))


class RuleSet:
    """Substitutions in a fixed order; ``protected`` nodes are never part of a match. A substitution whose
    outputs share no input is left out, because it matches every pair of places in a graph; for the same
    reason, outputs do not match together where they share only a number. A substitution whose rounding
    errors are larger matches only tensors in single or double precision, all sizes of which but the first are
    known: others could not be written, or overflow. The height and width of images may be open too where
    ``may_open_images``."""

    def __init__(
        self,
        substitutions: Iterable[Substitution],
        protected: Collection[NodeId] = (),
        *,
        may_open_images: bool = True,
    ) -> None:
        self.substitutions: Sequence[Substitution] = tuple(filter(is_connected, substitutions))
        self._protected = protected
        self._positions = {id(s): index for index, s in enumerate(self.substitutions)}
        self._net = Net(self.substitutions)
        self._rounding = {
            id(s): may_open_images and windowed
            for s in self.substitutions
            if (windowed := _windows_that_round_more(s)) is not None
        }
        self._regrouping = frozenset(id(s) for s in self.substitutions if _only_regroups(s))
        self._several = frozenset(i for i, s in enumerate(self.substitutions) if len(s.source) > 1)
        self._heights = tuple(map(height_of, self.substitutions))
        self._single_height = max((height_of(s) for s in self.substitutions if len(s.source) == 1), default=1)
        self._several_height = max((height_of(s) for s in self.substitutions if len(s.source) > 1), default=0)

    @property
    def protected(self) -> Collection[NodeId]:
        """Nodes that are never part of a match."""
        return self._protected

    def protecting(self, nodes: Collection[NodeId]) -> RuleSet:
        """The same rules with different protected nodes."""
        other = copy.copy(self)
        other._protected = nodes
        return other

    def __len__(self) -> int:
        return len(self.substitutions)

    def position(self, substitution: Substitution) -> int:
        """Index of a substitution in the rule order."""
        return self._positions[id(substitution)]

    def matches_at(
        self, graph: Graph, free: Container[NodeId], substitution: Substitution, root: NodeId
    ) -> Iterator[Match]:
        """The matches of one substitution whose first root is the node."""
        rounds, may_be_open = id(substitution) in self._rounding, self._rounding.get(id(substitution), False)
        regroups = id(substitution) in self._regrouping
        if regroups and not _has_nested_joins(graph, root):
            return
        for match in find_matches(graph, substitution, (root,), through_numbers=False):
            if rounds and not _is_precise_and_sized(graph, match, is_open=may_be_open):
                continue
            if regroups and len(match.sites) == 1:
                continue
            if any(value.node not in free for value in match.outputs) and not any(
                site in self._protected for site in match.sites
            ):
                yield match

    def matches(
        self, graph: Graph, free: Container[NodeId], may_go_on: Callable[[], bool] = lambda: True
    ) -> list[Match]:
        """All matches among live nodes, by rule and site; incomplete once ``may_go_on`` is false."""
        everywhere = dict.fromkeys(graph.nodes, 0)
        return list(self._matches_at(graph, free, everywhere, everywhere, may_go_on, lambda _: True))

    def matches_near(
        self,
        graph: Graph,
        free: Container[NodeId],
        region: Region,
        may_go_on: Callable[[], bool] = lambda: True,
        wanted: Callable[[Substitution], bool] = lambda _: True,
    ) -> Iterator[Match]:
        """The matches of the ``wanted`` rules whose first root is in the region."""
        return self._matches_at(graph, free, region.single, region.several, may_go_on, wanted)

    def region(self, graph: Graph, change: Change) -> Region:
        """Possible first roots of matches that the change enabled or disabled."""
        single = _distances(graph, change.edited, self._single_height - 1)
        several: set[NodeId] = set()
        if self._several_height:
            several.update(change.edited)
            _extend_down(graph, several, self._several_height - 1)
            _extend_up(graph, several, self._several_height)
            _extend_down(graph, several, self._several_height)
        return Region(single, frozenset(several))

    def _matches_at(
        self,
        graph: Graph,
        free: Container[NodeId],
        single: Mapping[NodeId, int],
        several: Iterable[NodeId],
        may_go_on: Callable[[], bool],
        wanted: Callable[[Substitution], bool],
    ) -> Iterator[Match]:
        places = sorted(self._places(graph, free, single, several, may_go_on))
        for number, (position, root) in enumerate(places):
            if number % _LOOK_EVERY == 0 and not may_go_on():
                return
            if wanted(self.substitutions[position]):
                yield from self.matches_at(graph, free, self.substitutions[position], root)

    def _places(
        self,
        graph: Graph,
        free: Container[NodeId],
        single: Mapping[NodeId, int],
        several: Iterable[NodeId],
        may_go_on: Callable[[], bool],
    ) -> Iterator[tuple[int, NodeId]]:
        """Candidate places of each rule; rules with one output are not tried on constant-folded nodes."""
        shapes: dict[tuple[NodeId, int], int] = {}
        for root, distance in single.items():
            if not may_go_on():
                return
            if root in graph.nodes and root not in free:
                for position in self._net.allowed(graph, root, shapes):
                    if position not in self._several and self._heights[position] > distance:
                        yield position, root
        if self._several:
            for root in several:
                if not may_go_on():
                    return
                if root in graph.nodes:
                    allowed = self._net.allowed(graph, root, shapes)
                    yield from ((position, root) for position in allowed if position in self._several)


@dataclass(frozen=True, slots=True)
class Region:
    """Possible first roots of new matches: for rules with one output, with their distance from the change, up
    to which a rule must reach; and for rules with several."""

    single: Mapping[NodeId, int]
    several: frozenset[NodeId]

    @staticmethod
    def of(node: NodeId) -> Region:
        """One node."""
        return Region({node: 0}, frozenset((node,)))

    @property
    def nodes(self) -> frozenset[NodeId]:
        """The nodes of all places."""
        return self.several.union(self.single)

    @property
    def of_one_result(self) -> Region:
        """The same places, for rules with one output alone."""
        return Region(self.single, frozenset())

    def roots_of(self, rule: Substitution) -> frozenset[NodeId]:
        """The places for a rule."""
        places = self.single if len(rule.source) == 1 else self.several
        return frozenset(root for root in places if self._reaches(rule, root))

    def concerns(self, match: Match) -> bool:
        """Whether the match is found again when the region is searched."""
        return self._reaches(match.substitution, match.outputs[0].node)

    def _reaches(self, rule: Substitution, root: NodeId) -> bool:
        if len(rule.source) > 1:
            return root in self.several
        return root in self.single and self.single[root] < height_of(rule)


def nodes_read(match: Match) -> frozenset[NodeId]:
    """The nodes bound to the match's variables."""
    found: set[NodeId] = set()
    for binding in match.values.values():
        parts: tuple[Value, ...] = binding.values if isinstance(binding, Bundle) else (binding,)
        found.update(value.node for value in parts)
    return frozenset(found)


def is_connected(substitution: Substitution) -> bool:
    """Whether every output shares a variable with an earlier one."""
    first, *others = substitution.source
    read = set(variables(first)) if others else set[str]()
    for term in others:
        own = set(variables(term))
        if read.isdisjoint(own):
            return False
        read |= own
    return True


def _windows_that_round_more(substitution: Substitution) -> bool | None:
    """Whether the operators whose rounding errors are larger are about windows of images; None if there are
    none."""
    operators = [OPERATORS[term.operator] for term in applications(*substitution.target)]
    found = [operator.windowed for operator in operators if operator.rounds_more]
    return all(found) if found else None


def _only_regroups(substitution: Substitution) -> bool:
    """Whether source and target join the same operands in the same order. A node of a graph joins any number
    of operands: nested joins have many places in it, where the rule changes nothing."""
    if len(substitution.source) != 1 or len(substitution.target) != 1:
        return False
    source, target = substitution.source[0], substitution.target[0]
    if not isinstance(source, Application) or not traits(source.operator).joins:
        return False
    return _joined(source, source) == _joined(target, source)


def _has_nested_joins(graph: Graph, root: NodeId) -> bool:
    """Whether an operand of a join is a join: without one, all places of a rule that regroups are in it."""
    return any(isinstance(graph[value.node].operator, Joining) for value in graph[root].inputs)


def _joined(term: Term, join: Application) -> tuple[Term, ...]:
    """The operands of nested joins like ``join``, in order."""
    if not isinstance(term, Application):
        return (term,)
    if (term.operator, term.attributes) != (join.operator, join.attributes):
        return (term,)
    return tuple(operand for child in term.inputs for operand in _joined(child, join))


def _is_precise_and_sized(graph: Graph, match: Match, *, is_open: bool) -> bool:
    """Whether all operands are in single or double precision, with known sizes but for the first axis, and
    but for those of an image that may be open: with a dilation, only the length of a sequence."""
    parts = [
        part
        for value in match.values.values()
        for part in (value.values if isinstance(value, Bundle) else (value,))
    ]
    types = [type_ for part in parts if isinstance(type_ := graph.type_of(part), TensorType)]
    sized = all(isinstance(size, int) for type_ in types for size in type_.shape[1:])
    return (
        len(types) == len(parts)
        and all(type_.element in (ElementType.FLOAT, ElementType.DOUBLE) for type_ in types)
        and (sized or (is_open and _may_be_open(graph, match)))
    )


def _may_be_open(graph: Graph, match: Match) -> bool:
    """Whether the windows of the root may be those of an image of open height and width."""
    root = graph[match.outputs[0].node]
    data, *others = (type_ for value in root.inputs if isinstance(type_ := graph.type_of(value), TensorType))
    window = root.operator.window(data, *others) if isinstance(root.operator, Operator) else None
    if window is None or window.known_kernel is None or not isinstance(data.shape[1], int):
        return False
    margins = window.margins((1, 1))
    is_sequence = any(
        size == extent == 1 and margins[axis] == margins[axis + 2] == 0
        for axis, (size, extent) in enumerate(zip(data.shape[2:], window.known_kernel, strict=True))
    )
    return is_sequence or window.dilation == (1, 1)


@lru_cache(maxsize=1 << 14)
def height_of(substitution: Substitution) -> int:
    """The number of operators on the longest path down from a root."""
    return max(_height(term) for term in substitution.source)


def _height(term: Term) -> int:
    if not isinstance(term, Application):
        return 0
    return 1 + max((_height(child) for child in term.inputs), default=0)


def _distances(graph: Graph, nodes: Iterable[NodeId], steps: int) -> dict[NodeId, int]:
    """The nodes and what reads them, up to a number of edges away, with that number. Numbers of a rule match
    through nodes that rename or repeat a tensor, so these count for nothing."""
    found: dict[NodeId, int] = {}
    frontier = set(nodes)
    for distance in range(steps + 1):
        found.update(dict.fromkeys(frontier, distance))
        near = frontier
        while near := {user for user in _readers(graph, near) if _is_alias(graph, user)} - found.keys():
            found.update(dict.fromkeys(near, distance))
            frontier = frontier | near
        frontier = _readers(graph, frontier) - found.keys()
    return found


def _readers(graph: Graph, nodes: Iterable[NodeId]) -> set[NodeId]:
    return {user for node in nodes for user in graph.users(node)}


def _is_alias(graph: Graph, node: NodeId) -> bool:
    return graph.nodes[node].operator.name in ALIASES


def _extend_down(graph: Graph, nodes: set[NodeId], steps: int) -> None:
    frontier = set(nodes)
    for _ in range(steps):
        frontier = _readers(graph, frontier) - nodes
        nodes |= frontier


def _extend_up(graph: Graph, nodes: set[NodeId], steps: int) -> None:
    frontier = {node for node in nodes if node in graph.nodes}
    for _ in range(steps):
        frontier = {value.node for node in frontier for value in graph.nodes[node].inputs} - nodes
        nodes |= frontier
