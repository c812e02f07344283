"""Minimisation of candidates: drops those derivable from smaller ones by equality saturation.

Pruning examines one equation at a time; an e-graph holds all terms within a few steps, with arguments in any
commutative order (Ruler, OOPSLA 2021). Candidates are processed by size: those that follow from smaller ones
are dropped, the others become rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from superopt.generator.prune.pruning import Candidate
from superopt.generator.prune.questions import generic_question, settings
from superopt.ir.numbers import names_of
from superopt.ir.terms import Equation
from superopt.rewriting.derivability import SMALL, Theory, tree_size
from superopt.rewriting.egraph import SaturationLimits

LIMITS = SaturationLimits(steps=1, nodes=2_000_000)
"""Saturation iterations: one on both sides gives derivations of two steps plus reorderings."""


@dataclass(frozen=True, slots=True)
class Minimal:
    """``kept`` candidates in order; ``asked`` counts queried ones, and forms ill-typed or over a limit."""

    kept: tuple[Candidate, ...]
    asked: int
    untyped: int
    unfinished: int


def minimal(candidates: Sequence[Candidate]) -> Minimal:
    """The candidates that do not follow from smaller ones at every value of their attribute variables.

    Small equations, conditional ones, those that calculate numbers, and merges are always kept, so that a
    search need not pass through graphs costlier than both ends. Raises MissingServiceError where egglog is
    not installed.
    """
    theory = Theory()
    dropped: set[int] = set()
    asked = untyped = unfinished = 0
    numbered = sorted(enumerate(candidates), key=lambda item: (_size(item[1].equation), item[0]))
    for _, group in itertools.groupby(numbered, key=lambda item: _size(item[1].equation)):
        layer = list(group)
        as_found = [(number, c.equation) for number, c in layer if _may_go(c.equation)]
        first = _answers(theory, candidates, as_found)
        follow = [number for (number, _), answer in zip(as_found, first.derived, strict=True) if answer]
        closed = [
            (number, form)
            for number in follow
            for form in settings(candidates[number].generalizations[0], candidates[number].equation.direction)
        ]
        second = _answers(theory, candidates, closed)
        answered = zip(closed, second.derived, strict=True)
        dropped |= set(follow) - {number for (number, _), answer in answered if answer is False}
        asked += len(as_found)
        untyped += first.derived.count(None) + second.derived.count(None)
        unfinished += first.unfinished + second.unfinished
        for number, candidate in layer:
            if number not in dropped:
                theory.add(candidate.generalizations[0])
    kept = tuple(candidate for number, candidate in enumerate(candidates) if number not in dropped)
    return Minimal(kept, asked, untyped, unfinished)


@dataclass(frozen=True, slots=True)
class _Answers:
    """One answer per equation, None where it is ill-typed at all sizes tried."""

    derived: tuple[bool | None, ...]
    unfinished: int


def _answers(
    theory: Theory, candidates: Sequence[Candidate], forms: Sequence[tuple[int, Equation]]
) -> _Answers:
    """Which forms of candidates, given with the candidates' numbers, follow."""
    typed = [generic_question(equation, candidates[number].shapes) for number, equation in forms]
    found = theory.saturated([question for question in typed if question is not None], LIMITS)
    numbers = itertools.count()
    derived = tuple(None if question is None else next(numbers) in found.derived for question in typed)
    return _Answers(derived, found.unfinished)


def _size(equation: Equation) -> tuple[int, int]:
    sizes = tree_size(*equation.left), tree_size(*equation.right)
    return sum(sizes), max(sizes)


def _may_go(equation: Equation) -> bool:
    sizes = tree_size(*equation.left), tree_size(*equation.right)
    calculates = any(names_of(value) for term in equation.applications for _, value in term.attributes)
    return len(equation.left) == 1 and not equation.conditions and not calculates and min(sizes) > SMALL
