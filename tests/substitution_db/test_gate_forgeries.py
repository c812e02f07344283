"""Whatever is done to a rule, the gate says what is wrong with it: in a file, in a database, in the library
that fills databases.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from superopt.cli.main import run
from superopt.equations import parse_equation, rule_id, spelled, text_id
from superopt.journeys.library.discovery import verify_pending
from superopt.journeys.library.gate import (
    GateResult,
    compare_hashes_of_files,
    compare_hashes_of_library,
    gate_files,
    gate_library_rules,
)
from superopt.substitution_db import CandidateRule, open_database
from superopt.substitution_db.rules.currency import current
from superopt.substitution_db.rules.exchange import export_rules

GROUPS = (
    "concat[axis=1](conv(x, y), conv(x, z)) => conv(x, concat[axis=0](y, z)) "
    "where groups(x, y) = 1, groups(x, z) = 1"
)
RELU, TANH = "relu(relu(relu(x))) => relu(relu(x))", "tanh(transpose(transpose(x))) => tanh(x)"
TYPED = "add(x: f32[2, 3], y: f32[2, 3]) => add(y, x)"
RULES = (GROUPS, RELU, TANH, TYPED)
Line = dict[str, Any]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with rules, proved: as a database and as exported."""
    directory = tmp_path_factory.mktemp("honest")
    with open_database(str(directory / "rules.db"), library=directory / "none") as database:
        database.rules.add_candidates(CandidateRule(spelled(parse_equation(rule)), "test") for rule in RULES)
        assert verify_pending(database).verified == len(RULES)
        database.library.publish(current(), "test")
        database.rules.refresh(current())
        export_rules(database.rules.list(), directory / "rules.jsonl")
    return directory


@dataclass(frozen=True)
class Forgery:
    """A change of lines, by the number of the rule in ``RULES``; what the gate says of the rule then."""

    change: Callable[[list[Line]], None]
    reason: str
    rule: int = 0
    seen_by_hashes: bool = False


def texted(line: Line, text: str, identity: str | None = None) -> None:
    """Gives a line another equation, and the id that belongs to it."""
    line |= {"equation": text, "id": text_id(text) if identity is None else identity}


def dropped_condition(lines: list[Line]) -> None:
    texted(lines[0], lines[0]["equation"].partition(" where ")[0])


def dropped_types(lines: list[Line]) -> None:
    texted(lines[3], "add(x, y) => add(y, x)")


def wider_types(lines: list[Line]) -> None:
    texted(lines[3], lines[3]["equation"].replace("2, 3", "n0, n1"))


def swapped_certificates(lines: list[Line]) -> None:
    one, other = lines[1]["proof"], lines[2]["proof"]
    lines[1]["proof"], lines[2]["proof"] = {**other}, {**one}
    for line, proof in ((lines[1], one), (lines[2], other)):
        for name in ("axioms_used", "axioms_hash", "operators_hash"):
            line["proof"][name] = proof[name]


def cut_chain(lines: list[Line]) -> None:
    lines[2]["proof"]["certificate"]["chains"][0].pop()


def no_chains(lines: list[Line]) -> None:
    lines[2]["proof"]["certificate"]["chains"] = []


def cyrillic(lines: list[Line]) -> None:
    texted(lines[1], lines[1]["equation"].replace("(x)", "(\u0445)"))


def cyrillic_certificate(lines: list[Line]) -> None:
    certificate = lines[1]["proof"]["certificate"]
    certificate["equation"] = certificate["equation"].replace("(x)", "(\u0445)")


def garbage(lines: list[Line]) -> None:
    texted(lines[1], "garbage((")


def garbage_with_its_old_id(lines: list[Line]) -> None:
    lines[1]["equation"] = "garbage(("


def other_spelling(lines: list[Line]) -> None:
    texted(lines[1], "relu(relu(relu(x)))=>relu(relu(x))")


def false_equation(lines: list[Line]) -> None:
    text = "relu(relu(relu(x))) => x"
    texted(lines[1], text)
    lines[1]["operators_target"] = []
    certificate = lines[1]["proof"]["certificate"]
    certificate["equation"] = text
    certificate["chains"][0][0]["term"] = "x"


def another_equation(lines: list[Line]) -> None:
    lines[1]["proof"]["certificate"] = lines[2]["proof"]["certificate"]


def changed_hash(lines: list[Line]) -> None:
    lines[1]["proof"]["operators_hash"] = "0" * 64


def unknown_axiom(lines: list[Line]) -> None:
    lines[1]["proof"]["certificate"]["chains"][0][0]["axiom"] = "relu-is-all"


def unknown_axiom_that_is_named(lines: list[Line]) -> None:
    unknown_axiom(lines)
    lines[1]["proof"]["axioms_used"].append("relu-is-all")


def fewer_operators(lines: list[Line]) -> None:
    lines[2]["operators_source"].remove("tanh")


def no_certificate(lines: list[Line]) -> None:
    lines[1]["proof"]["certificate"] = None


def refuted_once(lines: list[Line]) -> None:
    lines[1]["proof"] |= {"verdict": "refuted", "counterexample": "x: f32[]"}


FORGERIES = {
    "the condition is dropped": Forgery(
        dropped_condition, "its certificate proves concat[axis=1](conv(x, y)"
    ),
    "the types are dropped": Forgery(dropped_types, "its certificate proves add(x: f32[2, 3]", 3),
    "the types are wider": Forgery(wider_types, "its certificate proves add(x: f32[2, 3]", 3),
    "two certificates are swapped": Forgery(
        swapped_certificates, "its certificate proves tanh(transpose(transpose(x)))", 1
    ),
    "a chain is cut short": Forgery(cut_chain, "its certificate does not replay: ", 2),
    "there are no chains": Forgery(no_chains, "its certificate does not replay: ", 2),
    "Cyrillic letters": Forgery(
        cyrillic,
        "its text is no equation: line 1, column 16: expected ASCII characters outside of comments",
        1,
    ),
    "Cyrillic letters in a certificate": Forgery(
        cyrillic_certificate, "certificate: line 1, column 16: expected ASCII characters", 1
    ),
    "garbage": Forgery(garbage, "its text is no equation: line 1, column 9: unexpected '('", 1),
    "garbage under the old id": Forgery(
        garbage_with_its_old_id,
        "its text is no equation: line 1, column 9: unexpected '('",
        1,
        seen_by_hashes=True,
    ),
    "a text that is no equation as printed": Forgery(
        other_spelling, "its text is not in canonical form: expected relu(relu(relu(x))) => relu(", 1
    ),
    "a false equation with a chain": Forgery(false_equation, "random evaluation refutes it: x: f32[", 1),
    "a certificate of another equation": Forgery(
        another_equation, "its certificate proves tanh(transpose(transpose(x)))", 1
    ),
    "a changed hash": Forgery(
        changed_hash, "stale: the meaning of an operator has changed (relu)", 1, seen_by_hashes=True
    ),
    "an unknown axiom": Forgery(
        unknown_axiom, "its certificate uses axioms that its proof does not name: relu-is-all", 1
    ),
    "an unknown axiom that the proof names": Forgery(
        unknown_axiom_that_is_named, "stale: axioms are gone: relu-is-all", 1, seen_by_hashes=True
    ),
    "operators that are not named": Forgery(
        fewer_operators,
        "it lists the operators transpose, transpose => tanh, its equation has tanh, transpo",
        2,
    ),
    "no certificate": Forgery(no_certificate, "it has no certificate", 1),
}


def lines_of(directory: Path) -> list[Line]:
    """The lines of the rules, in the order of ``RULES``."""
    lines = {
        line["id"]: line for line in map(json.loads, (directory / "rules.jsonl").read_text().splitlines())
    }
    return [lines[rule_id(parse_equation(rule))] for rule in RULES]


def written(path: Path, lines: list[Line]) -> Path:
    """The lines as a file."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_rows(path: Path, old: list[Line], new: list[Line]) -> None:
    """Does to a database by hand what was done to its lines."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        for before, after in zip(old, new, strict=True):
            key, proof = before["id"], after["proof"]
            values = {name: json.dumps(proof[name]) for name in ("axioms_used", "certificate")}
            values |= {name: proof[name] for name in ("axioms_hash", "operators_hash")}
            for name, value in values.items():
                connection.execute(f"UPDATE proofs SET {name} = ? WHERE rule_id = ?", (value, key))
            for side in ("source", "target"):
                for gone in set(before[f"operators_{side}"]) - set(after[f"operators_{side}"]):
                    connection.execute(
                        "DELETE FROM rule_operators WHERE rule_id = ? AND side = ? AND operator = ?",
                        (key, side, gone),
                    )
            connection.execute(
                "UPDATE rules SET id = ?, equation = ?, conditions = ? WHERE id = ?",
                (after["id"], after["equation"], after["equation"].partition(" where ")[2], key),
            )
            for table in ("rule_operators", "proofs"):
                connection.execute(f"UPDATE {table} SET rule_id = ? WHERE rule_id = ?", (after["id"], key))


Gate = Callable[[list[Line]], tuple[GateResult, GateResult]]
"""The gate on rules that lines describe, and what comparing hashes alone says of them."""


@pytest.fixture(params=["file", "database", "shipped library"])
def gate(
    request: pytest.FixtureRequest, honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Gate:
    """All tests are about the three places where rules are."""
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)

    def of_file(lines: list[Line]) -> tuple[GateResult, GateResult]:
        path = written(tmp_path / "rules.jsonl", lines)
        return gate_files([path], current()), compare_hashes_of_files([path], current())

    def of_database(lines: list[Line]) -> tuple[GateResult, GateResult]:
        path = tmp_path / "rules.db"
        shutil.copy(honest / "rules.db", path)
        write_rows(path, lines_of(honest), lines)
        return gate_library_rules(str(path), current()), compare_hashes_of_library(str(path), current())

    def of_shipped(lines: list[Line]) -> tuple[GateResult, GateResult]:
        monkeypatch.setenv("SUPEROPT_LIBRARY", str(written(tmp_path / "shipped.jsonl", lines)))
        path = str(tmp_path / "new.db")
        return gate_library_rules(path, current()), compare_hashes_of_library(path, current())

    return {"file": of_file, "database": of_database, "shipped library": of_shipped}[request.param]


def test_honest_rules_pass(gate: Gate, honest: Path) -> None:
    replayed, compared = gate(lines_of(honest))
    assert (replayed.rules, replayed.replayed, replayed.offenders) == (4, 4, ())
    assert (compared.rules, compared.replayed, compared.offenders) == (4, 0, ())


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_rule_does_not_pass(gate: Gate, honest: Path, name: str) -> None:
    forgery, lines = FORGERIES[name], lines_of(honest)
    forgery.change(lines)
    replayed, compared = gate(lines)
    reasons = {offender.id: offender.reason for offender in replayed.offenders}
    assert reasons[lines[forgery.rule]["id"]].startswith(forgery.reason)
    assert len(reasons) == (2 if "swapped" in name else 1)
    assert len({offender.id for offender in compared.offenders}) == forgery.seen_by_hashes


def test_an_id_is_that_of_one_rule(honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database has no place for two; of the two lines of a library it takes one."""
    lines = lines_of(honest)
    double = written(tmp_path / "double.jsonl", [*lines, {**lines[1], "provenance": "again"}])
    monkeypatch.setenv("SUPEROPT_LIBRARY", str(double))
    for result in (
        gate_files([double], current()),
        gate_library_rules(str(tmp_path / "new.db"), current()),
        compare_hashes_of_files([double], current()),
    ):
        assert {offender.reason for offender in result.offenders} == {"2 lines of the file have its id"}
        assert {offender.id for offender in result.offenders} == {lines[1]["id"]}


@pytest.mark.parametrize(("status", "said"), [("candidate", "candidate"), ("refuted", "refuted")])
def test_a_status_that_was_written_by_hand(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, said: str
) -> None:
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)
    identity = lines_of(honest)[1]["id"]
    path = tmp_path / "rules.db"
    shutil.copy(honest / "rules.db", path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE rules SET status = ? WHERE id = ?", (status, identity))
    for result in (gate_library_rules(str(path), current()), compare_hashes_of_library(str(path), current())):
        reasons = [(offender.id, offender.reason) for offender in result.offenders]
        assert reasons == [(identity, f"its status is {said}, by its proofs it is verified")]


def test_a_refuted_rule_that_calls_itself_verified(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)
    lines = lines_of(honest)
    refuted_once(lines)
    (offender,) = gate_files([written(tmp_path / "rules.jsonl", lines)], current()).offenders
    assert offender.reason == "status is verified, the verdict of its proof is refuted"
    path = tmp_path / "rules.db"
    shutil.copy(honest / "rules.db", path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE proofs SET verdict = 'refuted' WHERE rule_id = ?", (lines[1]["id"],))
    (offender,) = gate_library_rules(str(path), current()).offenders
    assert offender.reason == "its status is verified, by its proofs it is refuted"


def test_what_claims_nothing_is_counted(honest: Path, tmp_path: Path) -> None:
    lines = lines_of(honest)
    lines[1] |= {"status": "candidate", "proof": None}
    result = gate_files([written(tmp_path / "rules.jsonl", lines)], current())
    assert (result.rules, result.offenders, result.unclaimed) == (3, (), {"candidate": 1})


def test_a_text_brings_proofs_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    path.write_text(f"{RELU}  # and again\nrelu(x) => x\n")
    result = gate_files([path], current())
    assert (result.rules, result.replayed) == (2, 1)
    assert next(offender.reason for offender in result.offenders).startswith(
        "the new verdict is refuted: x: f32["
    )
    compared = compare_hashes_of_files([path], current())
    assert {offender.reason for offender in compared.offenders} == {
        "text files have no hashes to compare; omit --quick to prove the rule"
    }


def test_a_rule_that_is_no_equation_is_named_where_it_is_used(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)
    lines = lines_of(honest)
    garbage(lines)
    path = tmp_path / "rules.db"
    shutil.copy(honest / "rules.db", path)
    write_rows(path, lines_of(honest), lines)
    for arguments in (["library", "show", lines[1]["id"]], ["library", "verify", "--all"]):
        assert run([*arguments, "--database", str(path)]) == 2
        assert capsys.readouterr().err == (
            f"superopt: rule {lines[1]['id']} of the database is not a valid equation "
            "(line 1, column 9: unexpected '('); `superopt gate` lists such rules\n"
        )
