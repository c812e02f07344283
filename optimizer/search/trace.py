"""Search trace: every applied rule with its site, so that the steps can be replayed."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from superopt.equations import format_equation
from superopt.errors import InvalidFileError, UnprovedRuleError
from superopt.ir.graph import Graph, NodeId
from superopt.ir.terms import Direction, Equation
from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.search.recording import Recorded, StepRelocation, matches_at
from superopt.optimizer.search.state import State
from superopt.rewriting import Match, Rewrite, Substitution, apply_match

_Known: TypeAlias = "Mapping[tuple[str, bool], Substitution]"


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One applied rule. ``equation`` reads from source to target; ``choice`` distinguishes several matches of
    the rule at the same nodes."""

    rule: str
    equation: str
    backwards: bool
    site: tuple[NodeId, ...]
    choice: int
    cost_before: float
    cost_after: float

    def to_json(self) -> dict[str, object]:
        """The step in the report's format."""
        return {
            "kind": "rule",
            "rule": self.rule,
            "equation": self.equation,
            "backwards": self.backwards,
            "site": list(self.site),
            "choice": self.choice,
            "cost_before": self.cost_before,
            "cost_after": self.cost_after,
        }


class ReplayStep(Protocol):
    """The part of a step that replay needs; implemented by ``TraceStep`` and by steps read from a report."""

    @property
    def rule(self) -> str:
        """The rule's id."""
        ...

    @property
    def backwards(self) -> bool:
        """Whether the equation was used from right to left."""
        ...

    @property
    def site(self) -> tuple[NodeId, ...]:
        """The matched nodes, roots first."""
        ...

    @property
    def choice(self) -> int:
        """Index among the matches at the site."""
        ...


def trace_of(state: State) -> tuple[TraceStep, ...]:
    """The steps from the initial state to this one."""
    return tuple(step_of(before.cost, match, after.cost) for before, match, after in state.path())


def written(substitution: Substitution) -> str:
    """The substitution as text, source first."""
    equation = Equation(
        substitution.source, substitution.target, Direction.FORWARD, substitution.conditions, name=""
    )
    return format_equation(equation)


def replay(graph: Graph, steps: Iterable[ReplayStep], rules: Iterable[Substitution]) -> Graph:
    """Applies recorded steps again, with the same node ids. ``rules`` are the verified ones: raises
    UnprovedRuleError for a step with any other rule, InvalidFileError for a step that does not apply to the
    graph."""
    replayed = graph
    for _, after in _replayed(graph, steps, rules):
        replayed = after
    return replayed


def retraced(
    graph: Graph,
    steps: Sequence[ReplayStep],
    rules: Iterable[Substitution],
    price: Callable[[Graph], float | None],
) -> tuple[Graph, tuple[TraceStep, ...]]:
    """Like ``replay``, with the trace at other prices; a graph without a price costs as much as its
    predecessor."""
    before = (price(graph) if steps else None) or 0.0
    trace: list[TraceStep] = []
    for step, (equation, after) in zip(steps, _replayed(graph, steps, rules), strict=True):
        found = price(after)
        cost = before if found is None else found
        trace.append(TraceStep(step.rule, equation, step.backwards, step.site, step.choice, before, cost))
        graph, before = after, cost
    return graph, tuple(trace)


def _replayed(
    graph: Graph, steps: Iterable[ReplayStep], rules: Iterable[Substitution]
) -> Iterator[tuple[str, Graph]]:
    """The rewrites and resulting graphs of the steps."""
    known = {(rule.rule_id, rule.backwards): rule for rule in rules}
    for number, step in enumerate(steps, start=1):
        substitution = known.get((step.rule, step.backwards))
        if substitution is None:
            raise UnprovedRuleError(f"step {number}: rule {step.rule} is not among the verified rules")
        rewrite = _rewrite_of(graph, step, known)
        if rewrite is None:
            nodes = ", ".join(map(str, step.site))
            raise InvalidFileError(f"step {number}: rule {step.rule} does not apply at nodes {nodes}")
        graph = rewrite.graph
        yield written(substitution), graph


def without_rules(
    start: GraphCost,
    steps: Sequence[ReplayStep],
    rules: Iterable[Substitution],
    dropped: Container[str],
) -> tuple[GraphCost, tuple[TraceStep, ...]]:
    """The graph and the trace without the steps of some rules and the steps that depend on them. Added nodes
    get other ids; later steps are applied at the corresponding nodes."""
    records = recorded(start.graph, steps, rules)
    kept = [i for i, step in enumerate(steps) if step.rule not in dropped]
    return with_steps(start, records, kept)


def with_steps(
    start: GraphCost, records: Sequence[Recorded], kept: Iterable[int]
) -> tuple[GraphCost, tuple[TraceStep, ...]]:
    """The graph and the trace with only some recorded steps, as far as these apply."""
    relocation = StepRelocation(start)
    wanted, trace = frozenset(kept), list[TraceStep]()
    for index, step in enumerate(records):
        before = relocation.cost
        if index not in wanted:
            relocation.leave_out(step)
            continue
        applied = relocation.apply(step)
        if applied is not None:
            match, after = applied
            trace.append(step_of(before, match, after))
    return relocation.cost, tuple(trace)


def recorded(
    graph: Graph, steps: Iterable[ReplayStep], rules: Iterable[Substitution]
) -> tuple[Recorded, ...]:
    """The rewrites of a trace; the trace must apply to the graph."""
    known = {(rule.rule_id, rule.backwards): rule for rule in rules}
    records: list[Recorded] = []
    for step in steps:
        match = _match_of(graph, step, known)
        rewrite = None if match is None else apply_match(graph, match)
        assert match is not None, "a trace applies to the graph that it was found on"
        assert rewrite is not None, "a trace applies to the graph that it was found on"
        records.append(Recorded.of(match, rewrite))
        graph = rewrite.graph
    return tuple(records)


def step_of(before: GraphCost, match: Match, after: GraphCost) -> TraceStep:
    """The step from one graph to the next."""
    step = step_at(before.graph, match)
    assert step is not None, "the match was found in that graph"
    return replace(step, cost_before=before.total, cost_after=after.total)


def step_at(graph: Graph, match: Match) -> TraceStep | None:
    """The step for a match in a graph, without costs; None if the match is not found at its site."""
    substitution = match.substitution
    choices = matches_at(graph, substitution, match.sites)
    choice = next((i for i, other in enumerate(choices) if other == match), None)
    if choice is None:
        return None
    return TraceStep(
        rule=substitution.rule_id,
        equation=written(substitution),
        backwards=substitution.backwards,
        site=match.sites,
        choice=choice,
        cost_before=0.0,
        cost_after=0.0,
    )


def _rewrite_of(graph: Graph, step: ReplayStep, rules: _Known) -> Rewrite | None:
    match = _match_of(graph, step, rules)
    return None if match is None else apply_match(graph, match)


def _match_of(graph: Graph, step: ReplayStep, rules: _Known) -> Match | None:
    matches = matches_at(graph, rules[step.rule, step.backwards], step.site)
    return matches[step.choice] if step.choice < len(matches) else None
