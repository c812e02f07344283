"""TASO's cost-based backtracking search (dissertation, section 2.6, Algorithm 2), made incremental.

Besides single rewrites it considers macro steps: applying one rule at all places where it pays. A network of
sixty equal blocks is then one step per rule from its optimum instead of sixty.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from superopt.ir.graph import NodeId
from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.search.hiding import is_worth_it
from superopt.optimizer.search.protocol import SearchResult, StoppedBy, Watch
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.state import FINGERPRINT_MASK, Expansion, Opportunity, State
from superopt.optimizer.search.statistics import SearchStatistics, matches_by_rule
from superopt.optimizer.search.trace import trace_of
from superopt.rewriting import Match, Substitution

_MAX_QUEUE = 4000


@dataclass(order=True, slots=True)
class _Entry:
    """A queue entry; the state of a single rewrite is built when it is taken from the queue."""

    cost: float
    tie: float
    number: int
    state: State = field(compare=False)
    match: Match | None = field(compare=False)


class Backtracking:
    """Explores graphs in order of cost; those up to alpha times the best cost are rewritten further."""

    name = "backtracking"

    def run(self, start: GraphCost, rules: RuleSet, watch: Watch) -> SearchResult:
        """Searches until every graph within alpha is explored or the watch interrupts."""
        return _Run(start, rules, watch).result()


class _Run:
    def __init__(self, start: GraphCost, rules: RuleSet, watch: Watch) -> None:
        self._start = State.start(start)
        self._rules = rules
        self._limits = watch.limits
        self._statistics = SearchStatistics(start, rules, watch)
        self._random = random.Random(watch.limits.seed)
        self._best = self._start
        self._seen = {self._start.digest.fingerprint: start.total}
        self._queue: list[_Entry] = []
        self._pushed = 0

    def result(self) -> SearchResult:
        stopped_by = self._search()
        found = self._statistics.shortened(trace_of(self._best))
        matched = matches_by_rule(opportunity.match for opportunity in self._start.found)
        return self._statistics.result(found, stopped_by, matched)

    @property
    def _limit(self) -> float:
        return self._limits.alpha * self._best.cost.total

    def _search(self) -> StoppedBy:
        stopped_by = self._expand(self._start)
        while stopped_by is None and self._queue:
            entry = heapq.heappop(self._queue)
            if entry.cost >= self._limit:
                break
            state = self._built(entry)
            if state is not None:
                stopped_by = self._expand(state)
        self._statistics.interruption()
        return stopped_by or "exhausted"

    def _built(self, entry: _Entry) -> State | None:
        if entry.match is None:
            return entry.state
        rewrite = entry.state.rewritten(entry.match)
        candidate = None if rewrite is None else entry.state.after(entry.match, rewrite)
        return None if candidate is None else candidate.build()

    def _expand(self, state: State) -> StoppedBy | None:
        """Every rewrite of the state, rule by rule, and each rule's macro step after it."""
        state.find(self._rules, self._statistics.may_go_on)
        if not self._statistics.may_go_on():
            return self._statistics.interruption()
        for opportunities in _by_rule(state.found):
            for opportunity in opportunities:
                stopped_by = self._statistics.interruption()
                if stopped_by is not None:
                    return stopped_by
                self._try(state, opportunity)
            roots = _paying_roots(opportunities)
            if len(roots) > 1:
                stopped_by = self._macro(state, opportunities[0].match.substitution, roots)
                if stopped_by is not None:
                    return stopped_by
        return None

    def _try(self, state: State, opportunity: Opportunity) -> None:
        self._statistics.count()
        if self._is_known_to_be_idle(state, opportunity):
            return
        rewrite = state.rewritten(opportunity.match)
        if rewrite is None:
            opportunity.impossible = len(opportunity.match.outputs) == 1
            return
        digest = state.digest.after(state.graph, rewrite)
        opportunity.shift = (digest.fingerprint - state.digest.fingerprint) & FINGERPRINT_MASK
        known = self._seen.get(digest.fingerprint)
        if known is not None:
            opportunity.gain = state.cost.total - known
            return
        after = state.after(opportunity.match, rewrite, self._limit, digest)
        if after is None:
            opportunity.gain_at_most = state.cost.total - self._limit
            return
        opportunity.gain = state.cost.total - after.cost.total
        if is_worth_it(state.cost, opportunity.match, after.cost.total):
            self._consider(after)

    def _is_known_to_be_idle(self, state: State, opportunity: Opportunity) -> bool:
        """Whether the cached effect of the match shows that it leads to nothing new."""
        gain = opportunity.gain if opportunity.gain is not None else opportunity.gain_at_most
        if gain is not None and state.cost.total - gain >= self._limit:
            return True
        if opportunity.shift is None:
            return False
        return (state.digest.fingerprint + opportunity.shift) & FINGERPRINT_MASK in self._seen

    def _consider(self, candidate: Expansion) -> None:
        """Queues a graph that is new and not too costly."""
        cost = candidate.cost.total
        self._seen[candidate.digest.fingerprint] = cost
        if cost < self._best.cost.total:
            self._is_best(candidate.build())
        if cost < self._limit:
            self._push(cost, candidate.parent, candidate.match)

    def _is_best(self, state: State) -> None:
        self._best = state
        self._statistics.improve(state.cost)

    def _push(self, cost: float, state: State, match: Match | None) -> None:
        self._pushed += 1
        heapq.heappush(self._queue, _Entry(cost, self._random.random(), self._pushed, state, match))
        if len(self._queue) > _MAX_QUEUE:
            self._queue = heapq.nsmallest(_MAX_QUEUE // 2, self._queue)

    def _macro(self, state: State, substitution: Substitution, roots: list[NodeId]) -> StoppedBy | None:
        """Applies a rule at all matches where it pays on its own and still does at its turn."""
        current = state
        stopped_by: StoppedBy | None = None
        for root in roots:
            if root in current.graph.nodes:
                current = self._cheaper(current, substitution, root) or current
            stopped_by = self._statistics.interruption()
            if stopped_by is not None:
                break
        if current is not state and current.parent is not state:
            current.rebase(state)
            self._consider_built(current)
        return stopped_by

    def _consider_built(self, state: State) -> None:
        if state.digest.fingerprint in self._seen:
            return
        self._seen[state.digest.fingerprint] = state.cost.total
        if state.cost.total < self._best.cost.total:
            self._is_best(state)
        if state.cost.total < self._limit:
            self._push(state.cost.total, state, None)

    def _cheaper(self, current: State, substitution: Substitution, root: NodeId) -> State | None:
        for match in self._rules.matches_at(current.graph, current.cost.free, substitution, root):
            if self._statistics.interruption() is not None:
                return None
            self._statistics.candidates += 1
            rewrite = current.rewritten(match)
            after = None if rewrite is None else current.after(match, rewrite, current.cost.total)
            if after is None or not is_worth_it(current.cost, match, after.cost.total):
                continue
            if after.cost.total < current.cost.total:
                return after.build()
        return None


def _by_rule(found: Iterable[Opportunity]) -> Iterable[list[Opportunity]]:
    """Opportunities grouped by substitution; single-output ones first, whose number is limited."""
    groups: dict[int, list[Opportunity]] = {}
    for opportunity in found:
        groups.setdefault(id(opportunity.match.substitution), []).append(opportunity)
    return sorted(groups.values(), key=lambda group: len(group[0].match.outputs) > 1)


def _paying_roots(opportunities: Iterable[Opportunity]) -> list[NodeId]:
    """Return the first roots of the opportunities that lower the cost."""
    paying = (o for o in opportunities if o.gain is not None and o.gain > 0)
    return list(dict.fromkeys(o.match.outputs[0].node for o in paying))
