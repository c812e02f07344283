"""Sequential composition of strategies, each starting from the best graph so far, or from the first."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.search.minimise import Shortened
from superopt.optimizer.search.protocol import Search, SearchResult, StoppedBy, Watch
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.statistics import SearchStatistics
from superopt.optimizer.search.trace import TraceStep


@dataclass(frozen=True, slots=True)
class Stage:
    """A strategy that runs until ``patience`` candidates brought no improvement, or for a ``share`` of the
    remaining time; without patience until the limit. It starts from the best graph so far, or ``anew`` from
    the first."""

    search: Search
    patience: int | None = None
    share: float = 1.0
    anew: bool = False


Course: TypeAlias = Generator[Stage, SearchResult, None]
"""A generator of stages; it is sent each stage's outcome, which may determine the next."""


class Stages(Protocol):
    """Chooses the stages for a graph."""

    def __call__(self, start: GraphCost) -> Course:
        """The stages in order."""
        ...


@dataclass(frozen=True)
class Sequence:
    """Runs stages chosen for a graph."""

    name: str
    stages: Stages

    def run(self, start: GraphCost, rules: RuleSet, watch: Watch) -> SearchResult:
        """Runs stage after stage until the watch interrupts or all are done."""
        statistics, trace = SearchStatistics(start, rules, watch), list[TraceStep]()
        course = self.stages(start)
        stage = next(course, None)
        matched: dict[str, int] = {}
        gaining = 0
        stopped_by: StoppedBy | None = None
        while stage is not None:
            since = watch.seconds
            begins = statistics.start if stage.anew else statistics.best
            result = stage.search.run(begins, rules, _part(watch, stage, statistics))
            matched |= {rule: max(count, matched.get(rule, 0)) for rule, count in result.matched.items()}
            statistics.count(result.candidates)
            if result.best.total < statistics.best.total:
                statistics.improve_by(result, since)
                trace = [*([] if stage.anew else trace), *result.trace]
                gaining += 1
                if not statistics.confirm():
                    trace, result = [], replace(result, trace=())
                result = replace(result, best=statistics.best)
            stopped_by = statistics.interruption()
            stage = _next(course, result) if stopped_by is None else None
        found = statistics.shortened(trace) if gaining > 1 else Shortened(statistics.best, tuple(trace))
        return statistics.result(found, stopped_by or "exhausted", matched)


def _next(course: Course, result: SearchResult) -> Stage | None:
    try:
        return course.send(result)
    except StopIteration:
        return None


def _part(watch: Watch, stage: Stage, statistics: SearchStatistics) -> Watch:
    limit = watch.limits.patience
    left = None if limit is None else limit - statistics.since_best
    patience = min((p for p in (left, stage.patience) if p is not None), default=None)
    return statistics.part(patience, stage.share)
