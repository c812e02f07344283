"""The trace of a search: every applied rule with its site, so that anyone can apply them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from optimizer.search.state import State
from superopt.equations import format_equation
from superopt.errors import InvalidFileError, UnprovedRuleError
from superopt.ir.graph import Graph, NodeId
from superopt.ir.terms import Direction, Equation
from superopt.rewriting import Match, Substitution, apply_match, find_matches


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One applied rule. ``equation`` reads from what was replaced to what replaced it; ``choice`` tells apart
    several matches of the rule at the same nodes."""

    rule: str
    equation: str
    backwards: bool
    site: tuple[NodeId, ...]
    choice: int
    cost_before: float
    cost_after: float


class ReplayStep(Protocol):
    """What replaying needs to know of a step; a ``TraceStep`` is one, and so is a step read from a report."""

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
        """Which of the matches at the site."""
        ...


def trace_of(state: State) -> tuple[TraceStep, ...]:
    """The steps from the start of the search to a state."""
    return tuple(_step(before, match, after) for before, match, after in state.path())


def written(substitution: Substitution) -> str:
    """The substitution as text, source first."""
    equation = Equation(
        substitution.source, substitution.target, Direction.FORWARD, substitution.conditions, name=""
    )
    return format_equation(equation)


def replay(graph: Graph, steps: Iterable[ReplayStep], rules: Iterable[Substitution]) -> Graph:
    """Applies recorded steps again, giving the same nodes the same ids.

    ``rules`` are the verified ones: raises UnprovedRuleError for a step with any other rule, InvalidFileError
    for a step that does not apply to the graph.
    """
    known = {(rule.rule_id, rule.backwards): rule for rule in rules}
    for number, step in enumerate(steps, start=1):
        substitution = known.get((step.rule, step.backwards))
        if substitution is None:
            raise UnprovedRuleError(f"step {number}: rule {step.rule} is not among the verified rules")
        rewritten = apply_step(graph, step, known)
        if rewritten is None:
            raise InvalidFileError(
                f"step {number}: rule {step.rule} does not apply at nodes {_listed(step.site)}"
            )
        graph = rewritten
    return graph


def apply_step(
    graph: Graph, step: ReplayStep, rules: Mapping[tuple[str, bool], Substitution]
) -> Graph | None:
    """The graph after one step of a known rule; None where it does not apply."""
    matches = _matches_at(graph, rules[step.rule, step.backwards], step.site)
    if step.choice >= len(matches):
        return None
    rewrite = apply_match(graph, matches[step.choice])
    return None if rewrite is None else rewrite.graph


def _step(before: State, match: Match, after: State) -> TraceStep:
    substitution = match.substitution
    choices = _matches_at(before.graph, substitution, match.sites)
    choice = next(i for i, other in enumerate(choices) if _binds_alike(other, match))
    return TraceStep(
        rule=substitution.rule_id,
        equation=written(substitution),
        backwards=substitution.backwards,
        site=match.sites,
        choice=choice,
        cost_before=before.cost.total,
        cost_after=after.cost.total,
    )


def _matches_at(graph: Graph, substitution: Substitution, site: Sequence[NodeId]) -> list[Match]:
    if not site or any(node not in graph.nodes for node in site):
        return []
    return [m for m in find_matches(graph, substitution, site[:1]) if m.sites == tuple(site)]


def _binds_alike(left: Match, right: Match) -> bool:
    return (left.values, left.attributes, left.terms, left.cuts) == (
        right.values,
        right.attributes,
        right.terms,
        right.cuts,
    )


def _listed(nodes: Iterable[NodeId]) -> str:
    return ", ".join(map(str, nodes))
