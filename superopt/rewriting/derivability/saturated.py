"""Derivability of many equations at once by equality saturation (Ruler, OOPSLA 2021).

Each question has its own part of an e-graph with the two sides of its equation. All rules are applied to
both for a few iterations; an equation whose sides meet is derivable. For two outputs only the sources are
inserted, and the merge must be reached from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from superopt.ir.terms import Application, Term
from superopt.rewriting.derivability.questions import Question
from superopt.rewriting.egraph import Rules, Saturation, SaturationLimits

_AT_ONCE = 1500
"""Maximum number of questions per e-graph, which bounds its memory."""


@dataclass(frozen=True, slots=True)
class Saturated:
    """``derived``: iterations of all rules by number of the question, for those that follow. Of the others,
    ``unfinished`` met the limit on nodes."""

    derived: Mapping[int, int]
    unfinished: int


def saturate(rules: Rules, questions: Sequence[Question], limits: SaturationLimits) -> Saturated:
    """The questions that follow from the rules. Raises MissingServiceError if egglog is not installed."""
    derived: dict[int, int] = {}
    unfinished = 0
    for start in range(0, len(questions), _AT_ONCE):
        graph = Saturation(rules)
        part = questions[start : start + _AT_ONCE]
        for number, question in enumerate(part, start):
            _ask(graph, number, question)
        outcome = graph.run(limits)
        derived |= outcome.equal
        unfinished += 0 if outcome.complete else len(part) - len(outcome.equal)
    return Saturated(derived, unfinished)


def _ask(graph: Saturation, number: int, question: Question) -> None:
    equation, typing = question.equation, question.typing
    world = graph.world(number, question.types)
    pairs = list(zip(equation.left, equation.right, strict=True))
    if len(pairs) == 1:
        world.ask(number, *pairs[0], typing)
        return
    for term in (*equation.left, *_wholes(equation.right)):
        world.insert(term, typing)
    world.ask_all(number, pairs, typing)


def _wholes(halves: Sequence[Term]) -> Sequence[Term]:
    return [child for half in halves if isinstance(half, Application) for child in half.inputs]
