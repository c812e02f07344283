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
            replaced = _replaced(start, found.trace, known, index, other)
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
    errors are not. None where there is no such rule for a step, where nothing is gained then, and where
    ``may_go_on`` is false, which is checked between attempts."""
    known = {(rule.rule_id, rule.backwards): rule for rule in rules}
    alternatives = _alternatives(known.values())
    for index, step in enumerate(found.trace):
        rule = known[step.rule, step.backwards]
        if error_of(rule) < limit:
            continue
        cheapest: Shortened | None = None
        for other in alternatives.get(rule.source, ()):
            if not may_go_on():
                return None
            replaced = _replaced(start, found.trace, known, index, other) if error_of(other) < limit else None
            if replaced is None:
                continue
            if cheapest is None or replaced.shortened.cost.total < cheapest.cost.total:
                cheapest = replaced.shortened
        if cheapest is None:
            return None
        found = cheapest
    return found if found.cost.total < start.total else None


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


def _replaced(
    start: GraphCost, trace: Sequence[TraceStep], known: _Known, index: int, other: Substitution
) -> _Replayed | None:
    """The trace with another rule in one step, at the same place; None where a step does not apply then."""
    steps = list(trace)
    steps[index] = replace(steps[index], rule=other.rule_id, backwards=other.backwards)
    return _replayed(start, steps, known, index)


def _replayed(start: GraphCost, trace: Sequence[TraceStep], known: _Known, changed: int) -> _Replayed | None:
    """The steps applied again at the same nodes; None where one does not apply."""
    cost, steps, made = start, list[TraceStep](), frozenset[NodeId]()
    for index, step in enumerate(trace):
        matches = matches_at(cost.graph, known[step.rule, step.backwards], step.site)
        rewrite = apply_match(cost.graph, matches[step.choice]) if step.choice < len(matches) else None
        update = None if rewrite is None else cost.after(rewrite)
        if rewrite is None or update is None:
            return None
        if index == changed:
            made = frozenset(rewrite.added)
        after = update.build()
        steps.append(step_of(cost, matches[step.choice], after))
        cost = after
    return _Replayed(Shortened(cost, tuple(steps)), NOISE * cost.price_of(made))


__all__ = ["error_of", "more_accurate", "with_smaller_errors"]
