"""Why a rule speaks of nothing: a side that is never well-typed, or sides that never are together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from superopt.equations import format_term
from superopt.errors import IllTypedError, RankMismatchError, SuperoptError
from superopt.ir.terms import Application, AttributeVariable, Equation, Term, subterms, variables
from superopt.ops.base import operator_from_attributes
from superopt.verifier.cases import cases_of
from superopt.verifier.instance import Instance

MALFORMED = "malformed: "
"""Reasons start with this where it is known that both sides are never well-typed."""

MOST_RANK = 16
"""Rules that need tensors of more axes are not looked at."""

_TRIED = 30


def why_malformed(equation: Equation, largest_rank: int) -> str:
    """The reason, for a rule that has no case with tensors of up to that rank."""
    for name, terms in (("source", equation.left), ("target", equation.right)):
        for term in subterms(*terms):
            if isinstance(term, Application) and not _has_case(equation, (term,), largest_rank):
                why = _why_ill_typed(equation, term, largest_rank)
                return f"{MALFORMED}the {name} is never well-typed: {format_term(term)}{why}"
        if not _has_case(equation, terms, largest_rank):
            return f"{MALFORMED}the {name} is never well-typed as a whole"
    if equation.conditions and _any(replace(equation, conditions=()), largest_rank):
        return f"{MALFORMED}its conditions hold for no well-typed sides"
    return f"{MALFORMED}the sides are never well-typed together, with the same type"


def _has_case(equation: Equation, terms: tuple[Term, ...], largest_rank: int) -> bool:
    return _any(_about(equation, terms), largest_rank)


def _any(equation: Equation, largest_rank: int) -> bool:
    """Whether there is a case; where that is not known, there may be."""
    try:
        return next(iter(cases_of(equation, largest_rank)), None) is not None
    except SuperoptError:
        return True


def _about(equation: Equation, terms: tuple[Term, ...]) -> Equation:
    """That the terms are what they are, of the tensors that the equation declares."""
    names = variables(*terms)
    declared = tuple((name, type_) for name, type_ in equation.types if name in names)
    return Equation(terms, terms, types=declared)


def _why_ill_typed(equation: Equation, term: Application, largest_rank: int) -> str:
    """What the operator says to inputs that are well-typed, preferably of ranks that it takes."""
    said: list[IllTypedError] = []
    try:
        cases: Sequence[Instance] = tuple(
            itertools.islice(cases_of(_about(equation, term.inputs), largest_rank), _TRIED)
        )
    except SuperoptError:
        return ""
    for case in cases:
        values = {
            name: case.attributes.get(value.name) if isinstance(value, AttributeVariable) else value
            for name, value in term.attributes
        }
        try:
            operator_from_attributes(term.operator, values).infer(
                *(case.typing.types[child] for child in term.inputs)
            )
        except IllTypedError as error:
            said.append(error)
        except SuperoptError:
            continue
    chosen = next((error for error in said if not isinstance(error, RankMismatchError)), None)
    chosen = chosen or next(iter(said), None)
    return "" if chosen is None else f": {chosen}"


__all__ = ["MALFORMED", "MOST_RANK", "why_malformed"]
