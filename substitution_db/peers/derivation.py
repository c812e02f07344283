"""Whether a rule follows from the library by rewriting its own two sides, and in how many steps.

Both sides are graphs of one typing. From each, graphs are reached by applying the library's rules, in every
direction that can be a rewrite; they meet in as few steps as there are (breadth first from both ends). A rule
follows when its sides meet under several typings, whose sizes are symbols where that is possible.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from substitution_db.peers.forms import Form, Forms, graph_of
from superopt.equations import rule_id
from superopt.errors import IllTypedError
from superopt.ir.graph import Graph
from superopt.ir.terms import Direction, Equation
from superopt.rewriting import Substitution, apply_match, find_matches, substitutions_of
from verifier.instances import Instance, InstanceSampler
from verifier.schemes import Scheme
from verifier.seeds import seed_of

Level: TypeAlias = "dict[Form, Graph]"

_HALVES = ("split0", "split1")
_SEED = 21


@dataclass(frozen=True, slots=True)
class Derivation:
    """``steps`` from one side to the other; ``instance`` when one rule with the whole source does it."""

    steps: int
    instance: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a search may cost: steps, graphs whose neighbours are looked at, and how much larger than the
    larger side a graph may get, in nodes. Under ``typings`` typings of the rule the sides must meet.
    """

    steps: int = 3
    graphs: int = 60
    slack: int = 2
    typings: int = 2


class Library:
    """Verified rules, in every direction that can be a rewrite, by the operator at their root."""

    def __init__(self, equations: Iterable[Equation]) -> None:
        self._by_operator: dict[str, list[Substitution]] = {}
        self._ids: set[str] = set()
        for equation in equations:
            both = replace(equation, direction=Direction.BOTH)
            self._ids.update((rule_id(both), rule_id(replace(equation, direction=Direction.FORWARD))))
            for substitution in substitutions_of(both, rule_id(equation)):
                name = substitution.roots[0].operator
                self._by_operator.setdefault("split" if name in _HALVES else name, []).append(substitution)

    def has(self, equation: Equation) -> bool:
        """Whether the rule is there, in one direction or in both, whatever its variables are called."""
        return rule_id(equation) in self._ids

    def neighbours(self, graph: Graph, largest: int) -> Iterator[tuple[Graph, bool]]:
        """The graphs of at most that many nodes that one rewrite gives, and if it replaced all outputs."""
        for name in sorted({node.operator.name for node in graph}):
            for substitution in self._by_operator.get(name, ()):
                for match in find_matches(graph, substitution):
                    rewrite = apply_match(graph, match)
                    if rewrite is not None and len(rewrite.graph) <= largest:
                        whole = match.window is None and set(match.outputs) == set(graph.outputs)
                        yield rewrite.graph, whole


def derive(equation: Equation, library: Library, bounds: Bounds) -> Derivation | None:
    """How the rule follows from the library; None where it does not within the bounds.

    The steps are those under the typing that needs most.
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
    """``derive`` under one typing, for all sizes if these are symbols."""
    try:
        source, target = (
            graph_of(side, instance.typing, instance.types) for side in (equation.left, equation.right)
        )
    except IllTypedError:
        return None
    return _Search(source, target, library, bounds).run()


class _Search:
    def __init__(self, source: Graph, target: Graph, library: Library, bounds: Bounds) -> None:
        self._forms = Forms()
        self._library = library
        self._bounds = bounds
        self._largest = max(len(source), len(target)) + bounds.slack
        self._left = bounds.graphs
        self._start, self._goal = source, target
        self._ahead: Level = {self._forms.of(source): source}
        self._behind: Level = {self._forms.of(target): target}

    def run(self) -> Derivation | None:
        if not self._ahead.keys().isdisjoint(self._behind):
            return Derivation(0, instance=False)
        if self._bounds.steps and self._is_instance():
            return Derivation(1, instance=True)
        front, back = dict(self._ahead), dict(self._behind)
        for step in range(1, self._bounds.steps + 1):
            if len(front) <= len(back):
                front = self._expanded(front, self._ahead, self._behind)
                met = not front.keys().isdisjoint(self._behind)
            else:
                back = self._expanded(back, self._behind, self._ahead)
                met = not back.keys().isdisjoint(self._ahead)
            if met:
                return Derivation(step, instance=False)
        return None

    def _is_instance(self) -> bool:
        (goal,) = self._behind
        for graph, whole in self._library.neighbours(self._start, self._largest):
            if whole and self._forms.of(graph) == goal:
                return True
        return False

    def _expanded(self, frontier: Level, known: Level, others: Level) -> Level:
        found: Level = {}
        for graph in frontier.values():
            if not self._left:
                break
            self._left -= 1
            for other, _ in self._library.neighbours(graph, self._largest):
                form = self._forms.of(other)
                if form not in known:
                    known[form] = found[form] = other
                    if form in others:
                        return found
        return found


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
