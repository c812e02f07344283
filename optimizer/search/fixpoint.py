"""Applies rules that make a graph smaller until none does, without pricing anything.

Places are tried in topological order, and after a rewrite again around what it changed, so that the time is
about linear in the graph. The order of places and rules is fixed: the result is deterministic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container

from superopt.ir.graph import NodeId
from superopt.optimizer.cost import GraphCost
from superopt.optimizer.search.ordering import Sized, may_decrease
from superopt.optimizer.search.recording import Recorded
from superopt.optimizer.search.rules import Change, Region, RuleSet
from superopt.rewriting import Bundle, Match, Rewrite, apply_match


def fixpoint(
    start: GraphCost, rules: RuleSet, may_go_on: Callable[[], bool] = lambda: True
) -> tuple[Recorded, ...]:
    """The rewrites that lead to a graph in which no rule decreases the ordering, or as far as time allows."""
    run = _Run(start, rules)
    run.run(may_go_on)
    return tuple(run.records)


class _Run:
    def __init__(self, start: GraphCost, rules: RuleSet) -> None:
        self._sized = Sized(start)
        self._rules = rules
        self._waiting: deque[NodeId] = deque(start.graph.order)
        self._queued = set(self._waiting)
        self.records: list[Recorded] = []

    def run(self, may_go_on: Callable[[], bool]) -> None:
        while self._waiting and may_go_on():
            node = self._waiting.popleft()
            self._queued.discard(node)
            while node in self._sized.cost.graph.nodes and self._step(node):
                pass

    def _step(self, node: NodeId) -> bool:
        """Applies the first rule at the node that makes the graph smaller; whether there was one."""
        cost, at = self._sized.cost, frozenset((node,))
        for match in self._rules.matches_near(cost.graph, cost.free, Region(at, at)):
            if not may_decrease(match.substitution, _folded(match, cost.free)):
                continue
            rewrite = apply_match(cost.graph, match)
            smaller = None if rewrite is None else self._sized.smaller(rewrite)
            if rewrite is not None and smaller is not None:
                self._accept(match, rewrite, smaller)
                return True
        return False

    def _accept(self, match: Match, rewrite: Rewrite, smaller: Sized) -> None:
        before, after = self._sized.cost, smaller.cost
        self._sized = smaller
        self.records.append(Recorded.of(match, rewrite))
        change = Change.of(before.graph, rewrite)
        region = self._rules.region(after.graph, change)
        folded = (node for node in after.free - before.free if node in after.graph.nodes)
        behind = {user for node in folded for user in after.graph.users(node)}
        around = change.around & after.graph.nodes.keys()
        for node in sorted((region.single | region.several | behind | around) - self._queued):
            self._waiting.append(node)
            self._queued.add(node)


def _folded(match: Match, free: Container[NodeId]) -> frozenset[str]:
    """The variables of a match that depend on weights alone."""
    found: set[str] = set()
    for name, binding in match.values.items():
        parts = binding.values if isinstance(binding, Bundle) else (binding,)
        if all(value.node in free for value in parts):
            found.add(name)
    return frozenset(found)
