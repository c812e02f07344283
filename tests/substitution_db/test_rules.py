from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from superopt.axioms import axioms_from_text
from superopt.equations import format_attribute, parse_equation, rule_id
from superopt.errors import InvalidEquationError, InvalidOptionError
from superopt.ir.terms import AttributeTerm, Equation
from superopt.ops.bilinear.filter_algorithms import KARATSUBA
from superopt.substitution_db import CandidateRule, Database, Hashes, Outcome, Proof, RuleFilter, RuleStatus
from superopt.substitution_db.rules.currency import Currency
from superopt.substitution_db.rules.statistics import Origin
from superopt.verifier.gate import CurrentState

AXIOMS = axioms_from_text(
    {"activation": "idempotent: relu(relu(x)) = relu(x)", "elementwise": "commutes: add(x, y) = add(y, x)"}
)
NOW = Currency(CurrentState(AXIOMS, "verifier-1", lambda _: "operators-1"))
LATER = Currency(CurrentState(AXIOMS, "verifier-2", lambda _: "operators-1"))
HASHES = Hashes(AXIOMS.hash_of(["idempotent"]), "operators-1", "verifier-1")
PROOF = Proof(Outcome.VERIFIED, "z3", "5.4", ("idempotent",), HASHES, 12.5, ("f32[2, 3]",), None, "proved")
UNPROVED = replace(PROOF, verdict=Outcome.UNPROVED, hashes=NOW.hashes, axioms_used=())
REFUTED = replace(UNPROVED, verdict=Outcome.REFUTED, counterexample="x = 1")


def stored(database: Database, equations: tuple[Equation, ...]) -> list[str]:
    database.rules.add_candidates(CandidateRule(equation, "test") for equation in equations)
    return [rule_id(equation) for equation in equations]


def test_nothing_is_verified_by_default(database: Database, equations: tuple[Equation, ...]) -> None:
    stored(database, equations)
    assert {rule.status for rule in database.rules.list()} == {RuleStatus.CANDIDATE}
    assert database.rules.verified_rules(NOW) == ()
    assert len(database.rules.undecided(NOW)) == len(equations)


def test_a_rule_found_twice_or_renamed_is_one_row(database: Database) -> None:
    first = parse_equation("matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)")
    again = parse_equation("matmul(matmul(a, b), c) <=> matmul(a, matmul(b, c))")
    added = database.rules.add_candidates([CandidateRule(first, "here"), CandidateRule(again, "there")])
    assert (added.new, added.known) == (1, 0)
    added = database.rules.add_candidates([CandidateRule(again, "there")])
    assert (added.new, added.known) == (0, 1)


def test_what_is_stored_comes_back(database: Database, equations: tuple[Equation, ...]) -> None:
    identity = stored(database, equations)[2]
    database.rules.record_verdict(identity, PROOF)
    rule = database.rules.get(identity)
    assert rule is not None
    assert rule.equation == "concat[axis=-1](matmul(x, y), matmul(x, z)) <=> matmul(x, concat[axis=-1](y, z))"
    assert rule.operators_source == ("concat", "matmul", "matmul")
    assert rule.operators_target == ("concat", "matmul")
    assert (rule.status, rule.provenance, rule.proof) == (RuleStatus.VERIFIED, "test", PROOF)
    assert database.rules.proofs(identity) == (PROOF,)
    assert database.rules.get("0" * 16) is None


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_verdict_is_the_status(
    database: Database, equations: tuple[Equation, ...], outcome: Outcome
) -> None:
    identity = stored(database, equations)[0]
    database.rules.record_verdict(identity, replace(PROOF, verdict=outcome))
    rule = database.rules.get(identity)
    assert rule is not None
    assert rule.status == str(outcome)
    assert [r.id for r in database.rules.verified_rules(NOW)] == ([identity] if outcome == "verified" else [])


def test_states_follow_the_hashes(database: Database, equations: tuple[Equation, ...]) -> None:
    proved, refuted, unproved, _ = stored(database, equations)
    database.rules.record_verdicts(
        {
            proved: PROOF,
            refuted: REFUTED,
            unproved: UNPROVED,
        }
    )
    assert [rule.equation for rule in database.rules.undecided(NOW)] == ["add(x, y) <=> add(y, x)"]
    steps = [(NOW, 0, "verified"), (LATER, 1, "stale"), (LATER, 0, "stale"), (NOW, 1, "verified")]
    for hashes, changed, expected in steps:
        assert database.rules.refresh(hashes) == changed
        rule = database.rules.get(proved)
        assert rule is not None
        assert rule.status == expected
    database.rules.refresh(LATER)
    assert database.rules.verified_rules(LATER) == ()
    assert len(database.rules.undecided(LATER)) == 4
    database.rules.record_verdict(proved, replace(UNPROVED, hashes=LATER.hashes))
    assert database.rules.verified_rules(LATER) == ()
    assert [rule.id for rule in database.rules.verified_rules(NOW)] == [proved]
    assert [rule.id for rule in database.rules.list(RuleFilter(status=RuleStatus.STALE))] == []


@pytest.mark.parametrize(
    ("chosen", "sizes"),
    [
        (RuleFilter(), [2, 3, 4, 5]),
        (RuleFilter(operator="matmul"), [4, 5]),
        (RuleFilter(operator="concat"), [5]),
        (RuleFilter(operator="softmax"), []),
        (RuleFilter(text="relu("), [3]),
        (RuleFilter(text="%"), []),
        (RuleFilter(preset="test"), []),
        (RuleFilter(status=RuleStatus.VERIFIED), [3]),
        (RuleFilter(status=RuleStatus.CANDIDATE, operator="matmul"), [4, 5]),
    ],
)
def test_rules_are_listed_smallest_first(
    database: Database, equations: tuple[Equation, ...], chosen: RuleFilter, sizes: list[int]
) -> None:
    database.rules.record_verdict(stored(database, equations)[0], PROOF)
    listed = database.rules.list(chosen)
    assert [len(rule.operators_source) + len(rule.operators_target) for rule in listed] == sizes
    assert database.rules.list(chosen, limit=1) == listed[:1]
    for i, rule in enumerate(listed):
        assert database.rules.list(chosen, after=rule.id) == listed[i + 1 :]


@pytest.mark.parametrize(
    ("text", "found"), [("F(2,2)", 1), ("rows=F(2,2), padding", 1), ("((1, 0)", 1), ("F(4,3)", 0), ("f(2", 0)]
)
def test_rules_are_found_by_the_names_of_their_algorithms(
    database: Database, equations: tuple[Equation, ...], text: str, found: int
) -> None:
    stored(database, equations)
    rows = format_attribute("rows", cast("AttributeTerm", KARATSUBA))
    by_algorithm = f"bilinear_conv[{rows}, padding=p](x, filter_transform[{rows}](y))"
    rule = parse_equation(f"conv[padding=p](x, y) => {by_algorithm}")
    assert len(stored(database, (rule,))) == 1
    assert [one.id for one in database.rules.list(RuleFilter(text=text))] == [rule_id(rule)] * found


def test_statistics(database: Database, equations: tuple[Equation, ...]) -> None:
    proved = stored(database, equations)[1]
    conditional = parse_equation("avgpool[kernel=k, stride=1](x) => x where odd(k), k = 1")
    found = [
        CandidateRule(conditional, "vision, 3 operators"),
        CandidateRule(equations[0], "matrix, 2 operators"),
    ]
    database.rules.add_candidates(found)
    replayed = replace(PROOF, milliseconds=20.5, grade="replayed", confirmed_by="cvc5 1.4.2")
    database.rules.record_verdicts({proved: PROOF, rule_id(conditional): replayed})
    statistics = database.rules.statistics()
    none = dict.fromkeys(("refuted", "unproved", "stale", "suspect"), 0)
    assert statistics.by_status == {"candidate": 3, "verified": 2, **none}
    assert statistics.verified_by_operator == {"avgpool": 1, "matmul": 1}
    assert statistics.verified_by_family == {"matrix": 1, "pooling": 1}
    assert [(str(c.origin), c.by_size, c.conditional) for c in statistics.by_origin] == [
        ("test", {2: 1}, 0),
        ("vision, 3 operators", {1: 1}, 1),
    ]
    assert (statistics.conditional, statistics.replayed, statistics.confirmed) == (1, 1, 1)
    assert statistics.median_milliseconds == 16.5


@pytest.mark.parametrize(
    ("provenance", "preset", "max_ops"),
    [
        ("matrix, 3 operators", "matrix", 3),
        ("my own, bold, 12 operators", "my own, bold", 12),
        ("import rules.jsonl; matrix, 3 operators", "import rules.jsonl; matrix", 3),
        ("a test", "a test", None),
        ("", "", None),
    ],
)
def test_where_rules_come_from(provenance: str, preset: str, max_ops: int | None) -> None:
    assert Origin.of(provenance) == Origin(preset, max_ops)
    assert str(Origin.of(provenance)) == provenance


def test_mistakes_change_nothing(database: Database, equations: tuple[Equation, ...]) -> None:
    malformed = parse_equation("relu(x) => add(x, y)")
    with pytest.raises(InvalidEquationError):
        database.rules.add_candidates([CandidateRule(equations[0], "test"), CandidateRule(malformed, "test")])
    assert database.rules.list() == ()
    known = stored(database, equations)[0]
    with pytest.raises(InvalidOptionError, match="no rule 0000"):
        database.rules.record_verdicts({known: PROOF, "0000": PROOF})
    assert database.rules.verified_rules(NOW) == ()
    with pytest.raises(InvalidOptionError, match="continue after"):
        database.rules.list(after="0000")


def test_many_rules_go_in_at_once(database: Database) -> None:
    many = [
        parse_equation(f"enlarge[kernel={n}](relu(x)) => relu(enlarge[kernel={n}](x))")
        for n in range(1, 1201)
    ]
    added = database.rules.add_candidates(CandidateRule(equation, "test") for equation in many)
    assert (added.new, added.known) == (1200, 0)
    database.rules.record_verdicts({rule_id(equation): PROOF for equation in many})
    assert len(database.rules.verified_rules(NOW)) == 1200


def test_a_proof_counts_while_the_axioms_that_it_used_are_unchanged(
    database: Database, equations: tuple[Equation, ...]
) -> None:
    proved, unproved, *_ = stored(database, equations)
    database.rules.record_verdicts({proved: PROOF, unproved: UNPROVED})
    texts = {
        "activation": "idempotent: relu(relu(x)) = relu(x)",
        "elementwise": "commutes: mul(x, y) = mul(y, x)",
    }
    another = Currency(CurrentState(axioms_from_text(texts), "verifier-1", lambda _: "operators-1"))
    database.rules.refresh(another)
    assert [rule.id for rule in database.rules.verified_rules(another)] == [proved]
    assert unproved in {rule.id for rule in database.rules.undecided(another)}
    texts["activation"] = "idempotent: relu(relu(y)) = relu(relu(relu(y)))"
    changed = Currency(CurrentState(axioms_from_text(texts), "verifier-1", lambda _: "operators-1"))
    assert database.rules.verified_rules(changed) == ()
    assert database.rules.refresh(changed) == 1


def test_the_general_form_takes_the_place_of_a_candidate(database: Database) -> None:
    special = parse_equation("avgpool[kernel=3, stride=1](relu(x)) => relu(x)")
    general = parse_equation("avgpool[kernel=3, stride=s](relu(x)) => relu(x)")
    database.rules.add_candidates([CandidateRule(special, "test", (general, special))])
    (stored_rule,) = database.rules.list()
    assert stored_rule.generalizations == ("avgpool[kernel=3, stride=s](relu(x)) => relu(x)",)
    database.rules.record_general_form(stored_rule.id, CandidateRule(general, "test"), PROOF)
    assert [rule.id for rule in database.rules.list()] == [rule_id(general)]
    database.rules.add_candidates([CandidateRule(special, "test")])
    database.rules.record_verdict(rule_id(special), UNPROVED)
    database.rules.drop_candidate(rule_id(special))
    assert len(database.rules.list()) == 2
