"""Steepest descent: all rewrites that lower the cost are applied, until none does.

Of every rewrite an optimistic estimate of its gain is made first, without measuring. Only those that promise
a noticeable share of the cost are priced, the most promising first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from superopt.ir.graph import NodeId
from superopt.optimizer.cost import GraphCost
from superopt.optimizer.search.hiding import least_gain
from superopt.optimizer.search.protocol import SearchResult, Watch
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.state import Opportunity, State
from superopt.optimizer.search.strategies.greedy import GreedyRun

_NOTICEABLE = 2e-4
"""Share of the cost of the graph that a rewrite must promise and gain."""

_NEXT_AT_NODE = 0.5
"""Share of its promise by which a rewrite comes later for each more promising one at the same node."""

_BATCH = 32
"""Number of rewrites priced before those that pay are applied."""

_SHARE_OF_BATCH = 0.25
"""Share of the remaining time after which they are applied anyway, where pricing takes long."""

_SHARE_OF_ESTIMATES = 0.4
"""Share of the remaining time after which no more estimates are made before the first rewrite is priced."""


class Descent:
    """Applies what pays, at all places at once."""

    name = "descent"

    def run(self, start: GraphCost, rules: RuleSet, watch: Watch) -> SearchResult:
        """Descends until no rewrite pays or the watch interrupts."""
        return _Run(start, rules, watch).result()


class _Run(GreedyRun):
    def _lower(self, state: State) -> State:
        """The graph after all paying rewrites; the same where none pays."""
        state.find(self._rules, self._statistics.may_go_on)
        self._estimate(state)
        least = _NOTICEABLE * state.cost.total
        promising = [o for o in state.found if o.promise is not None and o.promise > least]
        untried = iter([o for o in _in_turn(promising) if o.gain is None])
        while True:
            tried = self._try_some(state, untried)
            paying = [
                o
                for o in promising
                if o.gain is not None and o.gain > max(least, least_gain(state.cost, o.match))
            ]
            lower = self._applied(state, sorted(paying, key=lambda o: -(o.gain or 0.0)))
            if lower is not state or not tried:
                return lower

    def _estimate(self, state: State) -> None:
        """Makes the estimates, of rewrites of expensive kernels first; of a large graph, as many as a
        share of the remaining time allows."""
        part = self._statistics.part(None, _SHARE_OF_ESTIMATES)
        waiting = [o for o in state.found if o.promise is None and not o.impossible]
        for opportunity in sorted(waiting, key=lambda o: -state.cost.price_of((o.match.outputs[0].node,))):
            if not part.may_go_on():
                break
            self._promises.of(state, opportunity)

    def _try_some(self, state: State, untried: Iterator[Opportunity]) -> int:
        """Prices a batch of rewrites, or as many as a share of the remaining time allows; their number."""
        part, tried = self._statistics.part(None, _SHARE_OF_BATCH), 0
        while tried < _BATCH and part.may_go_on() and self._statistics.interruption() is None:
            opportunity = next(untried, None)
            if opportunity is None:
                break
            self._try(state, opportunity)
            tried += 1
        return tried

    def _try(self, state: State, opportunity: Opportunity) -> None:
        self._statistics.count()
        rewrite = state.rewritten(opportunity.match)
        update = None if rewrite is None else state.cost.after(rewrite, state.cost.total)
        opportunity.gain = 0.0 if update is None else state.cost.total - update.total

    def _applied(self, state: State, paying: Iterable[Opportunity]) -> State:
        """Applies the rewrites that still pay at their turn, the best first."""
        current = state
        for opportunity in paying:
            if not self._statistics.may_go_on():
                break
            current = self._after(current, opportunity) or current
            if current.cost.total < self._statistics.best.total:
                self._statistics.improve(current.cost)
        if current is not state and current.parent is not state:
            current.rebase(state)
        return current

    def _after(self, current: State, opportunity: Opportunity) -> State | None:
        match = opportunity.match
        root = match.outputs[0].node
        if root not in current.graph.nodes:
            return None
        for other in self._rules.matches_at(current.graph, current.cost.free, match.substitution, root):
            rewrite = current.rewritten(other)
            after = None if rewrite is None else current.after(other, rewrite, current.cost.total)
            least = max(_NOTICEABLE * current.cost.total, least_gain(current.cost, other))
            if after is not None and current.cost.total - after.cost.total > least:
                return after.build()
        return None


def _in_turn(promising: Sequence[Opportunity]) -> list[Opportunity]:
    """The most promising first, but all nodes have a turn before one of them has all its rewrites tried: a
    convolution has a dozen bilinear forms, and no form pays for the largest images."""
    before = Counter[NodeId]()
    urgency = list[tuple[float, Opportunity]]()
    for opportunity in sorted(promising, key=lambda o: -(o.promise or 0.0)):
        root = opportunity.match.outputs[0].node
        urgency.append(((opportunity.promise or 0.0) * _NEXT_AT_NODE ** before[root], opportunity))
        before[root] += 1
    return [opportunity for _, opportunity in sorted(urgency, key=lambda entry: -entry[0])]
