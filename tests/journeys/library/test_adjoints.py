"""Discovery of adjoint statements, compared with those of the axiom files."""

from __future__ import annotations

from dataclasses import replace

from superopt.axioms import AxiomSet, load_axioms
from superopt.equations import format_term, parse_adjoint, parse_term
from superopt.generator.adjoints import load_vocabulary
from superopt.journeys.library.adjoints import (
    Discovery,
    Verdict,
    confirmed,
    discover,
    merged,
    without_goals,
)
from superopt.verifier.adjoints import AdjointEffort

SHORT = AdjointEffort(cases=0, drawn=12, sampled=2, symbolic=1)


def discovered(*operators: str, axioms: AxiomSet | None = None) -> list[Discovery]:
    """Discoveries of operators, confirmed with little effort."""
    vocabulary = load_vocabulary().restricted_to(operators)
    return confirmed(merged(discover(axioms or load_axioms(), vocabulary)), effort=SHORT)


def test_statements_of_the_axiom_files_are_found() -> None:
    found = discovered("exp", "matmul", "tanh")
    assert [(each.operator, each.input, each.verdict) for each in found] == [
        ("exp", 0, Verdict.STATED),
        ("matmul", 0, Verdict.STATED),
        ("matmul", 1, Verdict.STATED),
        ("tanh", 0, Verdict.STATED),
    ]
    assert all(not each.missed for each in found)
    assert {form.name for each in found for form in each.forms if form.name} == {
        *("adjoint-of-exp", "adjoint-of-matmul-0", "adjoint-of-matmul-0-summed"),
        *("adjoint-of-matmul-1", "adjoint-of-matmul-1-rows", "adjoint-of-tanh"),
    }


def test_operands_may_have_other_names_in_a_statement() -> None:
    renamed = parse_adjoint("product: adjoint[input=1](mul(b, a), h) = mul(b, h)")
    (_, right) = discovered("mul", axioms=replace(load_axioms(), adjoints=(renamed,)))
    assert [form.name for form in right.forms if form.name] == ["product"]


def test_a_wrong_statement_is_not_found() -> None:
    """That of RAF, section 3.1.1."""
    wrong = parse_adjoint("raf: adjoint[input=0](tanh(x), g) = mul(g, sub(ones(), add(tanh(x), tanh(x))))")
    (found,) = discovered("tanh", axioms=replace(load_axioms(), adjoints=(wrong,)))
    assert found.verdict is Verdict.OTHER
    assert found.missed == ("raf",)
    assert "mul(g, sub(ones(), mul(tanh(x), tanh(x))))" in {
        format_term(form.statement.gradient) for form in found.forms
    }


def test_a_form_that_holds_at_few_applications_only_is_dropped() -> None:
    (found,) = merged(discover(load_axioms(), load_vocabulary().restricted_to(["exp"])))
    form = next(form for form in found.forms if form.name)
    false = replace(form, statement=replace(form.statement, gradient=parse_term("mul(g, x)")))
    (kept,) = confirmed([replace(found, forms=(false,))], effort=SHORT)
    assert (kept.forms, kept.missed, kept.verdict) == ((), ("adjoint-of-exp",), Verdict.NOT_FOUND)
    assert kept.refuted == found.refuted + 1


def test_what_is_too_large_is_said_to_follow_from_a_definition() -> None:
    vocabulary = load_vocabulary().restricted_to(["silu"]).up_to(2)
    (found,) = discover(load_axioms(), vocabulary)
    assert (found.verdict, found.definition, found.reach) == (Verdict.CHAIN, "silu-definition", 2)


def test_operands_without_goals_are_named() -> None:
    axioms, vocabulary = load_axioms(), load_vocabulary()
    assert without_goals(axioms, vocabulary) == ()
    fewer = replace(vocabulary, goals=tuple(g for g in vocabulary.goals if g.operator.name != "exp"))
    assert [(each.operator, each.input) for each in without_goals(axioms, fewer)] == [("exp", 0)]
