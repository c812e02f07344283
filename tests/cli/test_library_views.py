"""superopt library stats, list, show and document, as they are typed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from superopt.cli.main import run
from superopt.equations import drawing, parse_equation, rule_id
from superopt.substitution_db import CandidateRule, Hashes, Outcome, Proof, open_database
from superopt.substitution_db.rules.currency import current
from superopt.verifier.hashes import operators_hash

PROVED = "matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)"
REFUTED = "matmul(x, y) => matmul(y, x)"
UNPROVED = "tanh(add(x, y)) => add(tanh(x), tanh(y))"
CANDIDATE = "relu(x) => x"


def verdict(outcome: Outcome, *, counterexample: str | None = None, reason: str = "") -> Proof:
    axioms = current().state.axioms
    used = ("matmul-associative",) if outcome is Outcome.VERIFIED else ()
    hashes = current().hashes
    if used:
        hashes = Hashes(axioms.hash_of(used), operators_hash(["matmul"]), hashes.verifier)
    return Proof(outcome, "z3", "5.4", used, hashes, 12.0, (), counterexample, reason, confirmed_by="cvc5")


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with a rule in each state."""
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)
    (tmp_path / "none.jsonl").touch()
    url = f"sqlite:///{tmp_path}/rules.db"
    verdicts = {
        PROVED: verdict(Outcome.VERIFIED),
        REFUTED: verdict(Outcome.REFUTED, counterexample="x: f32[1, 2], y: f32[2, 1]"),
        UNPROVED: verdict(Outcome.UNPROVED, reason="no proof found"),
    }
    with open_database(url) as opened:
        parsed = [parse_equation(rule) for rule in (*verdicts, CANDIDATE)]
        opened.rules.add_candidates(CandidateRule(equation, "matrix, 2 operators") for equation in parsed)
        opened.rules.record_verdicts({rule_id(parse_equation(r)): proof for r, proof in verdicts.items()})
    return url


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["library", *arguments]) == 0
    return capsys.readouterr().out


def listed(capsys: pytest.CaptureFixture[str], database: str, *options: str) -> list[dict[str, object]]:
    return json.loads(printed(capsys, "list", "--database", database, "--json", *options))


def test_an_operator_that_there_is_not(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["library", "list", "--database", database, "--operator", "matmull"]) == 2
    said = "superopt: operator: there is no 'matmull'; expected one like matmul, mul\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("options", "equations"),
    [
        ((), [CANDIDATE, REFUTED, UNPROVED, PROVED]),
        (("--status", "refuted"), [REFUTED]),
        (("--operator", "matmul"), [REFUTED, PROVED]),
        (("--text", "matmul(y, "), [REFUTED, PROVED]),
        (("--preset", "matrix", "--status", "candidate"), [CANDIDATE]),
        (("--preset", "vision"), []),
        (("--limit", "1"), [CANDIDATE]),
        (("--after", rule_id(parse_equation(REFUTED)), "--limit", "5"), [UNPROVED, PROVED]),
    ],
)
def test_what_is_listed(
    capsys: pytest.CaptureFixture[str], database: str, options: tuple[str, ...], equations: list[str]
) -> None:
    assert {rule["equation"] for rule in listed(capsys, database, *options)} == set(equations)


def test_what_does_not_hold_is_listed_with_the_reason(
    capsys: pytest.CaptureFixture[str], database: str
) -> None:
    assert {rule["equation"]: rule["why_not"] for rule in listed(capsys, database)} == {
        CANDIDATE: "",
        REFUTED: "x: f32[1, 2], y: f32[2, 1]",
        UNPROVED: "no proof found",
        PROVED: "",
    }
    lines = printed(capsys, "list", "--database", database, "--status", "refuted").splitlines()
    assert lines[0].split() == ["id", "status", "equation", "why", "not"]
    assert lines[1].endswith(f"{REFUTED}  x: f32[1, 2], y: f32[2, 1]")


def test_the_next_page_is_offered(capsys: pytest.CaptureFixture[str], database: str) -> None:
    text = printed(capsys, "list", "--database", database, "--limit", "1")
    assert text.endswith(f"\nmore: --after {rule_id(parse_equation(CANDIDATE))}\n")


def test_statistics(capsys: pytest.CaptureFixture[str], database: str) -> None:
    text = printed(capsys, "stats", "--database", database)
    assert text.startswith("candidate  1\nverified   1\nrefuted    1\nunproved   1\nstale      0\n")
    assert "confirmed by a second prover                   1\n" in text
    assert "matrix, 2 operators  1      1                 0" in text
    document = json.loads(printed(capsys, "stats", "--database", database, "--json"))
    assert document["verified_by_origin"] == [
        {
            "preset": "matrix",
            "max_ops": 2,
            "by_source_operators": {"2": 1},
            "rules": 1,
            "conditional": 0,
        }
    ]
    assert document["median_milliseconds"] == 12.0


def test_a_rule_is_drawn_into_a_file(
    capsys: pytest.CaptureFixture[str], database: str, tmp_path: Path
) -> None:
    path = tmp_path / "rule.svg"
    rule = rule_id(parse_equation(PROVED))
    assert printed(capsys, "show", rule, "--svg", str(path), "--database", database).startswith(f"{PROVED}\n")
    assert path.read_text(encoding="utf-8") == drawing(parse_equation(PROVED))


@pytest.mark.usefixtures("database")
def test_a_page_without_rules(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "rules.md"
    assert printed(capsys, "document", "-o", str(page)) == f"{page}: 0 rules drawn in {tmp_path}/rules/\n"
    assert "The library has **0 rules**." in page.read_text(encoding="utf-8")
