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
    """A match and its cached effect, valid while its neighbourhood is unchanged. ``gain`` is the decrease of
    the cost, ``shift`` the change of the fingerprint; ``gain_at_most`` is an upper bound if the match was
    excluded by its bound; ``promise`` is an optimistic estimate of the gain. ``leads_nowhere``: no rewrite of
    what it makes was found to gain."""

    match: Match
    gain: float | None = None
    gain_at_most: float | None = None
    promise: float | None = None
    shift: int | None = None
    impossible: bool = False
    leads_nowhere: bool = False


class State:
    """A graph of the search. ``step`` leads from ``parent`` to this state; matches are derived from those of
    ``base``, which differs from this graph by ``change``."""

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
        """The initial state."""
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
        """The result of a rewrite; None when its cost is certainly not below the limit."""
        update = self.cost.after(rewrite, limit)
        if update is None:
            return None
        return Expansion(self, match, rewrite, update, digest or self.digest.after(self.graph, rewrite))

    def rebase(self, base: State) -> None:
        """Derives the matches from those of an ancestor, through all changes since."""
        state = self
        while state.parent is not None and state.parent is not base:
            state = state.parent
            if self.change is not None and state.change is not None:
                self.change = state.change.and_then(self.change)
        self.base = base

    def path(self) -> list[tuple[State, Match, State]]:
        """Every rewrite from the initial state: graph before, match, graph after."""
        steps: list[tuple[State, Match, State]] = []
        state = self
        while state.parent is not None and state.step is not None:
            steps.append((state.parent, state.step, state))
            state = state.parent
        return steps[::-1]

    def find(self, rules: RuleSet, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """Fills ``found``: matches of the base that are unaffected, and new ones near the change; incomplete
        once ``may_go_on`` is false."""
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
    """A candidate state that has not been built yet."""

    parent: State
    match: Match
    rewrite: Rewrite
    cost: Update
    digest: DigestUpdate

    def build(self) -> State:
        """Builds the complete state."""
        state = State(self.cost.build(), self.digest.build())
        state.parent, state.step, state.base = self.parent, self.match, self.parent
        state.change = Change.of(self.parent.graph, self.rewrite)
        return state


def _carried(opportunity: Opportunity, around: frozenset[int]) -> Opportunity:
    """The cached effect of a match stays valid while its neighbourhood is unchanged."""
    match = opportunity.match
    if around.isdisjoint(match.sites) and around.isdisjoint(nodes_read(match)):
        return opportunity
    return Opportunity(match)


def _ordered(found: Iterable[Opportunity], rules: RuleSet) -> list[Opportunity]:
    return sorted(found, key=lambda o: (rules.position(o.match.substitution), o.match.sites))
