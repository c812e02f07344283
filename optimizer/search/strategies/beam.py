"""Beam search: keeps the cheapest few graphs one rewrite further, even if they cost more than before."""

from __future__ import annotations

import random
from dataclasses import dataclass

from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.search.hiding import is_worth_it
from superopt.optimizer.search.protocol import SearchResult, StoppedBy, Watch
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.state import FINGERPRINT_MASK, Expansion, Opportunity, State
from superopt.optimizer.search.statistics import SearchStatistics, matches_by_rule
from superopt.optimizer.search.trace import trace_of


@dataclass(frozen=True, slots=True)
class Beam:
    """``width`` graphs are kept at each depth; graphs seen before do not count."""

    width: int = 8
    name: str = "beam"

    def run(self, start: GraphCost, rules: RuleSet, watch: Watch) -> SearchResult:
        """Searches until no new graph is found or the watch interrupts."""
        return _Run(start, rules, watch, self.width).result()


class _Run:
    def __init__(self, start: GraphCost, rules: RuleSet, watch: Watch, width: int) -> None:
        self._start = State.start(start)
        self._rules = rules
        self._statistics = SearchStatistics(start, rules, watch)
        self._width = width
        self._random = random.Random(watch.limits.seed)
        self._best = self._start
        self._seen = {self._start.digest.fingerprint}

    def result(self) -> SearchResult:
        stopped_by = self._search()
        found = self._statistics.shortened(trace_of(self._best))
        matched = matches_by_rule(opportunity.match for opportunity in self._start.found)
        return self._statistics.result(found, stopped_by, matched)

    def _search(self) -> StoppedBy:
        beam = [self._start]
        while beam:
            found: list[tuple[float, float, Expansion]] = []
            for state in beam:
                state.find(self._rules, self._statistics.may_go_on)
                stopped_by = None if self._statistics.may_go_on() else self._statistics.interruption()
                if stopped_by is not None:
                    return stopped_by
                for opportunity in state.found:
                    stopped_by = self._statistics.interruption()
                    if stopped_by is not None:
                        return stopped_by
                    candidate = self._candidate(state, opportunity)
                    if candidate is not None:
                        found.append((candidate.cost.total, self._random.random(), candidate))
                    if len(found) >= 4 * self._width:
                        found = self._cheapest(found)
            beam = [candidate.build() for _, _, candidate in self._cheapest(found)]
        return "exhausted"

    def _cheapest(self, found: list[tuple[float, float, Expansion]]) -> list[tuple[float, float, Expansion]]:
        return sorted(found, key=lambda entry: entry[:2])[: self._width]

    def _candidate(self, state: State, opportunity: Opportunity) -> Expansion | None:
        self._statistics.count()
        if opportunity.shift is not None:
            fingerprint = (state.digest.fingerprint + opportunity.shift) & FINGERPRINT_MASK
            if fingerprint in self._seen:
                return None
        rewrite = state.rewritten(opportunity.match)
        if rewrite is None:
            opportunity.impossible = len(opportunity.match.outputs) == 1
            return None
        candidate = state.after(opportunity.match, rewrite)
        assert candidate is not None, "without a limit there is always a cost"
        fingerprint = candidate.digest.fingerprint
        opportunity.shift = (fingerprint - state.digest.fingerprint) & FINGERPRINT_MASK
        if fingerprint in self._seen:
            return None
        self._seen.add(fingerprint)
        if not is_worth_it(state.cost, opportunity.match, candidate.cost.total):
            return None
        if candidate.cost.total < self._best.cost.total:
            self._best = candidate.build()
            self._statistics.improve(self._best.cost)
        return candidate
