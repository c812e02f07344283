"""Known equations, and whether others follow from them: one interface to both searches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from superopt.ir.terms import Direction, Equation
from superopt.rewriting.derivability.questions import Question
from superopt.rewriting.derivability.saturated import Saturated, saturate
from superopt.rewriting.derivability.search import Bounds, Derivation, Tables
from superopt.rewriting.egraph import Rules, SaturationLimits
from superopt.rewriting.substitution import substitutions_of

SMALL = 2
"""Operators, as a tree, of a side that a search reaches directly: it need not pass through graphs costlier
than both ends."""

_FEW = Bounds(graphs=4, slack=1)
"""Limits of ``Theory.follows``: few graphs, as most equations that are asked about do not follow."""


class Theory:
    """Known equations in the directions that they claim; more may be added between questions."""

    def __init__(self, equations: Iterable[Equation] = ()) -> None:
        self._tables = Tables()
        self._rules = Rules()
        self._new_steps = list(equations)
        self._new_rules = list(self._new_steps)

    def add(self, equation: Equation) -> None:
        """Adds an equation."""
        self._new_steps.append(equation)
        self._new_rules.append(equation)

    def derive(self, questions: Iterable[Question], bounds: Bounds) -> Derivation | None:
        """The derivation of an equation that is given under several typings; ``steps`` is the maximum.

        None where none is found within the bounds, an operator does not accept its inputs, or there is no
        typing.
        """
        found: list[Derivation] = []
        for question in questions:
            both = question.equation.direction is not Direction.FORWARD and not self._compiled().symmetric
            for each in (question, question.reversed) if both else (question,):
                derivation = self._derived(each, bounds)
                if derivation is None:
                    return None
                found.append(derivation)
        if not found:
            return None
        return Derivation(max(each.steps for each in found), all(each.instance for each in found))

    def follows(self, questions: Iterable[Question]) -> bool:
        """Whether an equation that is given under several typings is superfluous beside those known.

        One step has to give an equation with a ``SMALL`` side, unless a side can shrink. An equation whose
        sides are two spellings of one computation is not superfluous: no step gives it. False means that it
        is not known.
        """
        asked = iter(questions)
        first = next(asked, None)
        if first is None:
            return False
        bounds = replace(_FEW, steps=1) if self._needs_one_step(first) else _FEW
        found = self.derive(chain((first,), asked), bounds)
        return found is not None and found.steps > 0

    def saturated(self, questions: Sequence[Question], limits: SaturationLimits) -> Saturated:
        """Which of these equations follow, each read as an equality, by equality saturation.

        Raises MissingServiceError if egglog is not installed.
        """
        while self._new_rules:
            equation = self._new_rules[0]
            for substitution in substitutions_of(equation, equation.name):
                self._rules.add(substitution)
            del self._new_rules[0]
        return saturate(self._rules, questions, limits)

    def _derived(self, question: Question, bounds: Bounds) -> Derivation | None:
        graphs = question.graphs
        return None if graphs is None else self._compiled().search(*graphs, bounds)

    def _needs_one_step(self, question: Question) -> bool:
        if len(question.equation.left) > 1 or question.smaller_side > SMALL:
            return False
        shrinking = self._compiled().shrinking
        return not any(any(shrinking.from_graph(graph, len(graph))) for graph in question.graphs or ())

    def _compiled(self) -> Tables:
        while self._new_steps:
            self._tables.add(self._new_steps[0])
            del self._new_steps[0]
        return self._tables
