"""Applies rules that make a graph smaller until none does, without pricing anything.

Places are tried in topological order, and after a rewrite again around what it changed, so that the time is
about linear in the graph. Where no rule makes the graph smaller, two are tried: one that leaves as many
operators, such as a factor moved past a product, and one about what the first has made. The order of places
and rules is fixed: the result is deterministic.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Container, Iterator

from superopt.ir.graph import Graph, NodeId
from superopt.optimizer.cost import GraphCost
from superopt.optimizer.search.recording import Recorded
from superopt.optimizer.search.rules import Change, Region, RuleSet
from superopt.optimizer.search.strategies.ordering import (
    Even,
    Sized,
    can_be_even,
    can_decrease,
    may_be_even,
    may_decrease,
)
from superopt.rewriting import Bundle, Match, Rewrite, Substitution, apply_match


def fixpoint(
    start: GraphCost, rules: RuleSet, may_go_on: Callable[[], bool] = lambda: True
) -> tuple[Recorded, ...]:
    """The rewrites that lead to a graph in which no rule decreases the ordering, or as far as time allows."""
    run = _Run(start, rules, may_go_on)
    run.run()
    return tuple(run.records)


class _Run:
    def __init__(self, start: GraphCost, rules: RuleSet, may_go_on: Callable[[], bool]) -> None:
        self._sized = Sized(start)
        self._rules = rules
        self._may_go_on = may_go_on
        everywhere = Region(dict.fromkeys(start.graph.order, 0), frozenset(start.graph.order))
        self._single, self._pairs = _Places(everywhere), _Places(everywhere)
        self.records: list[Recorded] = []

    def run(self) -> None:
        """Single steps where there are any, else the next pair of steps."""
        while self._may_go_on():
            if self._single:
                self._try(self._single.next(), self._step)
            elif self._pairs:
                self._try(self._pairs.next(), self._two_steps)
            else:
                return

    def _try(self, place: Region, step: Callable[[Region], bool]) -> None:
        """Steps at a place, of which all rules are tried once one has been applied there."""
        (node,) = place.nodes
        while node in self._sized.cost.graph.nodes and step(place):
            place = Region.of(node)

    def _step(self, place: Region) -> bool:
        """Applies the first rule at the place that makes the graph smaller; whether there was one."""
        cost = self._sized.cost
        for match in self._decreasing(cost.graph, cost.free, place):
            rewrite = apply_match(cost.graph, match)
            smaller = None if rewrite is None else self._sized.smaller(rewrite)
            if rewrite is not None and smaller is not None:
                self._accept(match, rewrite, smaller)
                return True
        return False

    def _two_steps(self, place: Region) -> bool:
        """Applies the first rule at the place after which another rule, about what it made, makes the graph
        smaller than it was; whether there was one. Only rules with one result are tried."""
        cost = self._sized.cost
        single = place.of_one_result
        for match in self._matches(cost.graph, cost.free, single, can_be_even):
            if not may_be_even(match.substitution, _folded(match, cost.free)):
                continue
            rewrite = apply_match(cost.graph, match)
            even = None if rewrite is None else self._sized.even(rewrite)
            if rewrite is None or even is None:
                continue
            second = self._second(even, rewrite)
            if second is not None:
                self._accept(match, rewrite, even.sized)
                self._accept(*second)
                return True
        return False

    def _second(self, even: Even, first: Rewrite) -> tuple[Match, Rewrite, Sized] | None:
        made, change = frozenset(first.added), Change.of(self._sized.cost.graph, first)
        region = self._rules.region(first.graph, change).of_one_result
        for match in self._decreasing(first.graph, even.free, region):
            if made.isdisjoint(match.sites):
                continue
            rewrite = apply_match(first.graph, match)
            smaller = None if rewrite is None else even.smaller(rewrite)
            if rewrite is not None and smaller is not None:
                return match, rewrite, smaller
        return None

    def _decreasing(self, graph: Graph, free: Container[NodeId], region: Region) -> Iterator[Match]:
        for match in self._matches(graph, free, region, can_decrease):
            if may_decrease(match.substitution, _folded(match, free)):
                yield match

    def _matches(
        self,
        graph: Graph,
        free: Container[NodeId],
        region: Region,
        wanted: Callable[[Substitution], bool],
    ) -> Iterator[Match]:
        """The matches in a region while time is left: a concat of many operands has thousands."""
        found = self._rules.matches_near(graph, free, region, self._may_go_on, wanted)
        return itertools.takewhile(lambda _: self._may_go_on(), found)

    def _accept(self, match: Match, rewrite: Rewrite, sized: Sized) -> None:
        before, after = self._sized.cost, sized.cost
        self._sized = sized
        self.records.append(Recorded.of(match, rewrite))
        change = Change.of(before.graph, rewrite)
        region = self._rules.region(after.graph, change)
        folded = (node for node in after.free - before.free if node in after.graph.nodes)
        behind = {user for node in folded for user in after.graph.users(node)}
        near = dict.fromkeys(behind | (change.around & after.graph.nodes.keys()), 0)
        changed = Region({**region.single, **near}, region.several.union(near))
        self._single.add(changed)
        self._pairs.add(changed)


class _Places:
    """Nodes to be looked at, each once until it is taken out, with their distance from what has changed: only
    rules that reach that far may match anew."""

    def __init__(self, region: Region) -> None:
        self._order = deque[NodeId]()
        self._single = dict[NodeId, int]()
        self._several = set[NodeId]()
        self.add(region)

    def __bool__(self) -> bool:
        return bool(self._order)

    def next(self) -> Region:
        """The place that has waited longest."""
        node = self._order.popleft()
        distance = self._single.pop(node, None)
        several = frozenset((node,)) if node in self._several else frozenset[NodeId]()
        self._several.discard(node)
        return Region({} if distance is None else {node: distance}, several)

    def add(self, region: Region) -> None:
        """Adds all places of a region, in the order of nodes."""
        waiting = (self._single, self._several)
        self._order.extend(n for n in sorted(region.nodes) if not any(n in nodes for nodes in waiting))
        for node, distance in region.single.items():
            self._single[node] = min(distance, self._single.get(node, distance))
        self._several.update(region.several)


def _folded(match: Match, free: Container[NodeId]) -> frozenset[str]:
    """The variables of a match that depend on weights alone."""
    found: set[str] = set()
    for name, binding in match.values.items():
        parts = binding.values if isinstance(binding, Bundle) else (binding,)
        if all(value.node in free for value in parts):
            found.add(name)
    return frozenset(found)
