"""Minimise traces: remove steps that gain nothing, such as steps that cancel each other.

Steps are divided into components that do not depend on each other. Each component is reduced separately,
components with equal steps in the same way, and the whole is priced again; reductions that increase its cost
are discarded. What leaves no fewer operators has to gain more than prices are accurate to: a component that
adds operators, or only puts them in another order, and a single step of a component.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from superopt.ir.graph import NodeId
from superopt.ir.terms import applications
from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.cost.objective import Measuring
from superopt.optimizer.search.confirmation import surplus
from superopt.optimizer.search.recording import Recorded, graph_with
from superopt.optimizer.search.trace import TraceStep, recorded, with_steps
from superopt.rewriting import Substitution

MAX_STEPS = 500
_SHORT = 32
"""Number of steps of a component up to which the removal of each is tried; in a longer one only of those that
may gain nothing, since its time is quadratic in them."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """A graph and the trace that leads to it."""

    cost: GraphCost
    trace: tuple[TraceStep, ...]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Which steps of a component stay, and by how much the graph may be dearer without the others."""

    stays: tuple[bool, ...]
    dearer: float


def minimised(
    start: GraphCost,
    found: Shortened,
    rules: Iterable[Substitution],
    may_go_on: Callable[[], bool] = lambda: True,
) -> Shortened:
    """The trace without the steps that can be removed without increasing the final cost, but for noise of
    prices where they add operators or reorder them. A trace of more than ``MAX_STEPS`` is returned unchanged,
    because it would have to be replayed several times. ``may_go_on`` is checked between attempts; if it is
    false, the result so far is returned."""
    if len(found.trace) > MAX_STEPS:
        return found
    records = recorded(start.graph, found.trace, rules)
    kept, outcomes = set(range(len(records))), dict[tuple[object, ...], _Outcome]()
    allowed = 0.0
    for component in components(records):
        if not may_go_on():
            break
        likeness = tuple(_likeness(found.trace[i]) for i in component)
        if likeness not in outcomes:
            tried = removable(found.trace, records, component)
            needed, dearer = kept_of(start, records, component, tried, may_go_on)
            outcomes[likeness] = _Outcome(tuple(index in needed for index in component), dearer)
        outcome = outcomes[likeness]
        allowed += outcome.dearer
        kept.difference_update(i for i, stays in zip(component, outcome.stays, strict=True) if not stays)
    if len(kept) == len(records):
        return found
    shorter = Shortened(*with_steps(start, records, sorted(kept)))
    return shorter if shorter.cost.total <= found.cost.total + allowed else found


def components(records: Sequence[Recorded]) -> list[list[int]]:
    """Indices of the records in independent components, each in order."""
    group = list(range(len(records)))

    def leader(index: int) -> int:
        while group[index] != index:
            group[index] = group[group[index]]
            index = group[index]
        return index

    maker: dict[NodeId, int] = {}
    for index, step in enumerate(records):
        for node in step.match.sites:
            if node in maker:
                group[leader(index)] = leader(maker[node])
        for node in step.made:
            maker[node] = index
    found: dict[int, list[int]] = {}
    for index in range(len(records)):
        found.setdefault(leader(index), []).append(index)
    return list(found.values())


def kept_of(
    start: GraphCost,
    records: Sequence[Recorded],
    component: Sequence[int],
    tried: Container[int],
    may_go_on: Callable[[], bool],
) -> tuple[frozenset[int], float]:
    """The steps of a component that its gain requires, and by how much the graph may be dearer with these
    alone, within the noise of prices. Those to be tried are removed one at a time, as long as one can go."""
    current, applied = graph_with(start, records, component)
    noise = noise_of(start, current, records, component)
    if current.total >= start.total - noise:
        return frozenset(), noise
    needed, dearer = list(applied), 0.0
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for index in needed[::-1]:
            if index not in tried or index not in needed or not may_go_on():
                continue
            without, applied = graph_with(start, records, [i for i in needed if i != index])
            is_idle = without.total <= current.total
            if is_idle or (
                _is_lateral(records[index].match.substitution) and _is_within_noise(current, without)
            ):
                dearer += max(0.0, without.total - current.total)
                needed, current, is_shorter = list(applied), without, True
    return frozenset(needed), dearer


def noise_of(
    start: GraphCost, after: GraphCost, records: Sequence[Recorded], component: Sequence[int]
) -> float:
    """The gain up to which a component that adds operators, or only puts them in another order, may gain
    nothing: the noise of measured prices of what it rewrites."""
    steps = [records[index].match for index in component]
    if not isinstance(start.objective, Measuring) or not (
        len(after.owner) > len(start.owner) or _reorders(step.substitution for step in steps)
    ):
        return 0.0
    return start.objective.noise * start.price_of(site for step in steps for site in step.sites)


def _reorders(rules: Iterable[Substitution]) -> bool:
    """Whether rules have the same operators on both sides, taken together."""
    balance = Counter[str]()
    for rule in rules:
        balance.update(term.operator for term in applications(*rule.target))
        balance.subtract(term.operator for term in applications(*rule.source))
    return not any(balance.values())


def _is_within_noise(with_step: GraphCost, without: GraphCost) -> bool:
    """Whether a graph is dearer without a step by no more than the noise of the prices of what the step
    changed, and does not execute more operators."""
    objective = with_step.objective
    if not isinstance(objective, Measuring) or len(without.owner) > len(with_step.owner):
        return False
    made = surplus(with_step, without)
    price = sum(count * objective.price(kernel).cost for kernel, count in made.items())
    return without.total - with_step.total <= objective.noise * price


def _is_lateral(rule: Substitution) -> bool:
    """Whether the rule has no fewer operators in the target than in the source."""
    return len(set(applications(*rule.target))) >= len(set(applications(*rule.source)))


def removable(
    trace: Sequence[TraceStep], records: Sequence[Recorded], component: Sequence[int]
) -> frozenset[int]:
    """The steps of a component whose removal may leave the cost as it is: all of a short one; in a long one
    those that did not lower the cost when they were applied, or left no fewer operators."""
    is_short = len(component) <= _SHORT
    return frozenset(
        i
        for i in component
        if is_short
        or trace[i].cost_after >= trace[i].cost_before
        or _is_lateral(records[i].match.substitution)
    )


def _likeness(step: TraceStep) -> tuple[object, ...]:
    return step.rule, step.backwards, step.choice, step.cost_before - step.cost_after
