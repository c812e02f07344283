"""Questions of derivability: an equation under one typing of both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from superopt.errors import IllTypedError
from superopt.ir.graph import Graph
from superopt.ir.terms import Application, Equation, Term, Variable
from superopt.ir.types import TensorType
from superopt.rewriting.derivability.forms import graph_of
from superopt.rewriting.typing import Typing


@dataclass(frozen=True)
class Question:
    """Does the equation follow, at the sizes and attribute values of this typing?"""

    equation: Equation
    typing: Typing

    @cached_property
    def types(self) -> Mapping[str, TensorType]:
        """The types of the equation's variables."""
        return {term.name: type_ for term, type_ in self.typing.types.items() if isinstance(term, Variable)}

    @property
    def reversed(self) -> Question:
        """The question from right to left."""
        return replace(self, equation=self.equation.reversed())

    @cached_property
    def graphs(self) -> tuple[Graph, Graph] | None:
        """The graphs of both sides; None if an operator does not accept its inputs."""
        try:
            left, right = (graph_of(side, self.typing, self.types) for side in self._sides)
        except IllTypedError:
            return None
        return left, right

    @property
    def smaller_side(self) -> int:
        """The number of operators of the smaller side as a tree."""
        return min(tree_size(*side) for side in self._sides)

    @property
    def _sides(self) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        return self.equation.left, self.equation.right


def tree_size(*terms: Term) -> int:
    """The number of operators of the terms as trees."""
    return sum(1 + tree_size(*term.inputs) for term in terms if isinstance(term, Application))
