"""Prefer the more accurate of rules that are about equally fast, where rules round differently."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from superopt.ir.graph import NodeId
from superopt.ir.terms import Term
from superopt.ops.bilinear.amplification import amplification
from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.cost.objective import NOISE
from superopt.optimizer.search.minimise import Shortened
from superopt.optimizer.search.recording import matches_at
from superopt.optimizer.search.trace import TraceStep, step_of
from superopt.rewriting import Substitution, apply_match

_Known: TypeAlias = "Mapping[tuple[str, bool], Substitution]"
_Alternatives: TypeAlias = "Mapping[tuple[Term, ...], Sequence[Substitution]]"


@lru_cache(maxsize=4096)
def error_of(substitution: Substitution) -> float:
    """Rounding errors of the target relative to those of the definition; 1 for a rule that is computed as
    exactly as its source."""
    return amplification(substitution.target)


def more_accurate(
    start: GraphCost,
    found: Shortened,
    rules: Iterable[Substitution],
    may_go_on: Callable[[], bool] = lambda: True,
) -> Shortened:
    """The trace with more accurate rules in place of those with larger rounding errors, where the graph costs
    about the same: more by at most ``NOISE`` of the kernel that a step makes. ``may_go_on`` is checked
    between attempts."""
    known = {(rule.rule_id, rule.backwards): rule for rule in rules}
    alternatives = _alternatives(known.values())
    for index, step in enumerate(found.trace):
        rule = known[step.rule, step.backwards]
        for other in alternatives.get(rule.source, ()):
            if error_of(other) >= error_of(rule) or not may_go_on():
                break
            trace = list(found.trace)
            trace[index] = _with_rule(step, other)
            replaced = _replayed(start, trace, known, index)
            if replaced is not None and replaced.shortened.cost.total <= found.cost.total + replaced.noise:
                found = replaced.shortened
                break
    return found


def with_smaller_errors(
    start: GraphCost,
    found: Shortened,
    rules: Iterable[Substitution],
    limit: float,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Shortened | None:
    """The trace with the cheapest rule whose rounding errors are below the limit in place of each rule whose
    errors are not. None where there is no such rule for a step, where a step is by none of the rules, where
    nothing is gained then, and where ``may_go_on`` is false, which is checked at each step."""
    known = {(rule.rule_id, rule.backwards): rule for rule in rules}
    alternatives = _alternatives(known.values())
    done = Shortened(start, ())
    for step in found.trace:
        rule = known.get((step.rule, step.backwards))
        if rule is None:
            return None
        others = [other for other in alternatives.get(rule.source, ()) if error_of(other) < limit]
        tried = [rule] if error_of(rule) < limit else others
        results = [_applied(done, _with_rule(step, each), known) for each in tried if may_go_on()]
        applied = [longer for longer, _ in filter(None, results)]
        if not applied:
            return None
        done = min(applied, key=lambda each: each.cost.total)
    return done if done.cost.total < start.total else None


@dataclass(frozen=True, slots=True)
class _Replayed:
    """A graph, its trace, and how much of its cost is noise of the kernels that one of the steps makes."""

    shortened: Shortened
    noise: float


def _alternatives(rules: Iterable[Substitution]) -> _Alternatives:
    """The rules that round more than their source, by source, the most accurate first."""
    found: dict[tuple[Term, ...], list[Substitution]] = defaultdict(list)
    for rule in rules:
        if error_of(rule) > 1:
            found[rule.source].append(rule)
    return {source: sorted(group, key=error_of) for source, group in found.items()}


def _with_rule(step: TraceStep, rule: Substitution) -> TraceStep:
    """The step by another rule at the same place."""
    return replace(step, rule=rule.rule_id, backwards=rule.backwards)


def _replayed(start: GraphCost, trace: Sequence[TraceStep], known: _Known, changed: int) -> _Replayed | None:
    """The steps applied again at the same nodes; None where one does not apply."""
    done, made = Shortened(start, ()), frozenset[NodeId]()
    for index, step in enumerate(trace):
        applied = _applied(done, step, known)
        if applied is None:
            return None
        done, added = applied
        if index == changed:
            made = added
    return _Replayed(done, NOISE * done.cost.price_of(made))


def _applied(done: Shortened, step: TraceStep, known: _Known) -> tuple[Shortened, frozenset[NodeId]] | None:
    """One step more, at the same nodes, and the nodes that it makes; None where it does not apply."""
    matches = matches_at(done.cost.graph, known[step.rule, step.backwards], step.site)
    rewrite = apply_match(done.cost.graph, matches[step.choice]) if step.choice < len(matches) else None
    update = None if rewrite is None else done.cost.after(rewrite)
    if rewrite is None or update is None:
        return None
    after = update.build()
    again = step_of(done.cost, matches[step.choice], after)
    return Shortened(after, (*done.trace, again)), frozenset(rewrite.added)


__all__ = ["error_of", "more_accurate", "with_smaller_errors"]
