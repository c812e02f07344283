"""Beam search: of all graphs one rewrite further, the cheapest few go on, however costly the way is."""

from __future__ import annotations

import random
from dataclasses import dataclass

from optimizer.cost.graph_cost import GraphCost
from optimizer.search.minimise import Shortened, minimised
from optimizer.search.protocol import SearchResult, StoppedBy, Watch
from optimizer.search.rules import RuleSet
from optimizer.search.state import FINGERPRINT_MASK, Candidate, Opportunity, State
from optimizer.search.trace import trace_of


@dataclass(frozen=True, slots=True)
class Beam:
    """``width`` graphs go on at each depth; graphs that were seen before do not count again."""

    width: int = 8
    name: str = "beam"

    def run(self, start: GraphCost, rules: RuleSet, watch: Watch) -> SearchResult:
        """Searches until no new graph is found or the watch says stop."""
        return _Run(start, rules, watch, self.width).result()


class _Run:
    def __init__(self, start: GraphCost, rules: RuleSet, watch: Watch, width: int) -> None:
        self._start = State.start(start)
        self._rules = rules
        self._watch = watch
        self._width = width
        self._random = random.Random(watch.limits.seed)
        self._best = self._start
        self._best_at = 0.0
        self._curve = [(0.0, start.total)]
        self._seen = {self._start.digest.fingerprint}
        self._candidates = 0
        self._since_best = 0

    def result(self) -> SearchResult:
        stopped_by = self._search()
        matched: dict[str, int] = {}
        for opportunity in self._start.found:
            rule = opportunity.match.substitution.rule_id
            matched[rule] = matched.get(rule, 0) + 1
        found = Shortened(self._best.cost, trace_of(self._best))
        found = minimised(self._start.cost, found, self._rules.substitutions, self._watch.may_go_on)
        return SearchResult(
            best=found.cost,
            trace=found.trace,
            candidates=self._candidates,
            seconds=self._watch.seconds,
            best_at_seconds=self._best_at,
            stopped_by=stopped_by,
            matched=matched,
            curve=tuple(self._curve),
        )

    def _search(self) -> StoppedBy:
        beam = [self._start]
        while beam:
            found: list[tuple[float, float, Candidate]] = []
            for state in beam:
                state.find(self._rules)
                for opportunity in state.found:
                    stopped_by = self._watch.interruption(self._candidates, self._since_best)
                    if stopped_by is not None:
                        return stopped_by
                    candidate = self._candidate(state, opportunity)
                    if candidate is not None:
                        found.append((candidate.cost.total, self._random.random(), candidate))
                    if len(found) >= 4 * self._width:
                        found = self._cheapest(found)
            beam = [candidate.build() for _, _, candidate in self._cheapest(found)]
        return "exhausted"

    def _cheapest(self, found: list[tuple[float, float, Candidate]]) -> list[tuple[float, float, Candidate]]:
        return sorted(found, key=lambda entry: entry[:2])[: self._width]

    def _candidate(self, state: State, opportunity: Opportunity) -> Candidate | None:
        self._candidates += 1
        self._since_best += 1
        self._watch.tell(self._candidates, self._start.cost.total, self._best.cost.total)
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
        if candidate.cost.total < self._best.cost.total:
            self._best = candidate.build()
            self._best_at = self._watch.seconds
            self._curve.append((self._best_at, candidate.cost.total))
            self._since_best = 0
        return candidate
