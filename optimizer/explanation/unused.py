"""Reasons why matching rules were not used: prices each kind of site once, while time allows."""

from __future__ import annotations

import enum
import time
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import asdict, dataclass, field
from itertools import islice, zip_longest

from superopt.equations import format_condition
from superopt.ir.graph import Graph, NodeId
from superopt.optimizer.cost import GraphCost
from superopt.optimizer.search import TraceStep, written
from superopt.optimizer.search.rules import is_connected
from superopt.rewriting import Match, Substitution, apply_match, find_matches, obstacle

_EQUAL = 1e-6
"""Costs that differ by less count as equal."""

_FIRST_SHARE = 0.7
"""Share of the time for pricing every kind of site; the rest is for exact costs of those excluded by a
bound."""

_MOST_SITES = 1000
"""Maximum matches of one rule that are examined."""


class Reason(enum.StrEnum):
    """Why a rule was not used."""

    EXCLUDED = "excluded"
    OPERATOR_SET = "operator_set"
    KEPT = "kept"
    NOT_APPLICABLE = "not_applicable"
    BREAKS_FUSION = "breaks_fusion"
    COSTLIER = "costlier"
    NO_GAIN = "no_gain"
    SUPERSEDED = "superseded"
    NOT_FASTER = "not_faster"
    NOT_COMBINED = "not_combined"
    NOT_REACHED = "not_reached"
    NOT_PRICED = "not_priced"


@dataclass(frozen=True, slots=True)
class UnusedRule:
    """A rule that matches the original at ``sites`` and is not in the trace. ``kinds`` is the number of kinds
    of site that were priced; ``best_gain`` the largest gain found, in the unit of the objective, None where
    there is no price; ``detail`` is the reason in words."""

    rule: str
    backwards: bool
    equation: str
    sites: int
    kinds: int
    reason: Reason
    best_gain: float | None
    detail: str

    def to_json(self) -> dict[str, object]:
        """The rule as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class ExplanationContext:
    """Context of the reasons: the priced original, the rules applied and tried, the user's exclusions."""

    start: GraphCost
    applied: Sequence[TraceStep]
    tried: Set[str]
    final: Graph
    usable: Set[str]
    excluded: Set[str]
    protected: Set[NodeId]
    was_cut_short: bool
    unit: str
    deadline: float

    @property
    def is_over(self) -> bool:
        """Whether the time for the explanation is over."""
        return time.monotonic() >= self.deadline


@dataclass
class _Kind:
    """Sites with equal neighbourhoods, of which one is priced."""

    match: Match
    count: int = 0


@dataclass
class _Trial:
    """A rule and the results for it."""

    substitution: Substitution
    sites: int = 0
    kept: int = 0
    kinds: dict[object, _Kind] = field(default_factory=dict[object, _Kind])
    priced: int = 0
    bounded: int = 0
    obstacles: Counter[str] = field(default_factory=Counter[str])
    gain: float | None = None
    best: Match | None = None

    @property
    def left(self) -> int:
        """The number of kinds of site that were not priced for lack of time."""
        return len(self.kinds) - self.priced - sum(self.obstacles.values())

    @property
    def places(self) -> str:
        """Description of what was priced."""
        places = f"{self.priced} kind{'' if self.priced == 1 else 's'} of place"
        return f"{places} priced in the time available, of {len(self.kinds)}" if self.left else places


def unused_rules(
    offered: Sequence[Substitution], context: ExplanationContext
) -> tuple[tuple[UnusedRule, ...], bool]:
    """The matching rules that were not used, by decreasing gain; and whether time sufficed."""
    began = time.monotonic()
    until = began + _FIRST_SHARE * (context.deadline - began)
    used = {step.rule for step in context.applied}
    trials = list(_matching([s for s in offered if s.rule_id not in used], context))
    for round_ in zip_longest(*(trial.kinds.values() for trial in trials)):
        for trial, kind in zip(trials, round_, strict=True):
            if kind is not None and time.monotonic() < until:
                _price(trial, kind.match, context.start)
    for trial in trials:
        if trial.gain is None and trial.bounded and not context.is_over:
            _price_in_full(trial, context.start)
    found = [_explained(trial, context) for trial in trials]
    complete = not context.is_over and not any(trial.left for trial in trials)
    return tuple(sorted(found, key=lambda rule: (-_or_worst(rule.best_gain), rule.equation))), complete


def _matching(offered: Sequence[Substitution], context: ExplanationContext) -> Iterator[_Trial]:
    graph, free = context.start.graph, context.start.free
    for substitution in filter(is_connected, offered):
        if context.is_over:
            return
        trial = _Trial(substitution)
        for match in islice(find_matches(graph, substitution), _MOST_SITES):
            if all(value.node in free for value in match.outputs):
                continue
            trial.sites += 1
            if not context.protected.isdisjoint(match.sites):
                trial.kept += 1
            else:
                trial.kinds.setdefault(_look(graph, match), _Kind(match)).count += 1
        if trial.sites:
            yield trial


def _look(graph: Graph, match: Match) -> object:
    """The matched nodes with their types, operands and readers."""
    nodes = graph.nodes
    sites = match.sites
    above = [value.node for site in sites for value in nodes[site].inputs]
    below = sorted(nodes[user].digest for value in match.outputs for user in graph.users(value.node))
    return (
        tuple(nodes[site].digest for site in sites),
        tuple((nodes[node].digest, len(graph.users(node))) for node in above),
        tuple(below),
        match.window,
    )


def _price(trial: _Trial, match: Match, start: GraphCost) -> None:
    """Prices one site, unless a bound shows that it cannot pay."""
    rewrite = apply_match(start.graph, match)
    if rewrite is None:
        found = obstacle(start.graph, match)
        if found is not None:
            clause = "" if found.condition is None else f": {format_condition(found.condition)}"
            trial.obstacles[f"{found.reason}{clause}"] += 1
        return
    trial.priced += 1
    update = start.after(rewrite, start.total + _EQUAL)
    if update is None:
        trial.bounded += 1
        trial.best = trial.best or match
    elif trial.gain is None or start.total - update.total > trial.gain:
        trial.gain, trial.best = start.total - update.total, match


def _price_in_full(trial: _Trial, start: GraphCost) -> None:
    """The exact price of a site that a bound excluded, for the report."""
    assert trial.best is not None
    rewrite = apply_match(start.graph, trial.best)
    update = None if rewrite is None else start.after(rewrite)
    if update is not None:
        trial.gain = start.total - update.total


def _explained(trial: _Trial, context: ExplanationContext) -> UnusedRule:
    reason, detail = _reason(trial, context)
    substitution = trial.substitution
    return UnusedRule(
        rule=substitution.rule_id,
        backwards=substitution.backwards,
        equation=written(substitution),
        sites=trial.sites,
        kinds=trial.priced,
        reason=reason,
        best_gain=None if trial.gain is None else round(trial.gain, 3),
        detail=detail,
    )


def _reason(trial: _Trial, context: ExplanationContext) -> tuple[Reason, str]:
    rule = trial.substitution.rule_id
    if rule in context.excluded:
        return Reason.EXCLUDED, "excluded by --exclude-rule"
    if rule not in context.usable:
        return Reason.OPERATOR_SET, "its operators are not in the model's operator set"
    if trial.kept == trial.sites:
        return Reason.KEPT, "every match touches a node in --keep"
    if not trial.priced:
        if not trial.obstacles:
            return Reason.NOT_PRICED, "the time for the explanation ran out"
        return Reason.NOT_APPLICABLE, trial.obstacles.most_common(1)[0][0]
    if trial.gain is None:
        return Reason.COSTLIER, f"by a bound on its cost, at {trial.places}"
    if trial.gain > _EQUAL:
        return _reason_despite_gain(trial, context)
    if trial.gain > -_EQUAL:
        return Reason.NO_GAIN, "its result costs the same"
    loss = f"{-trial.gain:,.2f} {context.unit} more at the best of {trial.places}"
    if _breaks_fusion(trial, context.start):
        return Reason.BREAKS_FUSION, f"would split a kernel that the runtime fuses: {loss}"
    return Reason.COSTLIER, loss


def _reason_despite_gain(trial: _Trial, context: ExplanationContext) -> tuple[Reason, str]:
    """Why a rule that pays on its own is not in the trace."""
    assert trial.best is not None
    if trial.substitution.rule_id in context.tried:
        return Reason.NOT_FASTER, "its predicted gain was not confirmed when the whole model was timed"
    sites = set(trial.best.sites)
    rivals = dict.fromkeys(step.equation for step in context.applied if sites.intersection(step.site))
    if rivals:
        return Reason.SUPERSEDED, f"another rule took the place: {'; '.join(list(rivals)[:2])}"
    if not sites.issubset(context.final.nodes):
        return Reason.SUPERSEDED, "other rules changed the place"
    if context.was_cut_short:
        return Reason.NOT_REACHED, "the search ended before combining it with other rules"
    return Reason.NOT_COMBINED, "it pays on its own, but not together with the rules that were used"


def _breaks_fusion(trial: _Trial, start: GraphCost) -> bool:
    """Whether a kernel of several operators is split, and there are more kernels than before."""
    assert trial.best is not None
    rewrite = apply_match(start.graph, trial.best)
    update = None if rewrite is None else start.after(rewrite)
    if update is None:
        return False
    after = update.build()
    kept = {id(priced) for priced in after.groups}
    gone = [priced for priced in start.groups if id(priced) not in kept]
    before_ids = {id(priced) for priced in start.groups}
    new = [priced for priced in after.groups if id(priced) not in before_ids]
    largest = max((len(priced.group.members) for priced in gone), default=0)
    return largest > 1 and len(new) > len(gone) and all(len(p.group.members) < largest for p in new)


def _or_worst(gain: float | None) -> float:
    return float("-inf") if gain is None else gain
