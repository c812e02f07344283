"""The gate: changing one axiom makes exactly the rules stale whose proofs used it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from superopt.axioms import axioms_from_text
from superopt.equations import parse_equation
from superopt.verifier import content_hashes, verify
from superopt.verifier.gate import CurrentState, StoredVerdict, current_state, judge, judge_all
from superopt.verifier.hashes import operators_in

TEXT = """
add-commutative: add(x, y) = add(y, x)
mul-commutative: mul(x, y) = mul(y, x)
"""
AXIOMS = axioms_from_text({"f": TEXT})


def _stored(text: str) -> StoredVerdict:
    equation = parse_equation(text)
    verdict = verify(equation, AXIOMS)
    return StoredVerdict(
        text,
        verdict.status,
        operators_in(equation),
        verdict.axioms_used,
        verdict.axioms_hash,
        verdict.operators_hash,
        verdict.verifier_hash,
    )


def test_what_was_just_proved_is_current() -> None:
    rule = _stored("add(relu(x), y) => add(y, relu(x))")
    assert judge(rule, current_state(AXIOMS)).current


def test_a_changed_axiom_makes_exactly_its_rules_stale() -> None:
    rules = [_stored("add(relu(x), y) => add(y, relu(x))"), _stored("mul(relu(x), y) => mul(y, relu(x))")]
    changed = axioms_from_text({"f": TEXT.replace("mul(y, x)", "mul(y, identity(x))")})
    assert [judgement.reason for judgement in judge_all(rules, current_state(changed))] == [
        "",
        "stale: an axiom of its proof has changed (mul-commutative)",
    ]
    gone = axioms_from_text({"f": "add-commutative: add(x, y) = add(y, x)"})
    assert [judgement.reason for judgement in judge_all(rules, current_state(gone))] == [
        "",
        "stale: axioms are gone: mul-commutative",
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": "refuted"}, "status is refuted, not verified"),
        ({"status": "candidate"}, "status is candidate, not verified"),
        ({"operators_hash": "0"}, "stale: the meaning of an operator has changed (add, relu)"),
        ({"verifier_hash": ""}, "stale: the checker has changed"),
        ({"axioms_hash": ""}, "stale: an axiom of its proof has changed (add-commutative)"),
    ],
)
def test_reasons(change: dict[str, str], reason: str) -> None:
    rule = replace(_stored("add(relu(x), y) => add(y, relu(x))"), **change)  # pyright: ignore[reportArgumentType]
    assert judge(rule, current_state(AXIOMS)).reason == reason


def test_every_reason_is_given() -> None:
    rule = replace(_stored("add(relu(x), y) => add(y, relu(x))"), operators_hash="0")
    assert judge(rule, CurrentState(AXIOMS, "0")).reason == (
        "stale: the meaning of an operator has changed (add, relu); stale: the checker has changed"
    )


def test_the_hashes_of_everything_differ() -> None:
    hashes = content_hashes(AXIOMS)
    assert len({hashes.axioms, hashes.operators, hashes.verifier}) == 3
