"""Searches that lower the cost step by step and never look back."""

from __future__ import annotations

from abc import ABC, abstractmethod

from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.search.protocol import SearchResult, StoppedBy, Watch
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.state import State
from superopt.optimizer.search.statistics import SearchStatistics, matches_by_rule
from superopt.optimizer.search.strategies.promises import Promises
from superopt.optimizer.search.trace import trace_of


class GreedyRun(ABC):
    """One run of such a search, which prices only what promises enough."""

    def __init__(self, start: GraphCost, rules: RuleSet, watch: Watch) -> None:
        self._start = State.start(start)
        self._rules = rules
        self._statistics = SearchStatistics(start, rules, watch)
        self._promises = Promises(start.objective)

    def result(self) -> SearchResult:
        """Lowers the cost until that leaves the graph as it is, or the watch interrupts."""
        state: State = self._start
        stopped_by: StoppedBy | None = None
        while stopped_by is None:
            below = self._lower(state)
            stopped_by = self._statistics.interruption()
            if below is state:
                break
            state = below
        found = self._statistics.shortened(trace_of(state))
        matched = matches_by_rule(opportunity.match for opportunity in self._start.found)
        return self._statistics.result(found, stopped_by or "exhausted", matched)

    @abstractmethod
    def _lower(self, state: State) -> State:
        """A cheaper graph; the same where there is none."""
