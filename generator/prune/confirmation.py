"""Derivability by equality saturation (Ruler, OOPSLA 2021).

Each query has its own part of an e-graph with the two sides of an equation, typed at generic sizes. Rules are
applied to both for a few iterations, in their valid directions; an equation whose sides meet is derivable.
For two outputs only the sources are inserted, and the merge must be reached from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from superopt.generator.generalise.generic_sizes import generic_typing
from superopt.generator.prune.questions import Question
from superopt.ir.terms import Application, Equation, Term, Variable
from superopt.rewriting import Typing, substitutions_of
from superopt.rewriting.egraph import Rules, Saturation, SaturationLimits

_AT_ONCE = 1500
"""Maximum number of queries per e-graph, which bounds its memory."""


@dataclass(frozen=True, slots=True)
class Derived:
    """The equation is derivable by ``steps`` iterations of all rules."""

    steps: int


@dataclass(frozen=True, slots=True)
class Confirmation:
    """One answer per query, None if undecided: ``untyped`` queries are ill-typed at all sizes tried,
    ``unfinished`` ones hit the limits on nodes or seconds.
    """

    answers: tuple[Derived | None, ...]
    untyped: frozenset[int]
    unfinished: int


class Saturations:
    """Kept equations as rules; more can be added between queries."""

    def __init__(self, limits: SaturationLimits | None = None) -> None:
        self._rules = Rules()
        self._count = 0
        self._limits = limits or SaturationLimits()

    def add(self, equation: Equation) -> None:
        """Adds an equation in every direction in which it is a valid rule."""
        for substitution in substitutions_of(equation, str(self._count)):
            self._rules.add(substitution)
        self._count += 1

    def confirmed(self, questions: Sequence[Question]) -> Confirmation:
        """The equations that follow from those added so far."""
        typed: dict[int, Typing] = {}
        for number, question in enumerate(questions):
            typing = generic_typing(question.equation, question.shapes, {})
            if typing is not None:
                typed[number] = typing
        steps: dict[int, int] = {}
        unfinished = 0
        everything = list(typed)
        for start in range(0, len(everything), _AT_ONCE):
            graph = Saturation(self._rules)
            part = everything[start : start + _AT_ONCE]
            for number in part:
                _ask(graph, number, questions[number].equation, typed[number])
            outcome = graph.run(self._limits)
            steps |= outcome.equal
            unfinished += 0 if outcome.complete else len(part) - len(outcome.equal)
        answers = tuple(Derived(steps[n]) if n in steps else None for n in range(len(questions)))
        return Confirmation(answers, frozenset(range(len(questions))) - typed.keys(), unfinished)


def confirmed(
    kept: Iterable[Equation], questions: Sequence[Question], limits: SaturationLimits | None = None
) -> Confirmation:
    """The equations that follow from the kept ones.

    Raises MissingServiceError if egglog is not installed.
    """
    saturations = Saturations(limits)
    for equation in kept:
        saturations.add(equation)
    return saturations.confirmed(questions)


def _ask(graph: Saturation, number: int, equation: Equation, typing: Typing) -> None:
    types = {term.name: type_ for term, type_ in typing.types.items() if isinstance(term, Variable)}
    world = graph.world(number, types)
    pairs = list(zip(equation.left, equation.right, strict=True))
    if len(pairs) == 1:
        world.ask(number, *pairs[0], typing)
        return
    for term in (*equation.left, *_wholes(equation.right)):
        world.insert(term, typing)
    world.ask_all(number, pairs, typing)


def _wholes(halves: Sequence[Term]) -> Sequence[Term]:
    return [child for half in halves if isinstance(half, Application) for child in half.inputs]
