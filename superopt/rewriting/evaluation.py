"""The value of terms, over any domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from superopt.domains import Domain
from superopt.ir.terms import Term, Variable, subterms
from superopt.rewriting.typing import Typing

A = TypeVar("A")


def evaluate_terms(
    terms: Sequence[Term], typing: Typing, domain: Domain[A], arrays: Mapping[str, A]
) -> tuple[A, ...]:
    """The values of the terms for stacked arrays of the variables; ``typing`` has resolved every operator.

    Sizes in the typing must be numbers, not symbols.
    """
    values: dict[Term, A] = {}
    for term in subterms(*terms):
        if isinstance(term, Variable):
            values[term] = arrays[term.name]
        else:
            operator = typing.operators[term]
            (values[term],) = operator.evaluate(domain, *(values[child] for child in term.inputs))
    return tuple(values[term] for term in terms)
