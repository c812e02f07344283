"""Search state: a graph with its cost, fingerprint and matches, each updated from its parent state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from superopt.ir.graph import Graph
from superopt.optimizer.cost.graph_cost import GraphCost, Update
from superopt.optimizer.search.digest import Digest, DigestUpdate
from superopt.optimizer.search.rules import Change, RuleSet, nodes_read
from superopt.rewriting import Match, Rewrite, apply_match

FINGERPRINT_MASK = (1 << 64) - 1


@dataclass(slots=True)
class Opportunity:
    """A match and what is known of its effect wherever its neighbourhood is untouched.

    ``gain`` is by how much it lowers the cost, ``shift`` by how much it moves the fingerprint;
    ``gain_at_most`` is known when the match was found too costly to look at closely.
    """

    match: Match
    gain: float | None = None
    gain_at_most: float | None = None
    shift: int | None = None
    impossible: bool = False


class State:
    """One graph of the search. ``step`` leads here from ``parent``; matches derive from those of ``base``,
    which differs from this graph by ``change``."""

    def __init__(self, cost: GraphCost, digest: Digest) -> None:
        self.cost = cost
        self.digest = digest
        self.parent: State | None = None
        self.step: Match | None = None
        self.base: State | None = None
        self.change: Change | None = None
        self.found: list[Opportunity] = []

    @staticmethod
    def start(cost: GraphCost) -> State:
        """The graph that a search starts from."""
        return State(cost, Digest.of(cost.graph))

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.cost.graph

    def rewritten(self, match: Match) -> Rewrite | None:
        """The graph after a match; None when the match does not apply."""
        return apply_match(self.graph, match)

    def after(
        self,
        match: Match,
        rewrite: Rewrite,
        limit: float = math.inf,
        digest: DigestUpdate | None = None,
    ) -> Expansion | None:
        """What a rewrite leads to; None when that is certainly not below the limit."""
        update = self.cost.after(rewrite, limit)
        if update is None:
            return None
        return Expansion(self, match, rewrite, update, digest or self.digest.after(self.graph, rewrite))

    def rebase(self, base: State) -> None:
        """Derives the matches from those of an ancestor, over all changes since."""
        state = self
        while state.parent is not None and state.parent is not base:
            state = state.parent
            if self.change is not None and state.change is not None:
                self.change = state.change.and_then(self.change)
        self.base = base

    def path(self) -> list[tuple[State, Match, State]]:
        """Every rewrite on the way from the start: before, match, after."""
        steps: list[tuple[State, Match, State]] = []
        state = self
        while state.parent is not None and state.step is not None:
            steps.append((state.parent, state.step, state))
            state = state.parent
        return steps[::-1]

    def find(self, rules: RuleSet, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """Fills ``found``: matches of the base that nothing touched, and new ones near what changed; not
        all of them once ``may_go_on`` says no."""
        free = self.cost.free
        if self.base is None or self.change is None:
            self.found = [Opportunity(match) for match in rules.matches(self.graph, free, may_go_on)]
            return
        region = rules.region(self.graph, self.change)
        around = self.change.around
        fresh = [Opportunity(match) for match in rules.matches_near(self.graph, free, region, may_go_on)]
        kept = [
            _carried(opportunity, around)
            for opportunity in self.base.found
            if not opportunity.impossible
            and not region.concerns(opportunity.match)
            and self._survives(opportunity.match, self.change)
        ]
        self.found = _ordered([*kept, *fresh], rules)

    def _survives(self, match: Match, change: Change) -> bool:
        nodes = self.graph.nodes
        sites = match.sites
        return (
            change.edited.isdisjoint(sites)
            and all(site in nodes for site in sites)
            and all(node in nodes for node in nodes_read(match))
            and any(value.node not in self.cost.free for value in match.outputs)
        )


@dataclass(frozen=True, slots=True)
class Expansion:
    """A state that may be worth building."""

    parent: State
    match: Match
    rewrite: Rewrite
    cost: Update
    digest: DigestUpdate

    def build(self) -> State:
        """The state, complete."""
        state = State(self.cost.build(), self.digest.build())
        state.parent, state.step, state.base = self.parent, self.match, self.parent
        state.change = Change.of(self.parent.graph, self.rewrite)
        return state


def _carried(opportunity: Opportunity, around: frozenset[int]) -> Opportunity:
    """What a match does stays known while nobody touched its neighbourhood."""
    match = opportunity.match
    if around.isdisjoint(match.sites) and around.isdisjoint(nodes_read(match)):
        return opportunity
    return Opportunity(match)


def _ordered(found: Iterable[Opportunity], rules: RuleSet) -> list[Opportunity]:
    return sorted(found, key=lambda o: (rules.position(o.match.substitution), o.match.sites))
