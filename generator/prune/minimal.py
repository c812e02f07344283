"""Minimisation of candidates: drops those derivable from smaller ones by equality saturation.

Pruning examines one equation at a time and rewrites at most a few hundred terms; an e-graph holds all terms
within a few steps, with arguments in any commutative order (Ruler, OOPSLA 2021). Candidates are processed by
size: those that follow from smaller ones are dropped, the others become rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from superopt.generator.generalise.generalisation import Attributes, map_terms, with_attributes
from superopt.generator.prune.confirmation import Saturations
from superopt.generator.prune.derivation import tree_size
from superopt.generator.prune.pruning import Candidate
from superopt.generator.prune.questions import SMALL, Question
from superopt.instances.values import FEW_VALUES
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    AttributeVariable,
    Equation,
    applications,
)
from superopt.rewriting.egraph import SaturationLimits

LIMITS = SaturationLimits(steps=1, nodes=2_000_000)
"""Saturation iterations: one on both sides gives derivations of two steps plus reorderings."""

_SETTINGS = 3


@dataclass(frozen=True, slots=True)
class Minimal:
    """``kept`` candidates in order; ``asked`` counts queried ones, and forms ill-typed or over a limit."""

    kept: tuple[Candidate, ...]
    asked: int
    untyped: int
    unfinished: int


def minimal(candidates: Sequence[Candidate], limits: SaturationLimits = LIMITS) -> Minimal:
    """The candidates that do not follow from smaller ones at every value of their attribute variables.

    Small equations, conditional equations and merges are always kept, so that a search need not pass through
    graphs costlier than both ends. Raises MissingServiceError where egglog is not installed.
    """
    saturations = Saturations(limits)
    dropped: set[int] = set()
    asked = untyped = unfinished = 0
    numbered = sorted(enumerate(candidates), key=lambda item: (_size(item[1].equation), item[0]))
    for _, group in itertools.groupby(numbered, key=lambda item: _size(item[1].equation)):
        layer = list(group)
        as_found = [(n, Question(c.equation, c.shapes)) for n, c in layer if _may_go(c.equation)]
        found = saturations.confirmed([question for _, question in as_found])
        derived = {n for (n, _), answer in zip(as_found, found.answers, strict=True) if answer is not None}
        asked += len(as_found)
        untyped += len(found.untyped)
        unfinished += found.unfinished
        others = [
            (number, Question(closed, candidates[number].shapes))
            for number in sorted(derived)
            for closed in _settings(candidates[number])
        ]
        found = saturations.confirmed([question for _, question in others])
        for place, ((number, _), answer) in enumerate(zip(others, found.answers, strict=True)):
            if answer is None and place not in found.untyped:
                derived.discard(number)
        dropped |= derived
        untyped += len(found.untyped)
        unfinished += found.unfinished
        for number, candidate in layer:
            if number not in dropped:
                saturations.add(candidate.generalizations[0])
    kept = tuple(candidate for number, candidate in enumerate(candidates) if number not in dropped)
    return Minimal(kept, asked, untyped, unfinished)


def _size(equation: Equation) -> tuple[int, int]:
    sizes = tree_size(*equation.left), tree_size(*equation.right)
    return sum(sizes), max(sizes)


def _may_go(equation: Equation) -> bool:
    sizes = tree_size(*equation.left), tree_size(*equation.right)
    return len(equation.left) == 1 and not equation.conditions and min(sizes) > SMALL


def _settings(candidate: Candidate) -> Iterator[Equation]:
    """The equation's general form with attribute variables set to several values."""
    general = candidate.generalizations[0]
    names = {
        value.name: name
        for term in applications(*general.left, *general.right)
        for name, value in term.attributes
        if isinstance(value, AttributeVariable) and name in FEW_VALUES
    }
    for step in range(_SETTINGS if names else 0):
        pools = ((variable, FEW_VALUES[name]) for variable, name in names.items())
        values = {variable: pool[step % len(pool)] for variable, pool in pools}
        closed = partial(with_attributes, attributes=partial(_closed, values=values))
        yield replace(map_terms(general, closed), direction=candidate.equation.direction)


def _closed(term: Application, values: Mapping[str, AttributeTerm]) -> Attributes:
    return tuple(
        (name, values.get(value.name, value) if isinstance(value, AttributeVariable) else value)
        for name, value in term.attributes
    )
