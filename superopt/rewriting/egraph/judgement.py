"""Decide whether a substitution applies to values of given types, and which attributes of its target follow
from types.

The checks are those of applying a match to a graph: declared types, conditions, sizes of the source's
constants as the equation requires, and a typing of the target in which each output keeps its type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Term,
    Variable,
    applications,
    attribute_variables,
    calculated,
    variables,
)
from superopt.ir.types import TensorType
from superopt.ops.base import OPERATORS
from superopt.ops.traits import HALVES
from superopt.rewriting.claims import speaks_of
from superopt.rewriting.conditions import as_declared, holds
from superopt.rewriting.egraph.vocabulary import is_open
from superopt.rewriting.substitution import Substitution
from superopt.rewriting.typing import Typing, infer_terms


@dataclass(frozen=True, slots=True)
class Slot:
    """An attribute of a term that the rule leaves to types, or calculates from other numbers."""

    term: Application
    name: str


@dataclass(frozen=True)
class Question:
    """Input of the decision whether a substitution applies: types of variables and outputs, attributes,
    implicit attributes."""

    substitution: Substitution

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The variables of the source."""
        return variables(*self.substitution.source)

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attribute variables of the source."""
        return tuple(sorted(attribute_variables(*self.substitution.source)))

    @cached_property
    def given(self) -> tuple[Slot, ...]:
        """Implicit attributes of the source."""
        return _slots(self.substitution.source)

    @cached_property
    def wanted(self) -> tuple[Slot, ...]:
        """Implicit attributes of target terms that do not occur in the source."""
        target = self.substitution.target
        numbers = (Slot(term, name) for term, name, _ in calculated(*target))
        return tuple(slot for slot in (*_slots(target), *numbers) if slot not in self.given)

    @cached_property
    def needed(self) -> bool:
        """Whether a decision is needed beyond a well-typed source and a target of its type."""
        rule = self.substitution
        conditional = bool(rule.conditions or rule.equation.types)
        return conditional or len(rule.source) > 1 or bool(self.given or self.wanted)

    def answer(
        self,
        types: Mapping[str, TensorType],
        attributes: Mapping[str, object],
        given: Sequence[object],
        roots: Sequence[TensorType],
    ) -> tuple[object, ...] | None:
        """Values for ``wanted``; None where the substitution does not apply."""
        rule = self.substitution
        implicit = dict(zip(self.given, given, strict=True))
        try:
            declared = as_declared(rule.equation.types, types)
            if not declared or not speaks_of(rule.equation, types, attributes):
                return None
            if not all(holds(condition, types, attributes) for condition in rule.conditions):
                return None
            found = self._source(types, attributes, implicit)
            target = infer_terms(
                rule.target,
                {name: types[name] for name in rule.target_variables},
                attributes,
                equal=[
                    *zip(rule.target, roots, strict=True),
                    *((term, found[term]) for term in rule.shared_open_terms),
                ],
                cuts=_cuts(implicit, attributes, found),
            )
        except IllTypedError:
            return None
        if target.unresolved:
            return None
        return tuple(_value(target, slot) for slot in self.wanted)

    def _source(
        self,
        types: Mapping[str, TensorType],
        attributes: Mapping[str, object],
        implicit: Mapping[Slot, object],
    ) -> Mapping[Term, TensorType]:
        """The types of the source's terms; raises IllTypedError where its constants differ from the
        equation's."""
        rule = self.substitution
        if not implicit:
            return {}
        closed = {term: _closed(term, implicit) for term in applications(*rule.source)}
        typing = infer_terms([closed[root] for root in rule.roots], types, attributes)
        found: dict[Term, TensorType] = {term: typing.types[closed[term]] for term in closed}
        found |= {term: type_ for term, type_ in typing.types.items() if isinstance(term, Variable)}
        if rule.source_sized_by_types or rule.halved_concats:
            whole = infer_terms(
                rule.source,
                types,
                attributes,
                equal=[(term, found[term]) for term in rule.source_sized_by_types],
                cuts={
                    key: cut
                    for key, cut in _cuts(implicit, attributes, found).items()
                    if all(key[0] != half.inputs[0] for half in rule.halved_concats)
                },
            )
            if any(_value(whole, slot) != value for slot, value in implicit.items()):
                raise IllTypedError("a constant of the source has another size than the rule means")
        return found


def _slots(terms: Sequence[Term]) -> tuple[Slot, ...]:
    return tuple(
        Slot(term, name)
        for term in applications(*terms)
        if is_open(term)
        for name in OPERATORS[term.operator].implicit
        if term.attribute(name) is None
    )


def _cuts(
    implicit: Mapping[Slot, object], attributes: Mapping[str, object], types: Mapping[Term, TensorType]
) -> dict[tuple[Term, int], Dimension]:
    """Cut positions of the source's halves; raises IllTypedError where two halves of one term disagree."""
    cuts: dict[tuple[Term, int], Dimension] = {}
    for slot, value in implicit.items():
        if slot.term.operator in HALVES:
            axis = slot.term.attribute("axis")
            number = cast("int", axis if isinstance(axis, int) else attributes[getattr(axis, "name", "")])
            whole = slot.term.inputs[0]
            cut = cast("Dimension", value)
            if cuts.setdefault((whole, number % types[whole].rank), cut) != cut:
                raise IllTypedError("two halves of a term are cut at different places")
    return cuts


def _closed(term: Term, implicit: Mapping[Slot, object]) -> Term:
    if isinstance(term, Variable):
        return term
    added = tuple(
        (name, cast("AttributeTerm", implicit[Slot(term, name)]))
        for name in OPERATORS[term.operator].implicit
        if Slot(term, name) in implicit
    )
    inputs = tuple(_closed(child, implicit) for child in term.inputs)
    return Application(term.operator, (*term.attributes, *added), inputs)


def _value(typing: Typing, slot: Slot) -> object:
    return getattr(typing.operators[slot.term], slot.name)
