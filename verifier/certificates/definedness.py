"""Definedness check of proof steps: the part of the checker for partial operators.

Values are partial, element by element. A chain from source to target must not replace a defined element by an
undefined one; an undefined element may become anything. The direction of an axiom states what it preserves:
``L = R`` and ``L <=> R`` hold in both directions, also for tensors with undefined elements; ``L => R`` holds
from left to right only. It may be used from right to left if nothing is undefined on either side, that is, if
every operator of the axiom and of the terms for its variables is total. (Variables of a rule stand for real
tensors; ``keeps_for_partial`` covers variables that may have undefined elements.)

Two things are trusted: the directions of the axioms, which ``superopt axioms validate`` tests, and
``is_total`` of the operators. A step inside a term is valid for the whole term, because an element that
depends on an undefined one is undefined: fewer undefined elements in a part never cause more in the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from superopt.ir.numbers import substituted_number
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Direction,
    Equation,
    Term,
    applications,
)
from superopt.ops.base import OPERATORS


def keeps_for_partial(axiom: Equation, *, backwards: bool) -> bool:
    """Whether the axiom claims this direction for all values of its variables, including undefined
    elements."""
    return not backwards or axiom.direction is not Direction.FORWARD


def why_undefined(
    axiom: Equation,
    backwards: bool,  # noqa: FBT001
    terms: Mapping[str, Term],
    attributes: Mapping[str, AttributeTerm],
) -> str:
    """Return an empty string if the step preserves definedness, otherwise the reason why it may not.

    ``terms`` and ``attributes`` are the values of the axiom's variables; the variables in these terms are
    those of the rule and stand for real tensors.
    """
    if keeps_for_partial(axiom, backwards=backwards):
        return ""
    own = axiom.applications
    partial = next((name for name in _partial(own, attributes)), None)
    if partial is not None:
        return f"{axiom.name} is used from right to left, and {partial} may be undefined"
    for variable, term in sorted(terms.items()):
        partial = next((name for name in _partial(applications(term), {})), None)
        if partial is not None:
            return (
                f"{axiom.name} is used from right to left with a term for {variable} "
                f"in which {partial} may be undefined"
            )
    return ""


def is_total(*terms: Term) -> bool:
    """Whether all elements of the terms are defined for all real values of their variables."""
    return next(_partial(applications(*terms), {}), None) is None


def _partial(applied: Iterable[Application], attributes: Mapping[str, AttributeTerm]) -> Iterator[str]:
    """Yield the operators that are not total; an attribute variable without a value may have any value."""
    for term in applied:
        values = {name: _value(value, attributes) for name, value in term.attributes}
        if not OPERATORS[term.operator].is_total(values):
            yield term.operator


def _value(value: AttributeTerm, attributes: Mapping[str, AttributeTerm]) -> AttributeTerm:
    return cast("AttributeTerm", substituted_number(value, attributes))


__all__ = ["is_total", "keeps_for_partial", "why_undefined"]
