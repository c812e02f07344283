"""Strategies one after another, each from the best graph of the one before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from optimizer.cost.graph_cost import GraphCost
from optimizer.search.minimise import Shortened, minimised
from optimizer.search.protocol import Progress, Search, SearchResult, StoppedBy, Watch
from optimizer.search.rules import RuleSet
from optimizer.search.trace import TraceStep


@dataclass(frozen=True, slots=True)
class Stage:
    """A strategy that goes on until ``patience`` candidates brought nothing; None means as long as it may."""

    search: Search
    patience: int | None = None


class Stages(Protocol):
    """Which stages a graph is worth."""

    def __call__(self, start: GraphCost) -> Iterator[Stage]:
        """The stages in turn."""
        ...


@dataclass(frozen=True)
class Sequence:
    """Stages that a graph decides on."""

    name: str
    stages: Stages

    def run(self, start: GraphCost, rules: RuleSet, watch: Watch) -> SearchResult:
        """Runs stage after stage until the watch says stop or all are done."""
        best, trace, curve = start, list[TraceStep](), [(0.0, start.total)]
        candidates, gaining, best_at = 0, 0, 0.0
        matched: dict[str, int] = {}
        stopped_by: StoppedBy = "exhausted"
        idle = 0
        for number, stage in enumerate(self.stages(start)):
            since = watch.seconds
            result = stage.search.run(best, rules, self._watch(watch, stage, candidates, idle, start))
            candidates += result.candidates
            idle = 0 if result.best.total < best.total else idle + result.candidates
            if number == 0:
                matched.update(result.matched)
            if result.best.total < best.total:
                best, best_at = result.best, since + result.best_at_seconds
                trace.extend(result.trace)
                gaining += 1
                curve.extend((since + at, cost) for at, cost in result.curve[1:])
            interruption = watch.interruption(candidates, idle)
            stopped_by = interruption or result.stopped_by
            if interruption is not None:
                break
        found = Shortened(best, tuple(trace))
        if gaining > 1:
            found = minimised(start, found, rules.substitutions, watch.may_go_on)
        return SearchResult(
            best=found.cost,
            trace=found.trace,
            candidates=candidates,
            seconds=watch.seconds,
            best_at_seconds=best_at,
            stopped_by=stopped_by,
            matched=matched,
            curve=tuple(curve),
        )

    @staticmethod
    def _watch(watch: Watch, stage: Stage, candidates: int, idle: int, start: GraphCost) -> Watch:
        limits = watch.limits
        left = None if limits.patience is None else limits.patience - idle
        known = [p for p in (left, stage.patience) if p is not None]
        own = replace(
            limits,
            patience=min(known, default=None),
            max_candidates=None if limits.max_candidates is None else limits.max_candidates - candidates,
        )

        def report(progress: Progress) -> None:
            watch.tell(candidates + progress.candidates, start.total, progress.best_cost)

        return Watch(own, watch.cancel, report if watch.report else None, watch.report_interval)
