"""Certificates in the database and in files: stored, exchanged, replayed, demanded by the gate."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text

from superopt import substitution_db
from superopt.axioms import load_axioms
from superopt.equations import parse_equation, rule_id
from superopt.journeys.library.discovery import verify_pending
from superopt.journeys.library.gate import (
    compare_hashes_of_database,
    compare_hashes_of_files,
    gate_database,
    gate_files,
)
from superopt.journeys.library.judging import prove_equation
from superopt.substitution_db import CandidateRule, Database, Outcome, Proof, open_database, upgrade_database
from superopt.substitution_db.rules.certificates import chain_of, why_not_replayed
from superopt.substitution_db.rules.currency import current
from superopt.substitution_db.rules.exchange import export_rules
from superopt.substitution_db.store.migrate import HEAD

RULES = (
    "matmul(x, add(matmul(y, z), w)) => add(matmul(matmul(x, y), z), matmul(x, w))",
    "relu(relu(relu(x))) => relu(x)",
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rules, proved, as exported."""
    directory = tmp_path_factory.mktemp("library")
    with open_database(str(directory / "rules.db"), library=directory / "none") as database:
        database.rules.add_candidates(CandidateRule(parse_equation(rule), "test") for rule in RULES)
        assert verify_pending(database).verified == len(RULES)
        export_rules(database.rules.list(), directory / "library.jsonl")
    return directory / "library.jsonl"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_certificate_is_stored_and_comes_back(library: Path, database: Database, tmp_path: Path) -> None:
    by_id = {line["id"]: line["proof"] for line in lines_of(library)}
    with open_database(str(tmp_path / "loaded.db"), library=library) as loaded:
        for rule in loaded.rules.verified_rules(current()):
            assert rule.proof is not None
            assert rule.proof.grade == "replayed"
            assert rule.proof.certificate == by_id[rule.id]["certificate"]
            assert why_not_replayed(rule.id, rule.proof, load_axioms()) == ""
            database.rules.add_candidates([CandidateRule(parse_equation(rule.equation), "test")])
            database.rules.record_verdict(rule.id, rule.proof)
            stored = database.rules.get(rule.id)
            assert stored is not None
            assert stored.proof == rule.proof


def test_a_chain_can_be_read(library: Path, tmp_path: Path) -> None:
    with open_database(str(tmp_path / "loaded.db"), library=library) as loaded:
        rule = loaded.rules.get(rule_id(parse_equation(RULES[0])))
    assert rule is not None
    assert rule.proof is not None
    chain = (
        "  matmul(x, add(matmul(y, z), w))\n"
        "= add(matmul(x, matmul(y, z)), matmul(x, w))  by matmul-over-add-right\n"
        "= add(matmul(matmul(x, y), z), matmul(x, w))  by matmul-associative, at input 1"
    )
    assert chain_of(rule.equation, rule.proof) == chain
    assert (
        chain_of("other", rule.proof) == f"of {RULES[0]}, the same rule with other variable names:\n\n{chain}"
    )


def test_a_rule_spelled_otherwise_keeps_its_certificate(database: Database) -> None:
    """A more general form may be there already under other names; the certificate says which it is about."""
    spelled = parse_equation("relu(relu(relu(data))) => relu(data)")
    database.rules.add_candidates(
        [CandidateRule(spelled, "test"), CandidateRule(parse_equation("relu(x) => x"), "test")]
    )
    proof = prove_equation(parse_equation(RULES[1]))
    general = CandidateRule(parse_equation(RULES[1]), "test")
    assert database.rules.record_general_form(
        rule_id(parse_equation("relu(x) => x")), general, proof
    ) == rule_id(spelled)
    stored = database.rules.get(rule_id(spelled))
    assert stored is not None
    assert stored.proof is not None
    assert stored.equation == "relu(relu(relu(data))) => relu(data)"
    assert why_not_replayed(stored.id, stored.proof, load_axioms()) == ""
    assert gate_database(database, current()).passed


def test_the_gate_passes_what_replays(library: Path, tmp_path: Path) -> None:
    assert gate_files([library], current()).passed
    seen: list[tuple[int, int]] = []
    with open_database(str(tmp_path / "loaded.db"), library=library) as loaded:
        result = gate_database(loaded, current(), progress=lambda done, total: seen.append((done, total)))
    assert (result.rules, result.replayed, result.offenders) == (2, 2, ())
    assert seen == [(1, 2), (2, 2)]


def weaker(proof: dict[str, Any]) -> None:
    proof |= {"grade": "sampled", "certificate": None}


def older(proof: dict[str, Any]) -> None:
    del proof["grade"], proof["certificate"]


def bare(proof: dict[str, Any]) -> None:
    proof["certificate"] = None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (weaker, "its grade is sampled, not replayed"),
        (older, "its grade is not known, not replayed"),
        (bare, "it has no certificate"),
    ],
)
def test_a_weaker_proof_passes_where_only_hashes_are_compared(
    library: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    lines = lines_of(library)
    change(lines[1]["proof"])
    path = written(tmp_path / "weaker.jsonl", lines)
    with open_database(str(tmp_path / "loaded.db"), library=path) as loaded:
        assert compare_hashes_of_database(loaded, current()).passed
        for result in (gate_database(loaded, current()), gate_files([path], current())):
            assert [(o.id, o.reason) for o in result.offenders] == [(lines[1]["id"], reason)]
    assert compare_hashes_of_files([path], current()).passed


def no_link(certificate: dict[str, Any]) -> None:
    del certificate["chains"][0][0]


def other_axiom(certificate: dict[str, Any]) -> None:
    certificate["chains"][0][0]["axiom"] = "add-commutative"


def other_term(certificate: dict[str, Any]) -> None:
    certificate["chains"][0][0]["term"] = "relu(x)"


def other_rule(certificate: dict[str, Any]) -> None:
    certificate["equation"] = "relu(relu(x)) => relu(x)"


def no_equation(certificate: dict[str, Any]) -> None:
    certificate["equation"] = "relu("


def another_schema(certificate: dict[str, Any]) -> None:
    certificate["schema"] = 7


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (no_link, "its certificate does not replay: output 0, link 1 ("),
        (other_axiom, "its certificate uses axioms that its proof does not name: add-commutative"),
        (other_term, "its certificate does not replay: output 0, link 1 ("),
        (other_rule, "its certificate proves relu(relu(x)) => relu(x)"),
        (no_equation, "certificate: line 1: the equation 'relu(' ends too early"),
        (another_schema, "certificate: expected schema 1, got 7"),
    ],
)
def test_the_gate_stops_a_certificate_that_does_not_replay(
    library: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    lines = copy.deepcopy(lines_of(library))
    change(lines[0]["proof"]["certificate"])
    path = written(tmp_path / "changed.jsonl", lines)
    with open_database(str(tmp_path / "loaded.db"), library=path) as loaded:
        results = (gate_files([path], current()), gate_database(loaded, current()))
    for result in results:
        assert [offender.id for offender in result.offenders] == [lines[0]["id"]]
        assert result.offenders[0].reason.startswith(reason)


OLD_ROWS = (
    (
        "rules VALUES ('17af882e6e7f2525', 'relu(relu(x)) => relu(x)', '', 3, 'verified', '[]', 'test', "
        "'2026-01-01 00:00:00')"
    ),
    (
        "proofs VALUES (1, '17af882e6e7f2525', 'verified', 'z3', '5', '[]', 'a', 'o', 'v', 1.0, '[]', "
        "NULL, '', '2026-01-01 00:00:00')"
    ),
)


def test_a_database_of_the_first_schema_is_brought_up(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    engine = create_engine(url)
    configuration = Config()
    configuration.set_main_option(
        "script_location", str(Path(substitution_db.__file__).parent / "store" / "migrations")
    )
    with engine.begin() as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, "0001")
        for row in OLD_ROWS:
            connection.execute(text(f"INSERT INTO {row}"))
    engine.dispose()
    assert upgrade_database(url) == ("0001", HEAD)
    with open_database(url, library=tmp_path / "none") as database:
        rule = database.rules.get("17af882e6e7f2525")
    assert rule is not None
    assert isinstance(rule.proof, Proof)
    assert (rule.proof.verdict, rule.proof.grade, rule.proof.certificate) == (Outcome.VERIFIED, "", None)
