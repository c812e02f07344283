"""Kinds of improvement, by the operators of a rule's two sides."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence

from superopt.ir.terms import Application, Equation, Term, applications, subterms, variables
from superopt.journeys.library.gallery.gains import Gain
from superopt.ops.traits import traits


class Kind(enum.StrEnum):
    """Kinds of rules, in display order."""

    CANCELLATION = "Cancellation"
    FUSION = "Fusion"
    FOLDING = "Folding of weights"
    FACTORING = "Factoring"
    MERGING = "Merging"
    REASSOCIATION = "Reassociation and exchange"
    LAYOUT = "Layout and data movement"
    REPLACEMENT = "Replacement by other operators"


DESCRIPTIONS = {
    Kind.CANCELLATION: "The target is a part of the source.",
    Kind.FUSION: "Fewer operators, one of which does the work of several.",
    Kind.FOLDING: "It pays because weights are constants: what depends on them alone is computed once.",
    Kind.FACTORING: "Fewer of the same operators.",
    Kind.MERGING: "Several outputs share work.",
    Kind.REASSOCIATION: "The same operators in another order or on other operands.",
    Kind.LAYOUT: "The same operators, except for those that move data.",
    Kind.REPLACEMENT: "Other operators, not fewer.",
}


def kind_of(equation: Equation, gain: Gain) -> Kind:
    """The kind of an improvement, from the more expensive to the cheaper side."""
    source, target = equation.left, equation.right
    if gain.backwards:
        source, target = target, source
    if set(subterms(*target)) <= set(subterms(*source)):
        return Kind.CANCELLATION
    if len(source) > 1:
        return Kind.MERGING
    if gain.known and _computed_beforehand(target, gain.known):
        return Kind.FOLDING
    before, after = _operators(source, gain), _operators(target, gain)
    if before == after:
        return Kind.REASSOCIATION
    if _without_moves(before) == _without_moves(after):
        return Kind.LAYOUT
    if after.total() < before.total():
        return Kind.FACTORING if set(after) <= set(before) else Kind.FUSION
    return Kind.REPLACEMENT


def _computed_beforehand(side: Sequence[Term], known: Sequence[str]) -> bool:
    return any(term.inputs and _is_known(term, known) for term in applications(*side))


def _operators(side: Sequence[Term], gain: Gain) -> Counter[tuple[str, str]]:
    """The operators that depend on inputs; a fused activation counts by its name."""
    remaining = (term for term in applications(*side) if not _is_known(term, gain.known))
    return Counter((term.operator, str(term.attribute("activation") or "")) for term in remaining)


def _without_moves(operators: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    return Counter({name: count for name, count in operators.items() if not traits(name[0]).moves})


def _is_known(term: Application, known: Sequence[str]) -> bool:
    return bool(term.inputs) and set(known).issuperset(variables(term))


__all__ = ["DESCRIPTIONS", "Kind", "kind_of"]
