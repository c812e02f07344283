"""Extraction of certificates from axiom instances: shortest chains in a congruence closure.

Terms are the nodes of a graph. An instance of an axiom is an edge of length 1, in the directions in which it
preserves definedness. Two applications of one operator are joined by an edge with a length that is the sum of
the distances of their inputs. These edges are those of a proof forest (Nieuwenhuis and Oliveras,
"Proof-producing congruence closure", 2005), but all of them are kept instead of a spanning tree, and
distances are relaxed to a fixed point, so that chains have no detours (compare Flatt et al., "Small proofs
from congruence closure", 2022).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np

from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Direction,
    Equation,
    Term,
    Variable,
    subterms,
)
from superopt.ops.terms import instantiate
from superopt.verifier.certificates.certificate import Certificate, Link
from superopt.verifier.certificates.definedness import why_undefined
from superopt.verifier.prove.solver import AxiomInstance

MOST_TERMS = 400
"""Maximum number of distinct terms to explain, because the time grows with the third power."""

MOST_LINKS = 2000
_FAR = np.int64(1) << 40


@dataclass(frozen=True, slots=True)
class _Edge:
    """An axiom instance as an edge from one term to another."""

    step: AxiomInstance
    output: int
    backwards: bool


def explain(
    goal: Equation, axioms: Mapping[str, Equation], steps: Sequence[AxiomInstance]
) -> Certificate | None:
    """Return chains of the steps from left to right for each output; None if the steps do not connect a pair.

    Each link replaces a single subterm: equal subterms take one link each.
    """
    graph = _TermGraph(goal)
    for step in steps:
        graph.add(step, axioms[step.axiom])
    if len(graph.terms) > MOST_TERMS:
        return None
    graph.relax()
    chains: list[tuple[Link, ...]] = []
    for left, right in zip(goal.left, goal.right, strict=True):
        if graph.distance(left, right) > MOST_LINKS:
            return None
        chains.append(graph.chain(left, right))
    return Certificate(tuple(chains))


class _TermGraph:
    """The terms of a goal and of axiom instances, with the distances between them."""

    def __init__(self, goal: Equation) -> None:
        self.terms: dict[Term, int] = {}
        self._edges: dict[tuple[int, int], _Edge] = {}
        self._one_way = goal.direction is Direction.FORWARD
        self._register(*goal.terms)

    def add(self, step: AxiomInstance, axiom: Equation) -> None:
        """Add an edge for each pair of terms of the axiom's instance."""
        terms, attributes = dict(step.terms), dict(step.attributes)
        for output, sides in enumerate(zip(axiom.left, axiom.right, strict=True)):
            left, right = (instantiate(side, terms, attributes) for side in sides)
            self._register(left, right)
            a, b = self.terms[left], self.terms[right]
            if a == b:
                continue
            if self._keeps(step, axiom, backwards=False):
                self._edges.setdefault((a, b), _Edge(step, output, backwards=False))
            if self._keeps(step, axiom, backwards=True):
                self._edges.setdefault((b, a), _Edge(step, output, backwards=True))

    def _keeps(self, step: AxiomInstance, axiom: Equation, *, backwards: bool) -> bool:
        """Whether a link in this direction preserves definedness, and its inverse too if the goal claims both
        directions."""
        ways = (backwards,) if self._one_way else (backwards, not backwards)
        terms, attributes = dict(step.terms), dict(step.attributes)
        return not any(why_undefined(axiom, way, terms, attributes) for way in ways)

    def relax(self) -> None:
        """Compute all distances by alternating shortest paths and congruence edges until nothing changes."""
        count = len(self.terms)
        self._distances = np.full((count, count), _FAR)
        np.fill_diagonal(self._distances, 0)
        for pair in self._edges:
            self._distances[pair] = 1
        congruent = self._congruent_pairs()
        changed = True
        while changed:
            self._close()
            changed = False
            for a, b, inputs in congruent:
                length = sum(int(self._distances[pair]) for pair in inputs)
                if length < self._distances[a, b]:
                    self._distances[a, b] = length
                    changed = True
        self._ordered = tuple(self.terms)
        self._neighbours: dict[int, list[tuple[int, int]]] = {}
        for a, b in self._edges:
            self._neighbours.setdefault(a, []).append((b, 1))
        for a, b, inputs in congruent:
            length = sum(int(self._distances[pair]) for pair in inputs)
            if length < _FAR:
                self._neighbours.setdefault(a, []).append((b, length))

    def distance(self, left: Term, right: Term) -> int:
        """Return the number of links from one term to the other."""
        return int(self._distances[self.terms[left], self.terms[right]])

    def chain(self, left: Term, right: Term) -> tuple[Link, ...]:
        """Return a shortest chain between connected terms."""
        links: list[Link] = []
        whole = left
        for path, edge, after in self._moves(self.terms[left], self.terms[right], ()):
            whole = _replaced(whole, path, after)
            links.append(
                Link(
                    edge.step.axiom,
                    edge.backwards,
                    path,
                    edge.output,
                    edge.step.terms,
                    tuple((name, _as_parsed(value)) for name, value in edge.step.attributes),
                    whole,
                )
            )
        return tuple(links)

    def _moves(self, a: int, b: int, path: tuple[int, ...]) -> list[tuple[tuple[int, ...], _Edge, Term]]:
        moves: list[tuple[tuple[int, ...], _Edge, Term]] = []
        while a != b:
            wanted = int(self._distances[a, b])
            after = next(
                c for c, length in self._neighbours[a] if length + int(self._distances[c, b]) == wanted
            )
            edge = self._edges.get((a, after))
            if edge is not None:
                moves.append((path, edge, self._ordered[after]))
            else:
                pairs = zip(self._inputs(a), self._inputs(after), strict=True)
                for index, (own, other) in enumerate(pairs):
                    moves.extend(self._moves(own, other, (*path, index)))
            a = after
        return moves

    def _inputs(self, number: int) -> list[int]:
        term = self._ordered[number]
        return [] if isinstance(term, Variable) else [self.terms[child] for child in term.inputs]

    def _close(self) -> None:
        """Compute shortest paths over all terms (Floyd and Warshall)."""
        distances = self._distances
        for through in range(len(distances)):
            np.minimum(distances, distances[:, through, None] + distances[None, through, :], out=distances)

    def _congruent_pairs(self) -> list[tuple[int, int, list[tuple[int, int]]]]:
        alike: dict[object, list[Application]] = {}
        for term in self.terms:
            if isinstance(term, Application) and term.inputs:
                alike.setdefault((term.operator, term.attributes, len(term.inputs)), []).append(term)
        return [
            (
                self.terms[one],
                self.terms[other],
                [(self.terms[a], self.terms[b]) for a, b in zip(one.inputs, other.inputs, strict=True)],
            )
            for group in alike.values()
            for one, other in itertools.permutations(group, 2)
        ]

    def _register(self, *terms: Term) -> None:
        for term in subterms(*terms):
            self.terms.setdefault(term, len(self.terms))


def _as_parsed(value: AttributeTerm) -> AttributeTerm:
    """The value as the parser reads its text: a whole fraction, also in a matrix, is a whole number."""
    if isinstance(value, tuple):
        return cast("AttributeTerm", tuple(map(_as_parsed, cast("tuple[AttributeTerm, ...]", value))))
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


def _replaced(whole: Term, path: tuple[int, ...], part: Term) -> Term:
    if not path:
        return part
    assert isinstance(whole, Application)
    inputs = list(whole.inputs)
    inputs[path[0]] = _replaced(inputs[path[0]], path[1:], part)
    return Application(whole.operator, whole.attributes, tuple(inputs))


__all__ = ["explain"]
