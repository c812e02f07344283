"""Intermediate state of typing a rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from superopt.errors import IllTypedError, UnsupportedError
from superopt.ir.dimensions import symbol
from superopt.ir.terms import Application, Equation, Term, Variable
from superopt.ir.types import ELEMENT_TYPES_BY_SHORT_NAME, TensorType
from superopt.ops.attributes import substituted
from superopt.verifier.certificates.size_equations import Solution


class UndecidedCasesError(UnsupportedError):
    """The case analysis of a rule may be incomplete."""


@dataclass(frozen=True)
class PartialTyping:
    """Types of some terms, values of all attribute variables, and sizes that the text omits.

    ``waiting`` are applications without a type whose equations need to be simplified by others first.
    """

    attributes: Mapping[str, object]
    types: Mapping[Term, TensorType] = field(default_factory=dict[Term, TensorType])
    implicit: Mapping[object, object] = field(default_factory=dict[object, object])
    waiting: tuple[Application, ...] = ()

    def solved(self, solution: Solution) -> PartialTyping:
        if not solution:
            return self
        return PartialTyping(
            {name: substituted(value, solution) for name, value in self.attributes.items()},
            {term: type_.substitute(solution) for term, type_ in self.types.items()},
            {place: substituted(value, solution) for place, value in self.implicit.items()},
            self.waiting,
        )

    def typed(self, term: Term, type_: TensorType) -> PartialTyping:
        waiting = tuple(each for each in self.waiting if each != term)
        return PartialTyping(self.attributes, {**self.types, term: type_}, self.implicit, waiting)

    def postponed(self, term: Application) -> PartialTyping:
        waiting = self.waiting if term in self.waiting else (*self.waiting, term)
        return PartialTyping(self.attributes, self.types, self.implicit, waiting)

    def with_implicit(self, place: object, value: object) -> PartialTyping:
        return PartialTyping(self.attributes, self.types, {**self.implicit, place: value}, self.waiting)


def declared_types(goal: Equation) -> dict[Term, TensorType]:
    """Return the types that a rule declares, with symbols for sizes that have names. Raises IllTypedError."""
    types: dict[Term, TensorType] = {}
    for name, declared in goal.types:
        element = ELEMENT_TYPES_BY_SHORT_NAME.get(declared.element)
        if element is None:
            raise IllTypedError(f"{name}: unknown element type {declared.element}")
        sizes = tuple(size if isinstance(size, int) else symbol(size) for size in declared.shape)
        types[Variable(name)] = TensorType(element, sizes)
    return types


__all__ = ["PartialTyping", "UndecidedCasesError", "declared_types"]
