"""Definedness check of proof steps: the part of the checker for partial operators.

Values are partial, element by element. A chain from a rule's source to its target may not lead from a term
whose element is defined to one whose element is not; what is undefined may become anything. An axiom says in
its direction what it keeps: ``L = R`` and ``L <=> R`` lead from either side to the other, for tensors with
undefined elements too; ``L => R`` leads from left to right alone. Against that direction it may be used
where nothing is undefined on either side: where every operator of the axiom, and of the terms that its
variables stand for, is total. (Variables of a rule stand for real tensors; ``keeps_for_partial`` is the
question for variables that do not.)

What is trusted: the directions of the axioms, which ``superopt axioms validate`` tests, and ``is_total`` of
the operators. That a step inside a term is a step of the whole term follows from the meaning of undefined:
an element that depends on an undefined one is undefined, so that fewer undefined elements in a part never
make more of them in the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from superopt.ir.terms import (
    Application,
    AttributeTerm,
    AttributeVariable,
    Direction,
    Equation,
    Term,
    applications,
)
from superopt.ops.base import OPERATORS


def keeps_for_partial(axiom: Equation, *, backwards: bool) -> bool:
    """Whether the axiom claims this direction, whatever its variables stand for."""
    return not backwards or axiom.direction is not Direction.FORWARD


def why_undefined(
    axiom: Equation,
    backwards: bool,  # noqa: FBT001
    terms: Mapping[str, Term],
    attributes: Mapping[str, AttributeTerm],
) -> str:
    """Empty when the step keeps definedness, else why it might not.

    ``terms`` and ``attributes`` are what the variables of the axiom stand for; the variables of these terms
    are those of the rule, which stand for real tensors.
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
    """The operators that are not total; an attribute variable without a value may have any."""
    for term in applied:
        values = {name: _value(value, attributes) for name, value in term.attributes}
        if not OPERATORS[term.operator].is_total(values):
            yield term.operator


def _value(value: AttributeTerm, attributes: Mapping[str, AttributeTerm]) -> AttributeTerm:
    return attributes.get(value.name, value) if isinstance(value, AttributeVariable) else value


__all__ = ["is_total", "keeps_for_partial", "why_undefined"]
