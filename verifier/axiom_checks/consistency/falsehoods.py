"""Text form of falsehoods: the derived equation, its axioms, its chain, its kind."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from superopt.equations import format_equation, format_term
from superopt.ir.terms import AttributeTerm, Equation, Term, Variable, variables
from superopt.verifier.axiom_checks.consistency.interpretation import Interpretation, Kind, classify
from superopt.verifier.axiom_checks.consistency.overlaps import replaced
from superopt.verifier.certificates.certificate import Link, format_certificate
from superopt.verifier.prove.chain import instantiated
from superopt.verifier.prove.explanation import explain
from superopt.verifier.prove.solver import AxiomInstance


@dataclass(frozen=True)
class Falsehood:
    """Two terms that the axioms make equal and that differ; all in text, to be kept and shown.

    ``steps`` are instances of axioms that suffice, ``instance`` the types under which the terms differ.
    """

    kind: Kind
    equation: str
    axioms: tuple[str, ...]
    steps: tuple[str, ...]
    instance: str
    difference: str
    reason: str
    found_by: str


def falsehood(
    interpretation: Interpretation,
    axioms: Mapping[str, Equation],
    steps: Sequence[AxiomInstance],
    goal: Equation,
    differs: str,
    found_by: str,
) -> Falsehood:
    """In words: variables renamed, attributes with their values, the shortest chain when there is one."""
    shown, shown_steps, names = _in_plain_names(interpretation, goal, steps)
    back: Mapping[Term, Term] = {Variable(new): Variable(old) for old, new in names.items()}
    certificate = explain(shown, axioms, shown_steps)
    if certificate is None:
        lines = tuple(f"{s.axiom}: {format_equation(instantiated(axioms[s.axiom], s))}" for s in shown_steps)
        chain, needed = goal.terms, [tuple(steps)]
    else:
        lines = tuple(format_certificate(shown, certificate).splitlines())
        (links,) = certificate.chains
        by_content = {_content(each): step for each, step in zip(shown_steps, steps, strict=True)}
        chain = (*goal.left, *(replaced(link.term, back) for link in links))
        needed = [(by_content[_content(link)],) for link in links]
    by: Mapping[Term, Term] = {old: new for new, old in back.items()}

    def written(term: Term) -> str:
        return format_term(replaced(interpretation.concrete(term), by))

    kind, reason = classify(interpretation, axioms, chain, needed, written)
    used = tuple(sorted({step.axiom for link in needed for step in link}))
    types = ", ".join(f"{new}: {interpretation.types[old]}" for old, new in names.items())
    return Falsehood(kind, format_equation(shown), used, lines, types, differs, reason, found_by)


def _content(
    step: AxiomInstance | Link,
) -> tuple[str, frozenset[tuple[str, Term]], frozenset[tuple[str, AttributeTerm]]]:
    return step.axiom, frozenset(step.terms), frozenset(step.attributes)


def _in_plain_names(
    interpretation: Interpretation, goal: Equation, steps: Sequence[AxiomInstance]
) -> tuple[Equation, tuple[AxiomInstance, ...], dict[str, str]]:
    """Goal and steps with values of attributes and with x, y, z for variables; and which is which."""
    values = [interpretation.concrete(term) for step in steps for _, term in step.terms]
    sides = [interpretation.concrete(term) for term in goal.terms]
    names = dict(zip(variables(*sides, *values), _plain_names(), strict=False))
    by: Mapping[Term, Term] = {Variable(old): Variable(new) for old, new in names.items()}
    shown = tuple(
        AxiomInstance(
            step.axiom,
            tuple((name, replaced(interpretation.concrete(term), by)) for name, term in step.terms),
            tuple((name, interpretation.value(value)) for name, value in step.attributes),
        )
        for step in steps
    )
    return Equation((replaced(sides[0], by),), (replaced(sides[1], by),)), shown, names


def _plain_names() -> Iterator[str]:
    yield from "xyzwuv"
    yield from (f"x{number}" for number in itertools.count(6))


__all__ = ["Falsehood", "falsehood"]
