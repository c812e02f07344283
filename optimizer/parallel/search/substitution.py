"""Substitution search, the middle level: graphs are judged by their best plan (Unity, section 5.1).

Cost-based backtracking as in TASO; a step applies a rule at all its matches or at one. The caller supplies
the cost of a graph: that of the best machine mapping on a cluster, or of one device.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from superopt.ir.graph import Graph
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.trace import TraceStep, step_at
from superopt.options import DEFAULTS
from superopt.rewriting import Match, apply_match

_PLACES = 3
"""Number of single sites at which a rule is tried, besides all at once."""


@dataclass(frozen=True)
class Rewritten:
    """A graph, the steps that lead to it, and its cost."""

    graph: Graph
    trace: tuple[TraceStep, ...]
    cost: float


@dataclass
class Substitutions:
    """Searches graphs equivalent to one graph. ``cost`` prices a graph, None where it cannot be planned;
    ``expired`` ends the search. ``tried`` counts the priced graphs, ``matched`` holds the rules with a match.
    Graphs that cost more than ``alpha`` times the best are not explored."""

    rules: RuleSet
    cost: Callable[[Graph], float | None]
    expired: Callable[[], bool]
    alpha: float = DEFAULTS.alpha
    tried: int = 0
    matched: set[str] = field(default_factory=set[str])

    def run(self, graph: Graph) -> list[Rewritten]:
        """The best graphs found, in order of cost; includes the given one unless others are better."""
        price = self.cost(graph)
        start = Rewritten(graph, (), float("inf") if price is None else price)
        best = [start]
        seen = {graph.signature}
        queue: list[tuple[float, int, Rewritten]] = [(start.cost, 0, start)]
        while queue and not self.expired():
            cost, _, current = heapq.heappop(queue)
            if cost > self.alpha * best[0].cost:
                break
            for candidate in self._steps(current):
                if self.expired():
                    break
                if candidate.graph.signature in seen:
                    continue
                seen.add(candidate.graph.signature)
                price = self.cost(candidate.graph)
                self.tried += 1
                if price is None:
                    continue
                priced = _priced(candidate, price, len(current.trace), current.cost)
                if price <= self.alpha * best[0].cost:
                    heapq.heappush(queue, (price, self.tried, priced))
                best = sorted((*best, priced), key=lambda found: (found.cost, len(found.trace)))[:3]
        return best

    def _steps(self, current: Rewritten) -> Iterator[Rewritten]:
        by_rule: dict[int, list[Match]] = {}
        for match in self.rules.matches(current.graph, current.graph.weight_only):
            self.matched.add(match.substitution.rule_id)
            by_rule.setdefault(self.rules.position(match.substitution), []).append(match)
        for _, matches in sorted(by_rule.items(), key=lambda item: len(item[1])):
            everywhere = self._everywhere(current, matches)
            if everywhere is not None:
                yield everywhere
            if len(matches) > 1:
                for match in matches[:_PLACES]:
                    found = _applied(current, match)
                    if found is not None:
                        yield found

    def _everywhere(self, current: Rewritten, matches: Sequence[Match]) -> Rewritten | None:
        """Applies the rule at each of its current sites that still exists at its turn."""
        found: Rewritten | None = None
        for match in matches:
            now = found or current
            graph = now.graph
            if all(site in graph.nodes and graph[site] == current.graph[site] for site in match.sites):
                found = _applied(now, match) or found
        return found


def _applied(current: Rewritten, match: Match) -> Rewritten | None:
    """The graph after a match, None where the match no longer applies."""
    step = step_at(current.graph, match)
    if step is None:
        return None
    rewrite = apply_match(current.graph, match)
    return None if rewrite is None else Rewritten(rewrite.graph, (*current.trace, step), current.cost)


def _priced(candidate: Rewritten, cost: float, known: int, before: float) -> Rewritten:
    """The new steps; the whole cost difference is attributed to the last."""
    new = [replace(step, cost_before=before, cost_after=before) for step in candidate.trace[known:]]
    new[-1] = replace(new[-1], cost_after=cost)
    return Rewritten(candidate.graph, (*candidate.trace[:known], *new), cost)
