"""Search statistics common to all strategies, and the search result built from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.search.confirmation import confirmed
from superopt.optimizer.search.minimise import Shortened, minimised
from superopt.optimizer.search.protocol import Progress, SearchResult, StoppedBy, Watch
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.trace import TraceStep
from superopt.rewriting import Match

_SHARE_OF_CONFIRMATION = 0.04
"""Share of the remaining time for measuring again what decided a part of a search."""


class SearchStatistics:
    """Search statistics: candidates examined, candidates since the last improvement, and times of
    improvements."""

    def __init__(self, start: GraphCost, rules: RuleSet, watch: Watch) -> None:
        self.start = start
        self.best = start
        self.candidates = 0
        self.since_best = 0
        self._rules = rules
        self._watch = watch
        self._curve = [(0.0, start.total)]

    def count(self, candidates: int = 1) -> None:
        """Counts examined candidates."""
        self.candidates += candidates
        self.since_best += candidates

    def improve(self, best: GraphCost) -> None:
        """Records an improvement."""
        self.best = best
        self.since_best = 0
        self._curve.append((self._watch.seconds, best.total))

    def improve_by(self, part: SearchResult, since: float) -> None:
        """Records an improvement by a nested search that began ``since`` seconds after this one."""
        known = self.best.total
        self.best = part.best
        self.since_best = 0
        self._curve.extend((since + at, cost) for at, cost in part.curve[1:] if cost < known)

    def confirm(self) -> bool:
        """Measures again what distinguishes the best graph from the first; whether it is better still. If it
        is not, the first is the best."""
        some = self.part(None, _SHARE_OF_CONFIRMATION)
        known = self.best.total
        self.start, best = confirmed(self.start, self.best, some.may_go_on)
        is_better = best.total < self.start.total
        self.best = best if is_better else self.start
        if self.best.total != known:
            self._curve.append((self._watch.seconds, self.best.total))
        return is_better

    def part(
        self, patience: int | None, share: float = 1.0, best_of: Callable[[Progress], float] | None = None
    ) -> Watch:
        """A watch for a part of this search, with its own patience and a share of the remaining time.
        ``best_of`` converts the part's best cost to that of the whole, where it is of something else. A part
        that begins anew has not lost what was found before."""

        def report(progress: Progress) -> None:
            best = min(self.best.total, progress.best_cost) if best_of is None else best_of(progress)
            self._watch.tell(self.candidates + progress.candidates, self.start.total, best)

        return self._watch.part(self.candidates, patience, report, share)

    def tell(self) -> None:
        """Reports progress, at a limited rate."""
        self._watch.tell(self.candidates, self.start.total, self.best.total)

    def interruption(self) -> StoppedBy | None:
        """Reports progress; the reason to stop now, None to continue."""
        self.tell()
        return self._watch.interruption(self.candidates, self.since_best)

    def may_go_on(self) -> bool:
        """Whether time is left and cancellation was not requested."""
        return self._watch.may_go_on()

    def shortened(self, trace: Iterable[TraceStep]) -> Shortened:
        """The best graph and its trace, without steps that gain nothing."""
        found = Shortened(self.best, tuple(trace))
        return minimised(self.start, found, self._rules.substitutions, self.may_go_on)

    def result(self, found: Shortened, stopped_by: StoppedBy, matched: Mapping[str, int]) -> SearchResult:
        """The search result with all statistics."""
        return SearchResult(
            best=found.cost,
            trace=found.trace,
            candidates=self.candidates,
            seconds=self._watch.seconds,
            best_at_seconds=self._curve[-1][0],
            stopped_by=stopped_by,
            matched=matched,
            curve=tuple(self._curve),
        )


def matches_by_rule(matches: Iterable[Match]) -> Mapping[str, int]:
    """Number of matches of each rule, by its id."""
    return dict(Counter(match.substitution.rule_id for match in matches))
