"""Bidirectional search for a derivation of one equation under one typing, by rewriting of graphs.

Known equations are applied to the source, breadth first; to the target their inverses are, until the sides
meet; and those known equations that make the target smaller (see the package's docstring).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from superopt.ir.graph import Graph
from superopt.ir.terms import Direction, Equation
from superopt.ops.traits import graph_name
from superopt.rewriting.application import apply_match
from superopt.rewriting.derivability.forms import Form, Forms
from superopt.rewriting.derivability.questions import tree_size
from superopt.rewriting.matching import find_matches
from superopt.rewriting.substitution import Substitution, substitutions_of


@dataclass(frozen=True, slots=True)
class Derivation:
    """``steps`` from one side to the other; ``instance``: one rule application at the root suffices."""

    steps: int
    instance: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a search: steps, graphs expanded per side, and nodes by which a graph may exceed the larger
    side."""

    steps: int = 3
    graphs: int = 60
    slack: int = 2


@dataclass(frozen=True, slots=True)
class Steps:
    """Substitutions indexed by root operator."""

    by_operator: dict[str, list[Substitution]] = field(default_factory=dict[str, list[Substitution]])

    def add(self, substitution: Substitution) -> None:
        """Adds a substitution."""
        name = graph_name(substitution.roots[0].operator)
        self.by_operator.setdefault(name, []).append(substitution)

    def from_graph(self, graph: Graph, largest: int) -> Iterator[tuple[Graph, bool]]:
        """The graphs of at most that many nodes after one rewrite, and whether it replaced all outputs."""
        for name in sorted({node.operator.name for node in graph}):
            for substitution in self.by_operator.get(name, ()):
                for match in find_matches(graph, substitution):
                    rewrite = apply_match(graph, match)
                    if rewrite is not None and len(rewrite.graph) <= largest:
                        whole = match.window is None and set(match.outputs) == set(graph.outputs)
                        yield rewrite.graph, whole


@dataclass(slots=True)
class Tables:
    """Known equations as steps ``ahead`` from a source and ``behind`` a target.

    ``shrinking`` are those ahead of equations with one direction whose target is smaller, as trees, than the
    source. They are steps of single targets as well: what replaces a target wherever it can is found there.
    """

    ahead: Steps = field(default_factory=Steps)
    behind: Steps = field(default_factory=Steps)
    shrinking: Steps = field(default_factory=Steps)
    symmetric: bool = True
    """Whether every equation has both directions, so that one search answers for both."""

    def add(self, equation: Equation) -> None:
        """Adds an equation. Raises InvalidEquationError where no direction is a valid rewrite."""
        one_way = equation.direction is Direction.FORWARD
        self.symmetric &= not one_way
        shrinks = one_way and tree_size(*equation.right) < tree_size(*equation.left)
        for substitution in substitutions_of(replace(equation, direction=Direction.BOTH), equation.name):
            if not one_way or substitution.backwards:
                self.behind.add(substitution)
            if not one_way or not substitution.backwards:
                self.ahead.add(substitution)
            if shrinks and not substitution.backwards:
                self.shrinking.add(substitution)

    def search(self, source: Graph, target: Graph, bounds: Bounds) -> Derivation | None:
        """The fewest steps from source to target; None if none are found within the bounds."""
        return _Search(source, target, self, bounds).run()


class _Side:
    """Graphs reached from one side: every form with its distance, and the frontier."""

    def __init__(self, start: Graph, form: Form, steps: tuple[Steps, ...], graphs: int) -> None:
        self.distance: dict[Form, int] = {form: 0}
        self.level: dict[Form, Graph] = {form: start}
        self.steps = steps
        self.left = graphs


class _Search:
    def __init__(self, source: Graph, target: Graph, tables: Tables, bounds: Bounds) -> None:
        self._forms = Forms()
        self._bounds = bounds
        self._largest = max(len(source), len(target)) + bounds.slack
        self._source = source
        self._instance = False
        self._goal = self._forms.of(target)
        behind = (tables.behind, tables.shrinking) if len(target.outputs) == 1 else (tables.behind,)
        self._sides = (
            _Side(source, self._forms.of(source), (tables.ahead,), bounds.graphs),
            _Side(target, self._goal, behind, bounds.graphs),
        )

    def run(self) -> Derivation | None:
        if self._goal in self._sides[0].distance:
            return Derivation(0, instance=False)
        best = self._bounds.steps + 1
        for steps in range(1, self._bounds.steps + 1):
            for side, other in (self._sides, self._sides[::-1]):
                if best > steps:
                    best = min(best, self._expand(side, other, steps))
            if best <= steps:
                return Derivation(best, self._instance)
        return None

    def _expand(self, side: _Side, other: _Side, distance: int) -> int:
        """Expands one level; returns the fewest steps in which the sides meet."""
        found: dict[Form, Graph] = {}
        best = self._bounds.steps + 1
        for graph in side.level.values():
            if not side.left:
                break
            side.left -= 1
            for steps in side.steps:
                for reached, whole in steps.from_graph(graph, self._largest):
                    form = self._forms.of(reached)
                    if whole and graph is self._source and form == self._goal:
                        self._instance = True
                        return 1
                    if form in side.distance:
                        continue
                    side.distance[form] = distance
                    found[form] = reached
                    best = min(best, distance + other.distance.get(form, best))
                    if 1 < best == distance:
                        return best
        side.level = found
        return best
