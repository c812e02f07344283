"""Sequential composition of strategies, each starting from the best graph of the one before."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.search.minimise import Shortened
from superopt.optimizer.search.protocol import Search, SearchResult, StoppedBy, Watch
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.statistics import Account
from superopt.optimizer.search.trace import TraceStep


@dataclass(frozen=True, slots=True)
class Stage:
    """A strategy that goes on until ``patience`` candidates brought nothing, or for a ``share`` of the time
    that is left; without a patience as long as it may."""

    search: Search
    patience: int | None = None
    share: float = 1.0


Course: TypeAlias = Generator[Stage, SearchResult, None]
"""Stages in turn; what became of a stage is sent back, and may decide which is next."""


class Stages(Protocol):
    """Which stages a graph is worth."""

    def __call__(self, start: GraphCost) -> Course:
        """The stages in turn."""
        ...


@dataclass(frozen=True)
class Sequence:
    """Stages that a graph decides on."""

    name: str
    stages: Stages

    def run(self, start: GraphCost, rules: RuleSet, watch: Watch) -> SearchResult:
        """Runs stage after stage until the watch says stop or all are done."""
        account, trace = Account(start, rules, watch), list[TraceStep]()
        course = self.stages(start)
        stage = next(course, None)
        first: SearchResult | None = None
        gaining = 0
        stopped_by: StoppedBy | None = None
        while stage is not None:
            since = watch.seconds
            result = stage.search.run(account.best, rules, _part(watch, stage, account))
            first = first or result
            account.count(result.candidates)
            if result.best.total < account.best.total:
                account.improve_by(result, since)
                trace.extend(result.trace)
                gaining += 1
            stopped_by = account.interruption()
            stage = _next(course, result) if stopped_by is None else None
        found = account.shortened(trace) if gaining > 1 else Shortened(account.best, tuple(trace))
        return account.result(found, stopped_by or "exhausted", {} if first is None else first.matched)


def _next(course: Course, result: SearchResult) -> Stage | None:
    try:
        return course.send(result)
    except StopIteration:
        return None


def _part(watch: Watch, stage: Stage, account: Account) -> Watch:
    limit = watch.limits.patience
    left = None if limit is None else limit - account.since_best
    patience = min((p for p in (left, stage.patience) if p is not None), default=None)
    return account.part(patience, lambda progress: progress.best_cost, stage.share)
