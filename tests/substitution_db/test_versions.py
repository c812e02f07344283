"""Verdicts become visible all at once; who began with a library keeps it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from superopt.axioms import axioms_from_text
from superopt.equations import rule_id
from superopt.errors import InvalidOptionError
from superopt.ir.terms import Equation
from superopt.substitution_db import CandidateRule, Database, Hashes, Outcome, Proof, RuleFilter, RuleStatus
from superopt.substitution_db.jobs.repository import NewJob
from superopt.substitution_db.rules.currency import Currency
from superopt.substitution_db.rules.versions import digest
from superopt.substitution_db.store.records import Evidence, JobFile, JobRole
from superopt.verifier.gate import CurrentState

AXIOMS = axioms_from_text({"activation": "idempotent: relu(relu(x)) = relu(x)"})
NOW = Currency(CurrentState(AXIOMS, "verifier-1", lambda _: "operators-1"))
LATER = Currency(CurrentState(AXIOMS, "verifier-2", lambda _: "operators-1"))
HASHES = Hashes(AXIOMS.hash_of(["idempotent"]), "operators-1", "verifier-1")
PROOF = Proof(Outcome.VERIFIED, "z3", "5.4", ("idempotent",), HASHES, 12.5, (), None, "proved")
REFUTED = replace(PROOF, verdict=Outcome.REFUTED, axioms_used=(), hashes=NOW.hashes)
OF_LATER = replace(PROOF, hashes=replace(HASHES, verifier="verifier-2"))


@pytest.fixture
def rules(database: Database, equations: tuple[Equation, ...]) -> list[str]:
    """Three candidates, by id."""
    database.rules.add_candidates(CandidateRule(equation, "test") for equation in equations[:3])
    return [rule_id(equation) for equation in equations[:3]]


def used(database: Database, number: int | None = None, currency: Currency = NOW) -> set[str]:
    return set(database.library.read(currency, number).equations)


def test_a_verdict_counts_when_it_is_published(database: Database, rules: list[str]) -> None:
    first = database.library.in_force()
    assert first is not None
    assert first.rules == 0
    database.rules.record_verdicts({rules[0]: PROOF, rules[1]: PROOF})
    assert used(database) == set()
    second = database.library.publish(NOW, "two more")
    assert (second.rules, second.sha256) == (2, digest(rules[:2]))
    assert used(database) == {rules[0], rules[1]}
    assert database.library.publish(NOW, "nothing new") == second
    database.rules.record_verdicts({rules[0]: REFUTED, rules[2]: PROOF})
    assert used(database) == {rules[0], rules[1]}
    third = database.library.publish(NOW, "one refuted, one more")
    assert used(database) == {rules[1], rules[2]}
    assert [used(database, v.number) for v in (first, second, third)] == [
        set(),
        set(rules[:2]),
        set(rules[1:]),
    ]
    assert [version.note for version in database.library.list()][:2] == ["one refuted, one more", "two more"]


def test_an_earlier_version_is_put_in_force_again(database: Database, rules: list[str]) -> None:
    database.rules.record_verdict(rules[0], PROOF)
    old = database.library.publish(NOW, "one")
    database.rules.record_verdict(rules[1], PROOF)
    database.library.publish(NOW, "two")
    restored = database.library.restore(old.number, NOW)
    assert (restored.sha256, restored.note) == (old.sha256, f"version {old.number} again")
    assert database.library.in_force() == restored
    assert used(database) == {rules[0]}
    with pytest.raises(InvalidOptionError, match="there is no version 99"):
        database.library.restore(99, NOW)


def test_a_version_whose_proofs_no_longer_stand_is_not_used(database: Database, rules: list[str]) -> None:
    database.rules.record_verdict(rules[0], PROOF)
    old = database.library.publish(NOW, "before the verifier changed")
    database.rules.record_verdict(rules[1], OF_LATER)
    new = database.library.publish(LATER, "after")
    assert used(database, old.number, LATER) == {rules[1]}
    assert database.library.read(LATER, old.number).version == new.number


def test_a_job_keeps_the_version_it_was_accepted_with(database: Database, rules: list[str]) -> None:
    blob = database.blobs.put_bytes(b"model")
    file = JobFile(JobRole.MODEL, "model.onnx", blob.sha256, blob.bytes)
    before = database.library.in_force()
    first = database.jobs.submit(NewJob("net.onnx", [file]))
    database.rules.record_verdict(rules[0], PROOF)
    after = database.library.publish(NOW, "one")
    second = database.jobs.submit(NewJob("net.onnx", [file]))
    assert before is not None
    lease = database.queue("worker").claim()
    assert lease is not None
    assert (lease.job.id, lease.job.library_version) == (first.id, before.number)
    assert second.library_version == after.number


def test_a_suspect_rule_is_in_no_version(database: Database, rules: list[str]) -> None:
    """Evidence holds at once; what was recorded and not published stays so."""
    database.rules.record_verdicts({rules[0]: PROOF, rules[1]: PROOF})
    first = database.library.publish(NOW, "two")
    database.rules.record_verdict(rules[2], PROOF)
    evidence = Evidence("optimize", "net.onnx", "0" * 64, 7, "output y: NaN", {"trace": []})
    database.quarantine.record({rules[0]: evidence, rules[2]: evidence, "0" * 16: evidence})
    database.quarantine.record({rules[0]: evidence})
    assert database.quarantine.evidence(rules[0]) == (evidence,)
    assert used(database) == used(database, first.number) == {rules[1]}
    renewed = database.library.renew(NOW, "without one")
    assert renewed is not None
    assert (renewed.rules, renewed.through_proof, renewed.note) == (1, first.through_proof, "without one")

    database.rules.record_verdict(rules[0], PROOF)
    database.library.publish(NOW, "proved again")
    assert used(database) == {rules[1]}
    found = {r.id: r.status for r in database.rules.list()}
    assert found == {rules[0]: "suspect", rules[1]: "verified", rules[2]: "suspect"}
    assert {r.id for r in database.rules.list(RuleFilter(status=RuleStatus.SUSPECT))} == {rules[0], rules[2]}
    assert [r.id for r in database.rules.list(RuleFilter(status=RuleStatus.VERIFIED))] == [rules[1]]
    assert database.rules.statistics().by_status[RuleStatus.SUSPECT] == 2

    database.quarantine.dismiss(rules[0], "mended")
    assert used(database) == {rules[0], rules[1]}
    assert database.quarantine.evidence(rules[0]) == ()
    with pytest.raises(InvalidOptionError, match=f"rule {rules[0]} is not suspect"):
        database.quarantine.dismiss(rules[0], "mended")
