"""Normalisation: first every rule that makes the graph smaller, then regions that became dearer are undone.

A region is a set of steps that depend on each other. It is priced once, as a whole, against the graph without
it; in one that costs more, a rule that separates what the runtime fuses is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from superopt.optimizer.cost import GraphCost
from superopt.optimizer.search.minimise import Shortened, components
from superopt.optimizer.search.protocol import SearchResult, Watch
from superopt.optimizer.search.recording import Recorded, applied_steps, composed, cost_with
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.statistics import SearchStatistics, matches_by_rule
from superopt.optimizer.search.strategies.fixpoint import fixpoint
from superopt.optimizer.search.trace import TraceStep, step_at
from superopt.rewriting import Match, Rewrite

_SHARE = 0.4
"""Share of the time for rewriting; what is not priced in the rest is undone."""


class Normalise:
    """Rewrites to a fixed point of a terminating order instead of searching."""

    name = "normalise"

    def run(self, start: GraphCost, rules: RuleSet, watch: Watch) -> SearchResult:
        """The normalised graph, without regions that cost more than before."""
        return _Run(start, rules, watch).result()


@dataclass(frozen=True, slots=True)
class _Region:
    """Indices of steps that apply, and what the graph costs less with them alone."""

    steps: tuple[int, ...]
    gain: float


class _Run:
    def __init__(self, start: GraphCost, rules: RuleSet, watch: Watch) -> None:
        self._start = start
        self._rules = rules
        self._statistics = SearchStatistics(start, rules, watch)
        self._records: tuple[Recorded, ...] = ()
        self._decided: dict[tuple[object, ...], tuple[tuple[bool, ...], float]] = {}

    def result(self) -> SearchResult:
        statistics, found = self._statistics, Shortened(self._start, ())
        stopped_by = statistics.interruption()
        if stopped_by is None:
            rewriting = statistics.part(None, _SHARE)
            self._records = fixpoint(self._start, self._rules, rewriting.may_go_on)
            regions = [self._decision(component) for component in components(self._records)]
            normalised = self._rewritten(regions)
            if normalised.cost.total < self._start.total:
                found = normalised
                statistics.improve(found.cost)
            stopped_by = statistics.interruption()
        matched = matches_by_rule(record.match for record in self._records)
        return statistics.result(found, stopped_by or "exhausted", matched)

    def _decision(self, component: Sequence[int]) -> _Region:
        """The steps of a region that remain; regions of equal steps and gain are decided once. What is not
        priced in time is undone."""
        if not self._statistics.may_go_on():
            return _Region((), 0.0)
        whole = self._outcome(component)
        likeness = (*map(self._rule, component), whole.gain)
        if likeness not in self._decided:
            best = whole if whole.gain >= 0 else self._reduced(whole)
            kept = frozenset(best.steps)
            self._decided[likeness] = tuple(index in kept for index in component), best.gain
        stays, gain = self._decided[likeness]
        return _Region(tuple(i for i, stay in zip(component, stays, strict=True) if stay), gain)

    def _reduced(self, dearer: _Region) -> _Region:
        """The region without the rules that make it dearer; empty where it still costs more than before."""
        best = dearer
        for rule in sorted(set(map(self._rule, dearer.steps))):
            if not self._statistics.may_go_on():
                break
            rest = self._outcome([index for index in best.steps if self._rule(index) != rule])
            if rest.gain > best.gain:
                best = rest
        return best if best.gain >= 0 else _Region((), 0.0)

    def _rule(self, index: int) -> int:
        return self._rules.position(self._records[index].match.substitution)

    def _outcome(self, wanted: Sequence[int]) -> _Region:
        """Some steps in the otherwise unchanged graph."""
        total, applied = cost_with(self._start, self._records, wanted)
        return _Region(applied, self._start.total - total)

    def _rewritten(self, regions: Sequence[_Region]) -> Shortened:
        """The graph with all regions, and its trace."""
        share = {index: region.gain / len(region.steps) for region in regions for index in region.steps}
        applied = applied_steps(self._start.graph, self._records, sorted(share))
        if not applied:
            return Shortened(self._start, ())
        update = self._start.after(composed([rewrite for _, rewrite in applied.values()]))
        assert update is not None, "without a limit there is always a cost"
        cost = update.build()
        return Shortened(cost, self._trace(applied, share, cost.total))

    def _trace(
        self, applied: Mapping[int, tuple[Match, Rewrite]], share: Mapping[int, float], total: float
    ) -> tuple[TraceStep, ...]:
        """The steps; the gain of a region is divided evenly among them, because nothing is priced between
        them."""
        graph, before = self._start.graph, self._start.total
        trace: list[TraceStep] = []
        for index, (match, rewrite) in applied.items():
            step = step_at(graph, match)
            assert step is not None, "the match was found in that graph"
            after = before - share[index]
            trace.append(replace(step, cost_before=before, cost_after=after))
            graph, before = rewrite.graph, after
        return (*trace[:-1], replace(trace[-1], cost_after=total))
