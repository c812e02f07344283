"""Regional search for large graphs: searches each distinct region once, then across region boundaries.

A region's result is applied at every occurrence, step by step, priced in the whole graph; steps that do not
pay there are discarded. Further passes cut at other places, so that rewrites across a cut are found too, and
further rounds search larger regions for longer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from superopt.ir.graph import NodeId
from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.search.protocol import Search, SearchResult, StoppedBy, Watch
from superopt.optimizer.search.recording import Recorded, StepRelocation
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.statistics import SearchStatistics, matches_by_rule
from superopt.optimizer.search.strategies.backtracking import Backtracking
from superopt.optimizer.search.strategies.graph_cuts import Region, Row, region_of
from superopt.optimizer.search.trace import TraceStep, recorded, step_of
from superopt.rewriting import Match


@dataclass(frozen=True, slots=True)
class Round:
    """Regions of ``least`` to ``most`` units, each searched until ``patience`` candidates brought no
    improvement."""

    least: int
    most: int
    patience: int


ROUNDS = (Round(6, 20, 300), Round(10, 32, 1500), Round(16, 48, 6000), Round(24, 72, 24000))
_MAX_PASSES = 8
_MAX_REFUSALS = 2


@dataclass(slots=True)
class _Solution:
    """Search result of a region; ``is_final``: a longer search finds nothing else. ``refusals`` counts the
    occurrences where no step paid in the whole graph."""

    records: tuple[Recorded, ...]
    patience: int
    is_final: bool
    refusals: int = 0


class Regional:
    """Applies another strategy to the regions of a graph."""

    def __init__(self, inner: Search | None = None, rounds: Sequence[Round] = ROUNDS) -> None:
        self._inner = inner or Backtracking()
        self._rounds = rounds

    @property
    def name(self) -> str:
        """Its ``--search`` name."""
        return "regions"

    def run(self, start: GraphCost, rules: RuleSet, watch: Watch) -> SearchResult:
        """Searches round by round until the last one brings no improvement or the watch interrupts."""
        return _Run(start, rules, watch, self._inner, self._rounds).result()


class _Run:
    def __init__(
        self, start: GraphCost, rules: RuleSet, watch: Watch, inner: Search, rounds: Sequence[Round]
    ) -> None:
        self._start = start
        self._statistics = SearchStatistics(start, rules, watch)
        self._rules = rules
        self._watch = watch
        self._inner = inner
        self._rounds = rounds
        self._trace: list[TraceStep] = []
        self._solutions: dict[tuple[object, ...], _Solution] = {}

    def result(self) -> SearchResult:
        stopped_by = self._search()
        found = self._statistics.shortened(self._trace)
        start = self._start
        matched = matches_by_rule(self._rules.matches(start.graph, start.free, self._watch.may_go_on))
        return self._statistics.result(found, stopped_by, matched)

    def _search(self) -> StoppedBy:
        for round_ in self._rounds:
            for _ in range(_MAX_PASSES):
                before = self._statistics.best.total
                for pass_ in self._passes(round_):
                    stopped_by = self._pass(round_, pass_)
                    if stopped_by is not None:
                        return stopped_by
                if self._statistics.best.total >= before:
                    break
            if self._is_over(round_):
                return "exhausted"
            limit = self._watch.limits.patience
            if limit is not None and self._statistics.since_best >= limit:
                return "patience"
        return "exhausted"

    def _is_over(self, round_: Round) -> bool:
        """Whether the round searched the whole graph as one region, exhaustively."""
        row = Row.of(self._statistics.best)
        if len(row.cuts(round_.least, round_.most)) > 2:
            return False
        for members in row.regions([0, len(row.units)]):
            solution = self._solutions.get(self._region(members).likeness)
            if solution is None or not solution.is_final or solution.records:
                return False
        return True

    def _passes(self, round_: Round) -> Iterator[list[tuple[NodeId, ...]]]:
        row = Row.of(self._statistics.best)
        yield row.regions(row.cuts(round_.least, round_.most))
        row = Row.of(self._statistics.best)
        cuts = row.cuts(round_.least, round_.most)
        if len(cuts) > 2:
            yield row.regions(row.shifted(cuts))

    def _pass(self, round_: Round, parts: Sequence[tuple[NodeId, ...]]) -> StoppedBy | None:
        for members in parts:
            region = self._region(members)
            solution = self._solutions.get(region.likeness)
            if solution is None or (solution.patience < round_.patience and not solution.is_final):
                solution = self._solutions[region.likeness] = self._solved(region, round_)
            if solution.records and solution.refusals < _MAX_REFUSALS:
                pays = self._apply(region, solution.records)
                solution.refusals = 0 if pays else solution.refusals + 1
            self._statistics.tell()
            since = 0 if round_ is self._rounds[0] else self._statistics.since_best
            stopped_by = self._watch.interruption(self._statistics.candidates, since)
            if stopped_by is not None:
                return stopped_by
        return None

    def _region(self, members: Sequence[NodeId]) -> Region:
        return region_of(self._statistics.best, members, self._rules.protected)

    def _solved(self, region: Region, round_: Round) -> _Solution:
        """Searches one region under the watch of the whole search."""
        account = self._statistics
        cost = GraphCost.of(region.graph, self._start.objective, self._start.sizes, region.blocked)
        watch = account.part(round_.patience, best_of=lambda _: account.best.total)
        result = self._inner.run(cost, self._rules.protecting(region.protected), watch)
        account.count(result.candidates)
        records = recorded(region.graph, result.trace, self._rules.substitutions)
        return _Solution(records, round_.patience, is_final=result.stopped_by == "exhausted")

    def _apply(self, region: Region, records: Sequence[Recorded]) -> bool:
        """Applies the steps of a region's solution up to the point of lowest cost of the whole graph; whether
        any was applied."""
        relocation = StepRelocation(self._statistics.best, region.values)
        best, steps = self._statistics.best, list[tuple[GraphCost, Match, GraphCost]]()
        length = 0
        for step in records:
            if not self._watch.may_go_on():
                break
            before = relocation.cost
            applied = relocation.apply(step)
            if applied is None:
                continue
            match, after = applied
            steps.append((before, match, after))
            if after.total < best.total:
                best, length = after, len(steps)
        if length:
            self._trace.extend(itertools.starmap(step_of, steps[:length]))
            self._statistics.improve(best)
        return length > 0
