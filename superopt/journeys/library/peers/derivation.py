"""Derivability of a rule from the library by bidirectional rewriting of its sides.

Both sides are graphs of one typing. The library's rules are applied to each, breadth first, in every
direction that is a valid rewrite, until the sides meet. A rule is derivable if its sides meet under several
typings, with symbolic sizes if possible. For a rule known to hold this gives a derivation; otherwise it
proves nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from superopt.equations import rule_id
from superopt.errors import IllTypedError
from superopt.instances.instance import Instance
from superopt.instances.sampler import InstanceSampler
from superopt.instances.schemes import Scheme
from superopt.ir.graph import Graph
from superopt.ir.terms import Direction, Equation
from superopt.journeys.library.peers.forms import Form, Forms, graph_of
from superopt.ops.traits import graph_name
from superopt.rewriting import Substitution, apply_match, find_matches, substitutions_of
from superopt.verifier.seeds import seed_of

_SEED = 21


@dataclass(frozen=True, slots=True)
class Derivation:
    """``steps`` from one side to the other; ``instance``: one rule application at the root suffices."""

    steps: int
    instance: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a search: steps, graphs expanded per side, and nodes by which a graph may exceed the larger
    side. The sides must meet under ``typings`` typings of the rule.
    """

    steps: int = 3
    graphs: int = 60
    slack: int = 2
    typings: int = 3


class Library:
    """Verified rules in every valid direction, indexed by root operator."""

    def __init__(self, equations: Iterable[Equation]) -> None:
        self._by_operator: dict[str, list[Substitution]] = {}
        self._ids: set[str] = set()
        for equation in equations:
            both = replace(equation, direction=Direction.BOTH)
            self._ids.update((rule_id(both), rule_id(replace(equation, direction=Direction.FORWARD))))
            for substitution in substitutions_of(both, rule_id(equation)):
                name = graph_name(substitution.roots[0].operator)
                self._by_operator.setdefault(name, []).append(substitution)

    def has(self, equation: Equation) -> bool:
        """Whether the library contains the rule in some direction, up to renaming of variables."""
        return rule_id(equation) in self._ids

    def neighbours(self, graph: Graph, largest: int) -> Iterator[tuple[Graph, bool]]:
        """The graphs of at most that many nodes after one rewrite, and whether it replaced all outputs."""
        for name in sorted({node.operator.name for node in graph}):
            for substitution in self._by_operator.get(name, ()):
                for match in find_matches(graph, substitution):
                    rewrite = apply_match(graph, match)
                    if rewrite is not None and len(rewrite.graph) <= largest:
                        whole = match.window is None and set(match.outputs) == set(graph.outputs)
                        yield rewrite.graph, whole


def derive(equation: Equation, library: Library, bounds: Bounds) -> Derivation | None:
    """The derivation of the rule from the library; None if not found within the bounds.

    ``steps`` is the maximum over typings.
    """
    found: list[Derivation] = []
    for instance in _typings(equation, bounds.typings):
        derivation = derive_at(equation, instance, library, bounds)
        if derivation is None:
            return None
        found.append(derivation)
    if not found:
        return None
    return Derivation(max(each.steps for each in found), all(each.instance for each in found))


def derive_at(equation: Equation, instance: Instance, library: Library, bounds: Bounds) -> Derivation | None:
    """``derive`` under one typing; valid for all sizes if these are symbols."""
    try:
        source, target = (
            graph_of(side, instance.typing, instance.types) for side in (equation.left, equation.right)
        )
    except IllTypedError:
        return None
    return _Search(source, target, library, bounds).run()


class _Side:
    """Graphs reached from one side: every form with its distance, and the frontier."""

    def __init__(self, start: Graph, form: Form, graphs: int) -> None:
        self.distance: dict[Form, int] = {form: 0}
        self.level: dict[Form, Graph] = {form: start}
        self.left = graphs


class _Search:
    """Bidirectional search. Rewrites need not be reversible, so one side may have to reach the other."""

    def __init__(self, source: Graph, target: Graph, library: Library, bounds: Bounds) -> None:
        self._forms = Forms()
        self._library = library
        self._bounds = bounds
        self._largest = max(len(source), len(target)) + bounds.slack
        self._source = source
        self._goal = self._forms.of(target)
        self._sides = (
            _Side(source, self._forms.of(source), bounds.graphs),
            _Side(target, self._goal, bounds.graphs),
        )

    def run(self) -> Derivation | None:
        if self._goal in self._sides[0].distance:
            return Derivation(0, instance=False)
        if self._bounds.steps and self._is_instance():
            return Derivation(1, instance=True)
        best = self._bounds.steps + 1
        for steps in range(1, self._bounds.steps + 1):
            for side, other in (self._sides, self._sides[::-1]):
                if best > steps:
                    best = min(best, self._expand(side, other, steps))
            if best <= steps:
                return Derivation(best, instance=False)
        return None

    def _is_instance(self) -> bool:
        return any(
            whole and self._forms.of(graph) == self._goal
            for graph, whole in self._library.neighbours(self._source, self._largest)
        )

    def _expand(self, side: _Side, other: _Side, distance: int) -> int:
        """Expands one level; returns the fewest steps in which the sides meet."""
        found: dict[Form, Graph] = {}
        best = self._bounds.steps + 1
        for graph in side.level.values():
            if not side.left:
                break
            side.left -= 1
            for reached, _ in self._library.neighbours(graph, self._largest):
                form = self._forms.of(reached)
                if form in side.distance:
                    continue
                side.distance[form] = distance
                found[form] = reached
                best = min(best, distance + other.distance.get(form, best))
                if best == distance:
                    return best
        side.level = found
        return best


def _typings(equation: Equation, count: int) -> Iterator[Instance]:
    """Typings of the rule that differ in more than sizes; their sizes are symbols where that is possible."""
    sampler = InstanceSampler(equation, seed_of(equation, _SEED))
    for scheme in itertools.islice(_schemes(sampler, 3 * count), count):
        symbolic = sampler.symbolic(scheme)
        yield from itertools.islice(sampler.concrete(scheme, 1), 1) if symbolic is None else (symbolic,)


def _schemes(sampler: InstanceSampler, tries: int) -> Iterator[Scheme]:
    met: set[object] = set()
    for scheme in sampler.schemes(tries):
        if scheme.kind not in met:
            met.add(scheme.kind)
            yield scheme
