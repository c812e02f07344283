"""Detection of vacuous rules: a side, or both sides together, are never well-typed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from superopt.equations import format_term
from superopt.errors import DimensionMismatchError, IllTypedError, RankMismatchError, SuperoptError
from superopt.instances.instance import Instance
from superopt.ir.dimensions import symbol
from superopt.ir.numbers import substituted_number
from superopt.ir.terms import Application, Equation, Term, subterms, variables
from superopt.ir.types import TensorType
from superopt.ops.attributes import substituted
from superopt.ops.base import OPERATORS, operator_from_attributes
from superopt.verifier.certificates.cases import cases_of
from superopt.verifier.certificates.size_equations import numbered, solutions

MALFORMED = "malformed: "
"""Prefix of reasons if both sides are known to be never well-typed."""

MOST_RANK = 16
"""Rules that need tensors of more axes are not examined."""

_TRIED = 30
_SOLVED = 6
"""Maximum number of size equations solved in sequence to find the other requirements of an operator."""


def why_malformed(equation: Equation, largest_rank: int) -> str:
    """Return the reason why a rule has no case with tensors of up to that rank."""
    for name, terms in (("source", equation.left), ("target", equation.right)):
        for term in subterms(*terms):
            if isinstance(term, Application) and not _has_case(equation, (term,), largest_rank):
                why = _why_ill_typed(equation, term, largest_rank)
                return f"{MALFORMED}the {name} is never well-typed: {format_term(term)}{why}"
        if not _has_case(equation, terms, largest_rank):
            return f"{MALFORMED}the {name} is never well-typed as a whole"
    if equation.conditions and _any(_unconditional(equation), largest_rank):
        return f"{MALFORMED}its conditions hold for no well-typed sides"
    return f"{MALFORMED}the sides are never well-typed together, with the same type"


def _has_case(equation: Equation, terms: tuple[Term, ...], largest_rank: int) -> bool:
    return _any(_about(equation, terms), largest_rank, _unconditional(equation))


def _any(equation: Equation, largest_rank: int, whole: Equation | None = None) -> bool:
    """Whether there is a case; true if that is not known."""
    try:
        return next(iter(cases_of(equation, largest_rank, whole)), None) is not None
    except SuperoptError:
        return True


def _unconditional(equation: Equation) -> Equation:
    return replace(equation, conditions=())


def _about(equation: Equation, terms: tuple[Term, ...]) -> Equation:
    """Return the trivial equation of the terms with themselves, with the declared types of the given
    equation."""
    names = variables(*terms)
    declared = tuple((name, type_) for name, type_ in equation.types if name in names)
    return Equation(terms, terms, types=declared)


def _why_ill_typed(equation: Equation, term: Application, largest_rank: int) -> str:
    """Return the operator's error for well-typed inputs, preferably of ranks that it accepts."""
    about, whole = _about(equation, term.inputs), _unconditional(equation)
    try:
        cases = tuple(itertools.islice(cases_of(about, largest_rank, whole), _TRIED))
    except SuperoptError:
        return ""
    said = [error for case in cases for error in _refusals(term, case)]
    chosen = next((error for error in said if not isinstance(error, RankMismatchError)), None)
    chosen = chosen or next(iter(said), None)
    return "" if chosen is None else f": {chosen}"


def _refusals(term: Application, case: Instance) -> Iterator[IllTypedError]:
    values = {name: substituted_number(value, case.attributes) for name, value in term.attributes}
    implicit = {name: symbol(name) for name in OPERATORS[term.operator].implicit if name != "shape"}
    inputs = [case.typing.types[child] for child in term.inputs]
    try:
        yield from _refused(term.operator, {**implicit, **values}, inputs, _SOLVED)
    except SuperoptError:
        return


def _refused(
    name: str, values: Mapping[str, object], types: Sequence[TensorType], most: int
) -> Iterator[IllTypedError]:
    """Yield an operator's errors for its inputs; where sizes can be made equal, also the errors after
    that."""
    try:
        operator_from_attributes(name, values).infer(*types)
    except DimensionMismatchError as mismatch:
        found = solutions(mismatch.left, mismatch.right, numbered(f"solved {most} ")) if most else ()
        for one in found:
            solved = {key: substituted(value, one) for key, value in values.items()}
            yield from _refused(name, solved, [type_.substitute(one) for type_ in types], most - 1)
        if not found:
            yield mismatch
    except IllTypedError as error:
        yield error


def why_misapplied(equation: Equation) -> str:
    """Return which operator has another number of operands than it takes, or several outputs; else an empty
    string."""
    for term in equation.applications:
        expected, got = OPERATORS[term.operator].inputs, len(term.inputs)
        pieces = [each.name for each in OPERATORS.values() if each.in_graphs == term.operator]
        if pieces:
            return f"{MALFORMED}{term.operator} has several outputs: write {' and '.join(pieces)}"
        if expected != got:
            return f"{MALFORMED}{term.operator}: expected {expected} inputs, got {got}"
    return ""


__all__ = ["MALFORMED", "MOST_RANK", "why_malformed", "why_misapplied"]
