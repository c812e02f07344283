"""Verdicts: right rules are verified, wrong ones refuted by a counterexample, everything else is unproved."""

from __future__ import annotations

import re

import pytest

from superopt.axioms import axioms_from_text, load_axioms
from superopt.equations import format_equation, parse_equation
from superopt.verifier import Options, Status, Verdict, verify, verify_many, verify_most_general
from superopt.verifier.prove.smtlib import Relevance
from superopt.verifier.prove.solver import SolverLimits, Strategy, ask
from superopt.verifier.refute.refutation import Effort
from superopt.verifier.verification import MOST_BOUNDED, challenged
from tests.verifier.rules import RIGHT, WRONG

QUICK = Options(effort=Effort(schemes=10, per_scheme=2, stack=2))


@pytest.mark.parametrize("text", RIGHT)
def test_a_right_rule_is_verified(text: str) -> None:
    verdict = verify(parse_equation(text), load_axioms(), options=QUICK)
    assert verdict.status is Status.VERIFIED, verdict.reason
    assert verdict.axioms_used
    assert verdict.validated_shapes
    assert re.fullmatch("[0-9a-f]{16}", verdict.axioms_hash)


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_wrong_rule_is_refuted(text: str) -> None:
    verdict = verify(parse_equation(text), load_axioms())
    assert verdict.status is Status.REFUTED, verdict
    assert verdict.counterexample
    assert "left" in verdict.counterexample


def test_a_counterexample_can_be_read() -> None:
    verdict = verify(parse_equation("matmul(x, transpose(x)) => matmul(transpose(x), x)"), load_axioms())
    assert verdict.counterexample is not None
    assert re.match(r"x: f32\[.*\]: left (has type|\[)", verdict.counterexample)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gelu(x) => mul(x, sigmoid(scale(x, full[value=2])))", None),
        ("erf(add(x, y)) => erf(add(y, x))", None),
        ("softmax[axis=3](x) => softmax[axis=-1](x)", None),
        (
            "matmul(x, scale(y, x)) => matmul(x, y)",
            (
                "malformed: the source is never well-typed: matmul(x, scale(y, x)): matmul, first "
                "input: expected rank 2 to 64, got 0"
            ),
        ),
        ("avgpool[kernel=9](x) => avgpool[kernel=9, includes_padding=1](x)", None),
    ],
)
def test_verdicts_at_the_edge(text: str, reason: str | None) -> None:
    expected = {
        "gelu(x) => mul(x, sigmoid(scale(x, full[value=2])))": Status.REFUTED,
        "erf(add(x, y)) => erf(add(y, x))": Status.VERIFIED,
        "avgpool[kernel=9](x) => avgpool[kernel=9, includes_padding=1](x)": Status.VERIFIED,
        "softmax[axis=3](x) => softmax[axis=-1](x)": Status.REFUTED,
    }.get(text, Status.UNPROVED)
    verdict = verify(parse_equation(text), load_axioms())
    assert verdict.status is expected, verdict
    assert reason is None or verdict.reason == reason


def test_a_true_rule_that_no_axiom_supports_is_unproved() -> None:
    few = axioms_from_text({"f": "add-commutative: add(x, y) = add(y, x)"})
    verdict = verify(parse_equation("mul(x, y) => mul(y, x)"), few, options=QUICK)
    assert verdict.status is Status.UNPROVED
    assert verdict.reason.startswith("no proof: ")
    assert not verdict.axioms_used
    assert not verdict.axioms_hash


def test_a_solver_without_resources_proves_nothing() -> None:
    goal = parse_equation(
        "matmul(x, add(y, concat[axis=-1](z, w))) = matmul(add(y, x), concat[axis=-1](w, z))"
    )
    usable = Relevance(load_axioms().equations, goal).within(1)
    answer = ask(goal, usable, Strategy.MODELS, SolverLimits(resources=1))
    assert not answer.proved
    assert answer.steps == ()
    assert "canceled" in answer.reason


def test_a_solver_without_memory_has_no_answer_and_the_next_question_has_one() -> None:
    equation = parse_equation("add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))")
    with pytest.raises(MemoryError, match="a solver ran out of memory"):
        verify(equation, load_axioms(), options=Options(QUICK.effort, SolverLimits(megabytes=1)))
    assert verify(equation, load_axioms(), options=QUICK).status is Status.VERIFIED


def test_what_is_proved_is_challenged_on_instances_that_nobody_can_predict() -> None:
    proved = Verdict(Status.VERIFIED)
    wrong = challenged(parse_equation("relu(x) => x"), proved)
    assert (wrong.status, wrong.is_contradicted) == (Status.REFUTED, True)
    assert wrong.counterexample
    right = parse_equation("relu(relu(x)) => relu(x)")
    assert all(challenged(right, proved) is proved for _ in range(20))


def test_the_most_general_provable_form_is_chosen() -> None:
    candidates = [
        parse_equation("relu(conv[padding=p, activation=c](x, w)) => conv[padding=p, activation=c](x, w)"),
        parse_equation("relu(conv[padding=p](x, w)) => conv[padding=p, activation=relu](x, w)"),
        parse_equation("relu(conv(x, w)) => conv[activation=relu](x, w)"),
    ]
    equation, verdict = verify_most_general(candidates, load_axioms(), options=QUICK)
    assert (equation, verdict.status) == (candidates[1], Status.VERIFIED)


def test_many_verdicts_are_the_same_in_parallel_and_in_order() -> None:
    equations = [parse_equation(text) for text in (*RIGHT[:4], WRONG["a dropped relu"], *RIGHT[6:8])]
    told: list[tuple[int, int]] = []
    parallel = list(
        verify_many(
            [[e] for e in equations],
            load_axioms(),
            jobs=2,
            options=QUICK,
            progress=lambda done, total: told.append((done, total)),
        )
    )
    alone = list(verify_many([[e] for e in equations], load_axioms(), options=QUICK))
    assert [equation for equation, _ in parallel] == equations
    assert [(v.status, v.axioms_used, v.counterexample) for _, v in parallel] == [
        (v.status, v.axioms_used, v.counterexample) for _, v in alone
    ]
    assert told == [(done, 7) for done in range(1, 8)]


def test_a_form_with_too_many_cases_is_claimed_for_fewer_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = [
        parse_equation(
            f"softmax[axis={a}](sub(x, broadcast(reduce_max[axis={a}](x)))) <=> softmax[axis={a}](x)"
        )
        for a in ("a", "-1")
    ]
    monkeypatch.setattr("superopt.verifier.certificates.cases.MOST_STEPS", 900)
    equation, verdict = verify_most_general(forms, load_axioms(), options=QUICK)
    assert format_equation(equation) == f"{format_equation(forms[0])} where rank(x) <= {MOST_BOUNDED}"
    assert verdict.status is Status.VERIFIED
    assert verify_most_general(forms[1:], load_axioms(), options=QUICK)[0] == forms[1]
