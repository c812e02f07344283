"""Rules of which only the checker has changed keep their certificates, if it accepts them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import delete

from superopt.cli.main import run
from superopt.equations import parse_equation, rule_id
from superopt.journeys.library import discovery
from superopt.journeys.library.discovery import verify_all, verify_pending
from superopt.substitution_db import CandidateRule, Database, RuleStatus
from superopt.substitution_db.rules.currency import current
from superopt.substitution_db.store.models import ProofRow
from superopt.substitution_db.store.records import JsonObject, Proof

RULES = ("relu(relu(x)) => relu(x)", "matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)")
IDS = tuple(rule_id(parse_equation(text)) for text in RULES)
REFUTED = "relu(x) => x"


@pytest.fixture
def proved(database: Database) -> Database:
    """Two proved rules and a refuted one."""
    texts = (*RULES, REFUTED)
    database.rules.add_candidates([CandidateRule(parse_equation(text), "test") for text in texts])
    assert verify_pending(database).verified == 2
    return database


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of all rules for which a proof is searched."""
    found: list[str] = []
    search = discovery.verify_or_condition_many

    def watched(choices: object, *rest: object, **options: object) -> object:
        forms = list(choices)  # type: ignore[call-overload]
        found.extend(rule_id(each[-1]) for each in forms)
        return search(forms, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(discovery, "verify_or_condition_many", watched)
    return found


def _proof(database: Database, rule: str) -> Proof:
    found = database.rules.get(rule)
    assert found is not None
    assert found.proof is not None
    return found.proof


def _alter(database: Database, rule: str, change: Callable[[Proof], Proof]) -> Proof:
    """Replace the proof of a rule by another, of a checker that is not the present one."""
    proof = _proof(database, rule)
    altered = change(replace(proof, hashes=replace(proof.hashes, verifier="another"), prover="some prover"))
    with database.transactions.write() as session:
        session.execute(delete(ProofRow).where(ProofRow.rule_id == rule))
    database.rules.record_verdict(rule, altered)
    return altered


def _with_links(proof: Proof, change: Callable[[list[JsonObject]], list[JsonObject]]) -> Proof:
    assert proof.certificate is not None
    chains = [change(list(chain)) for chain in proof.certificate["chains"]]  # type: ignore[attr-defined]
    return replace(proof, certificate={**proof.certificate, "chains": chains})


def test_a_certificate_that_the_checker_accepts_is_kept(proved: Database, searched: list[str]) -> None:
    before = _alter(proved, IDS[0], lambda proof: proof)
    result = verify_pending(proved)
    assert (result.judged, result.verified, result.renewed) == (1, 1, 1)
    after = _proof(proved, IDS[0])
    assert after == replace(before, hashes=replace(before.hashes, verifier=current().hashes.verifier))
    assert after.prover == "some prover"
    assert searched == []
    assert verify_pending(proved).judged == 0


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda proof: _with_links(proof, lambda chain: chain[:-1]), id="a link is missing"),
        pytest.param(lambda proof: replace(proof, certificate=None), id="there is no certificate"),
        pytest.param(lambda proof: replace(proof, grade="searched"), id="it was not replayed"),
        pytest.param(
            lambda proof: replace(proof, hashes=replace(proof.hashes, axioms="other")), id="an axiom changed"
        ),
        pytest.param(
            lambda proof: replace(proof, hashes=replace(proof.hashes, operators="other")),
            id="an operator changed",
        ),
    ],
)
def test_otherwise_a_proof_is_searched(
    proved: Database, searched: list[str], change: Callable[[Proof], Proof]
) -> None:
    _alter(proved, IDS[0], change)
    result = verify_pending(proved)
    assert (result.judged, result.verified, result.renewed) == (1, 1, 0)
    assert searched == [IDS[0]]
    assert _proof(proved, IDS[0]).prover != "some prover"


def test_a_certificate_of_a_false_rule_proves_nothing(proved: Database, searched: list[str]) -> None:
    """Evaluation is part of it, and a refuted rule is judged as before."""
    false = rule_id(parse_equation(REFUTED))
    true = _proof(proved, IDS[0])
    assert true.certificate is not None
    forged = {**true.certificate, "equation": REFUTED}
    _alter(
        proved,
        false,
        lambda _: replace(true, certificate=forged, hashes=replace(true.hashes, verifier="another")),
    )
    result = verify_pending(proved)
    assert (result.refuted, result.renewed, searched) == (1, 0, [false])
    found = proved.rules.get(false)
    assert found is not None
    assert found.status is RuleStatus.REFUTED


@pytest.mark.parametrize("renewed", [2, 0])
def test_all_rules_are_verified_again(proved: Database, searched: list[str], renewed: int) -> None:
    seen: list[tuple[int, int]] = []
    result = verify_all(proved, progress=lambda done, total: seen.append((done, total)), anew=not renewed)
    assert (result.judged, result.verified, result.refuted, result.renewed) == (3, 2, 1, renewed)
    assert len(searched) == 3 - renewed
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_command_says_how_many(
    proved: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(proved.url)
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)
    assert run(["library", "verify", "--all", "--database", url, "--jobs", "1"]) == 0
    assert (
        "3 judged: 2 verified (2 by the stored certificate), 1 refuted, 0 unproved" in capsys.readouterr().out
    )
    assert run(["library", "verify", "--anew", "--database", url]) == 2
    assert "--anew requires --all" in capsys.readouterr().err
