"""Search interface: inputs, progress reports and result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias

from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.trace import TraceStep
from superopt.options import DEFAULTS

Phase: TypeAlias = Literal["step", "pricing", "search", "check", "timing"]
"""Building a training step, and the phases of optimising it or a model."""

StoppedBy: TypeAlias = Literal[
    "exhausted", "max_candidates", "patience", "budget", "interrupted", "cancelled", "not_run"
]
"""Why a search ended; ``not_run``: there was none, because the original does not run."""


class CancelToken:
    """Ends a running search from any thread: it stops at the next candidate and returns its best graph. If it
    was cancelled, that is not used; if it was ``interrupted``, it is judged as usual, in a short time."""

    def __init__(self, interrupted: threading.Event | None = None) -> None:
        self._cancelled = threading.Event()
        self._interrupted = interrupted or threading.Event()

    def cancel(self) -> None:
        """Requests cancellation."""
        self._cancelled.set()

    def interrupt(self) -> None:
        """Requests the best result found so far."""
        self._interrupted.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether cancellation was requested."""
        return self._cancelled.is_set()

    @property
    def is_interrupted(self) -> bool:
        """Whether the best result found so far was requested."""
        return self._interrupted.is_set()


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of an optimization; costs are in the unit of the objective, NaN before the first is known. A
    search ends after ``until`` seconds at the latest; the rest of the budget is for judging its result."""

    phase: Phase
    seconds: float
    candidates: int
    cost_before: float
    best_cost: float
    until: float | None = None


ProgressCallback: TypeAlias = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Limits of a search. Graphs up to ``alpha`` times the best cost are explored further. ``deadline`` is a
    time of the monotonic clock. ``patience``: the search ends after this many candidates without
    improvement."""

    deadline: float
    alpha: float = DEFAULTS.alpha
    max_candidates: int | None = None
    patience: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best graph found, its trace, and search statistics. ``matched`` counts the matches of each rule in
    the initial graph of the search, or of the part of it that found most; ``curve`` holds (seconds, best
    cost)."""

    best: GraphCost
    trace: tuple[TraceStep, ...]
    candidates: int
    seconds: float
    best_at_seconds: float
    stopped_by: StoppedBy
    matched: Mapping[str, int]
    curve: tuple[tuple[float, float], ...]


@dataclass
class Watch:
    """Checks deadline, requests to end and patience, and reports progress while a search runs. ``is_over``
    may end it before its deadline."""

    limits: SearchLimits
    cancel: CancelToken = field(default_factory=CancelToken)
    report: ProgressCallback | None = None
    report_interval: float = 0.2
    started: float = field(default_factory=time.monotonic)
    is_over: Callable[[], bool] = lambda: False
    _reported: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def interruption(self, candidates: int, since_best: int) -> StoppedBy | None:
        """Reason to stop now, None to continue."""
        limits = self.limits
        if self.cancel.is_cancelled:
            return "cancelled"
        if self.cancel.is_interrupted:
            return "interrupted"
        if limits.max_candidates is not None and candidates >= limits.max_candidates:
            return "max_candidates"
        if limits.patience is not None and since_best >= limits.patience:
            return "patience"
        return "budget" if self._is_late() else None

    def part(
        self, candidates: int, patience: int | None, report: ProgressCallback, share: float = 1.0
    ) -> Watch:
        """A watch for a part of the search that begins after a number of candidates, with its own patience
        and a share of the remaining time."""
        limits, now = self.limits, time.monotonic()
        left = None if limits.max_candidates is None else limits.max_candidates - candidates
        deadline = now + share * (limits.deadline - now) if share < 1 else limits.deadline
        own = replace(limits, deadline=deadline, max_candidates=left, patience=patience)
        return Watch(
            own, self.cancel, report if self.report else None, self.report_interval, is_over=self.is_over
        )

    def may_go_on(self) -> bool:
        """Whether time is left and no end was requested."""
        is_ended = self.cancel.is_cancelled or self.cancel.is_interrupted
        return not is_ended and not self._is_late()

    def _is_late(self) -> bool:
        return time.monotonic() >= self.limits.deadline or self.is_over()

    def tell(self, candidates: int, cost_before: float, best_cost: float) -> None:
        """Reports progress, at a limited rate."""
        now = time.monotonic()
        if self.report is not None and now - self._reported >= self.report_interval:
            self._reported = now
            self.report(Progress("search", self.seconds, candidates, cost_before, best_cost))


class Search(Protocol):
    """A strategy: from a priced graph and rules to the best graph found within limits."""

    @property
    def name(self) -> str:
        """Its ``--search`` name."""
        ...

    def run(self, start: GraphCost, rules: RuleSet, watch: Watch) -> SearchResult:
        """Searches until exhausted or interrupted by the watch."""
        ...
