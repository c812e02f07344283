"""The preset of adjoints: what gradients are made of, and the applications that are differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from superopt.errors import InvalidOptionError
from superopt.ir.terms import AttributeTerm
from superopt.ops import Operator

Attributes = tuple[tuple[str, AttributeTerm], ...]


@dataclass(frozen=True, slots=True)
class Word:
    """An operator of gradients, with the roles that it takes and gives.

    Numbers among the ``attributes`` may be calculated from the attributes of the differentiated operator. An
    attribute that is not given is that of the same name of the differentiated operator, else the default.
    """

    name: str
    attributes: Attributes
    signatures: tuple[tuple[tuple[str, ...], str], ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant operator; of role ``number`` without axes, else of the shape of every operand and of the
    result. Its attributes are as those of a ``Word``."""

    name: str
    attributes: Attributes
    role: str


@dataclass(frozen=True, slots=True)
class Search:
    """A part of the vocabulary. Terms of up to ``max_ops`` operators are enumerated; up to ``solved`` more,
    at the root, are found by solving for an operand."""

    max_ops: int
    solved: int
    words: tuple[Word, ...]
    constants: tuple[Constant, ...]

    @property
    def reach(self) -> int:
        """The largest number of operators of a gradient."""
        return self.max_ops + self.solved


@dataclass(frozen=True, slots=True)
class Goal:
    """An operator applied to operands of some shapes, to be differentiated with respect to operand ``input``.

    ``variable`` attributes are left open in statements, which are to hold for all of their values.
    """

    operator: Operator
    variable: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    input: int


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Goals, and the searches for their gradients, tried in order."""

    name: str
    description: str
    searches: tuple[Search, ...]
    goals: tuple[Goal, ...]

    def restricted_to(self, operators: Sequence[str]) -> Vocabulary:
        """The goals of the named operators. Raises InvalidOptionError for one without goals."""
        known = {goal.operator.name for goal in self.goals}
        for name in operators:
            if name not in known:
                raise InvalidOptionError(
                    f"preset {self.name} differentiates no operator {name}; it differentiates: "
                    f"{', '.join(sorted(known))}"
                )
        return replace(self, goals=tuple(goal for goal in self.goals if goal.operator.name in operators))

    def up_to(self, size: int) -> Vocabulary:
        """The searches for gradients of at most ``size`` operators."""
        searches = (
            replace(
                search,
                max_ops=min(search.max_ops, size),
                solved=max(0, min(search.solved, size - search.max_ops)),
            )
            for search in self.searches
        )
        return replace(self, searches=tuple(searches))


__all__ = ["Attributes", "Constant", "Goal", "Search", "Vocabulary", "Word"]
