"""Pairs of steps: a rewrite that gains little or nothing by itself, and one that it makes possible.

Every rewrite of a graph is continued by those about what it made, and each pair gets an optimistic estimate
without measuring. Pairs that promise a noticeable share of the cost are priced, the most promising first, and
applied where they gain it. Rewrites of the same rule and estimate, as in equal blocks of a network, are
continued once, and again only if that led to something.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.search.hiding import is_worth_it
from superopt.optimizer.search.protocol import SearchResult, Watch
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.state import Opportunity, State
from superopt.optimizer.search.strategies.greedy import GreedyRun
from superopt.rewriting import Match, Substitution

_NOTICEABLE = 2e-3
"""Share of the cost of the graph that a pair must promise and gain."""

_BATCH = 64
"""Number of kinds of first steps that are continued before the pairs that pay are applied."""


@dataclass(frozen=True, slots=True)
class _Alike:
    """Rewrites of one rule with equal estimates of their gain."""

    gain: float
    members: Sequence[Opportunity]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Alike first steps, the rule of the second, and the estimate of what one pair gains."""

    first: _Alike
    second: Substitution
    promise: float


class Lookahead:
    """Applies pairs of rewrites that gain together."""

    name = "lookahead"

    def run(self, start: GraphCost, rules: RuleSet, watch: Watch) -> SearchResult:
        """Applies pairs until none gains or the watch interrupts."""
        return _Run(start, rules, watch).result()


class _Run(GreedyRun):
    def _lower(self, state: State) -> State:
        """The graph after all paying pairs; the same where none pays."""
        current = state
        firsts = iter(self._firsts(state))
        while self._statistics.interruption() is None and (batch := list(islice(firsts, _BATCH))):
            pairs = [pair for first in batch for pair in self._pairs(state, first)]
            for pair in sorted(pairs, key=lambda pair: -pair.promise):
                current = self._applied(current, pair)
        if current is not state:
            current.rebase(state)
        return current

    def _applied(self, state: State, pair: _Pair) -> State:
        """The graph after the pair, wherever its first step was found, until it does not pay."""
        for opportunity in pair.first.members:
            lower = None
            if self._statistics.interruption() is None:
                lower = self._after(state, opportunity.match, pair.second)
            if lower is None:
                break
            state = lower
            self._statistics.improve(state.cost)
            for member in pair.first.members:
                member.leads_nowhere = False
        return state

    def _firsts(self, state: State) -> Sequence[_Alike]:
        """The rewrites that were not looked at, those that gain most or lose least first."""
        state.find(self._rules, self._statistics.may_go_on)
        alike = defaultdict[tuple[float, int], list[Opportunity]](list)
        for opportunity in state.found:
            if opportunity.leads_nowhere or not self._statistics.may_go_on():
                continue
            gain = self._promises.of(state, opportunity)
            if gain is not None:
                rule = self._rules.position(opportunity.match.substitution)
                alike[-round(gain, 3), rule].append(opportunity)
        return [_Alike(-loss, alike[loss, rule]) for loss, rule in sorted(alike)]

    def _pairs(self, state: State, first: _Alike) -> Iterator[_Pair]:
        """The pairs that promise enough, and more than the first step alone."""
        for member in first.members:
            member.leads_nowhere = True
        if not self._statistics.may_go_on():
            return
        middle = self._middle(self._promises.optimistically(state), first.members[0].match)
        if middle is None:
            return
        least = max(0.0, first.gain) + _NOTICEABLE * state.cost.total
        promises: dict[int, float] = {}
        for match in self._seconds(middle):
            rewrite = middle.rewritten(match)
            update = None if rewrite is None else middle.cost.after(rewrite, state.cost.total - least)
            gain = 0.0 if update is None else state.cost.total - update.total
            if gain > least:
                rule = self._rules.position(match.substitution)
                promises[rule] = max(gain, promises.get(rule, gain))
        for rule, gain in promises.items():
            yield _Pair(first, self._rules.substitutions[rule], gain)

    def _after(self, state: State, first: Match, second: Substitution) -> State | None:
        """The graph after the first pair of these rules, the first step at that place, that pays."""
        root = first.outputs[0].node
        if root not in state.graph.nodes:
            return None
        least = _NOTICEABLE * state.cost.total
        for match in self._rules.matches_at(state.graph, state.cost.free, first.substitution, root):
            self._statistics.count()
            middle = self._middle(state, match)
            if middle is None or not is_worth_it(state.cost, match, middle.cost.total):
                continue
            for other in self._seconds(middle, second):
                self._statistics.count()
                rewrite = middle.rewritten(other)
                after = None if rewrite is None else middle.after(other, rewrite, state.cost.total - least)
                if after is None or state.cost.total - after.cost.total <= least:
                    continue
                if is_worth_it(middle.cost, other, after.cost.total):
                    return after.build()
        return None

    def _middle(self, state: State, match: Match) -> State | None:
        rewrite = state.rewritten(match)
        expansion = None if rewrite is None else state.after(match, rewrite)
        return None if expansion is None else expansion.build()

    def _seconds(self, middle: State, rule: Substitution | None = None) -> Iterator[Match]:
        """The rewrites about what the step before made, those of one rule or all."""
        change = middle.change
        assert change is not None, "a step led here"
        graph, free, region = middle.graph, middle.cost.free, self._rules.region(middle.graph, change)
        if rule is None:
            found: Iterable[Match] = self._rules.matches_near(graph, free, region)
        else:
            roots = sorted(region.roots_of(rule) & graph.nodes.keys())
            found = (match for root in roots for match in self._rules.matches_at(graph, free, rule, root))
        return (match for match in found if not change.edited.isdisjoint(match.sites))
