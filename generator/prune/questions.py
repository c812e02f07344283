"""Derivability queries against kept equations, with fixed and with open attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from superopt.generator.generalise.generalisation import Generaliser, explicit, map_terms
from superopt.generator.generalise.sampling import Shapes
from superopt.generator.prune.derivation import Theory, tree_size
from superopt.ir.terms import Direction, Equation

SMALL = 2
"""An equation with a side of at most this many operators is kept unless one step derives it or a side
can shrink.

A search then applies it directly, without passing through graphs costlier than both ends.
"""


@dataclass(frozen=True, slots=True)
class Question:
    """An equation with the shapes at which it was found."""

    equation: Equation
    shapes: Shapes


class Known:
    """The kept equations in their general forms."""

    def __init__(self, generaliser: Generaliser) -> None:
        self._theory = Theory()
        self._generaliser = generaliser

    def add(self, equation: Equation) -> None:
        """Adds an equation in its directions."""
        full = map_terms(equation, explicit)
        self._theory.add(full.left, full.right, backward=equation.direction is Direction.BOTH)

    def derivable(self, questions: Sequence[Question]) -> tuple[bool, ...]:
        """The equations that follow, as written and with all possible attributes open."""
        return tuple(map(self._is_derivable, questions))

    def _is_derivable(self, question: Question) -> bool:
        self._theory.forget_much()
        equation = question.equation
        if len(equation.left) > 1:
            return _derivable(self._theory, equation)
        forms = self._generaliser.open_forms(equation, question.shapes)
        if forms.single and _derivable(self._theory, forms.together):
            return True
        return _derivable(self._theory, equation) and all(
            (one.equation != forms.together and _derivable(self._theory, one.equation)) or not one.holds()
            for one in forms.single
        )


class Theorems:
    """Fully general equations, and derivability from them as written."""

    def __init__(self) -> None:
        self._theory = Theory()

    def add(self, equation: Equation) -> None:
        """Adds an equation in its directions."""
        full = map_terms(equation, explicit)
        self._theory.add(full.left, full.right, backward=equation.direction is Direction.BOTH)

    def derives(self, equation: Equation) -> bool:
        """Whether the equation follows in each direction that it has, within ``derivation.STEPS`` steps; one
        with a ``SMALL`` side in one step, or if a side can shrink.
        """
        self._theory.forget_much()
        return _derivable(self._theory, equation)


def _derivable(theory: Theory, equation: Equation) -> bool:
    full = map_terms(equation, explicit)
    if len(full.left) > 1:
        return theory.derives_merge(full.left, full.right)
    left, right = next(iter(full.left)), next(iter(full.right))
    small = min(tree_size(left), tree_size(right)) <= SMALL
    derives = theory.derives
    if small and not theory.simplifies(left) and not theory.simplifies(right):
        derives = theory.gives_at_once
    return derives(left, right) and (equation.direction is not Direction.BOTH or derives(right, left))
