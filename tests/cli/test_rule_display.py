"""superopt library show and gate, as they are typed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from superopt.axioms import load_axioms
from superopt.cli.main import run
from superopt.equations import parse_equation, rule_id
from superopt.journeys.library.discovery import verify_pending
from superopt.substitution_db import CandidateRule, open_database
from tests.equations.test_abbreviation import KARATSUBA, bilinear

BILINEAR = bilinear(KARATSUBA, KARATSUBA)
RIGHT = "matmul(x, add(matmul(y, z), w)) => add(matmul(matmul(x, y), z), matmul(x, w))"
WRONG = "sub(x, y) => sub(y, x)"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with a rule that is proved, one that is refuted and a candidate."""
    directory = tmp_path_factory.mktemp("rules")
    url = f"sqlite:///{directory}/rules.db"
    with open_database(url, library=directory / "none") as opened:
        opened.rules.add_candidates(CandidateRule(parse_equation(rule), "a test") for rule in (RIGHT, WRONG))
        verify_pending(opened)
        opened.rules.add_candidates([CandidateRule(parse_equation("relu(x) => x"), "a test")])
    return url


@pytest.fixture(autouse=True)
def no_shipped_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)


def shown(capsys: pytest.CaptureFixture[str], database: str, rule: str, *options: str) -> str:
    identity = rule_id(parse_equation(rule))
    assert run(["library", "show", identity, "--database", database, *options]) == 0
    return capsys.readouterr().out


def test_a_proved_rule_is_shown_with_its_chain(capsys: pytest.CaptureFixture[str], database: str) -> None:
    text = shown(capsys, database, RIGHT)
    assert text.startswith(f"{RIGHT}\n\n  matmul        =>  add\n")
    assert (
        "proof:\n"
        "    matmul(x, add(matmul(y, z), w))\n"
        "  = add(matmul(x, matmul(y, z)), matmul(x, w))  by matmul-over-add-right\n"
        "  = add(matmul(matmul(x, y), z), matmul(x, w))  by matmul-associative, at input 1\n"
    ) in text
    assert "grade            replayed: all terms of the chain are well-typed in every case\n" in text
    assert (
        "axioms used:\n"
        "  matmul-associative: matmul(x, matmul(y, z)) = matmul(matmul(x, y), z)\n"
        "    Both sides are the same sum over both inner indices.\n"
    ) in text


def test_a_refuted_rule_is_shown_with_its_counterexample(
    capsys: pytest.CaptureFixture[str], database: str
) -> None:
    text = shown(capsys, database, WRONG)
    assert text.startswith(f"{WRONG}\n\n  sub   =>  sub\n  ├─ x      ├─ y\n  └─ y      └─ x\n\nid ")
    assert "\ncounterexample  x: f32[" in text
    assert "proof:" not in text


def test_a_candidate_has_nothing_but_its_picture(capsys: pytest.CaptureFixture[str], database: str) -> None:
    identity = rule_id(parse_equation("relu(x) => x"))
    assert shown(capsys, database, "relu(x) => x") == (
        "relu(x) => x\n"
        "\n"
        "  relu  =>  x\n"
        "  └─ x\n"
        "\n"
        f"id          {identity}\n"
        "status      candidate\n"
        "provenance  a test\n"
    )


def test_a_rule_in_json(capsys: pytest.CaptureFixture[str], database: str) -> None:
    document = json.loads(shown(capsys, database, RIGHT, "--json"))
    assert document["chain"][0] == "  matmul(x, add(matmul(y, z), w))"
    assert document["picture"][0] == "matmul        =>  add"
    assert document["proof"]["grade"] == "replayed"
    assert [link["axiom"] for link in document["proof"]["certificate"]["chains"][0]] == [
        "matmul-over-add-right",
        "matmul-associative",
    ]


def test_algorithms_are_abbreviated_and_the_equation_follows_in_full(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path}/rules.db"
    with open_database(database, library=tmp_path / "none.jsonl") as opened:
        opened.rules.add_candidates([CandidateRule(parse_equation(BILINEAR), "a test")])
        verify_pending(opened)
    text = shown(capsys, database, BILINEAR)
    short = bilinear("F(2,2)", "F(2,2)")
    assert text.startswith(f"{short}\n\n  conv[padding=p]  =>  bilinear_conv[rows=F(2,2), ")
    assert text.endswith(f"\nin full:\n  {BILINEAR}\n")
    assert "  = bilinear_conv[rows=F(2,2), columns=F(2,2), padding=p](x, " in text
    assert text.count("(((") == 4
    document = json.loads(shown(capsys, database, BILINEAR, "--json"))
    assert document["equation"] == BILINEAR
    assert KARATSUBA in document["chain"][1]
    assert run(["library", "list", "--operator", "bilinear_conv", "--database", database]) == 0
    assert short in capsys.readouterr().out
    assert run(["library", "list", "--operator", "bilinear_conv", "--database", database, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["equation"] == BILINEAR


def test_a_message_abbreviates_algorithms(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prove", BILINEAR.replace(" => ", " ")]) == 2
    assert run(["prove", f"{BILINEAR} where dim(", "--json"]) == 2
    found = capsys.readouterr()
    assert "(((" not in found.err
    assert KARATSUBA in json.loads(found.out)["error"]["message"]


def test_the_gate(capsys: pytest.CaptureFixture[str], database: str, tmp_path: Path) -> None:
    assert run(["gate", "--database", database]) == 0
    adjoints = len(load_axioms().adjoints)
    assert capsys.readouterr().out.splitlines() == [
        "1 of 1 rules pass",
        *([f"{adjoints} of {adjoints} adjoint statements hold on the instances tried"] if adjoints else []),
        "not checked, because rules that were never verified are not used: 1 candidate, 1 refuted",
    ]
    path = tmp_path / "rules.jsonl"
    assert run(["library", "export", str(path), "--database", database]) == 0
    line = json.loads(path.read_text())
    line["proof"] |= {"grade": "sampled", "certificate": None}
    path.write_text(json.dumps(line) + "\n")
    capsys.readouterr()
    assert run(["gate", str(path), "--quick"]) == 0
    assert capsys.readouterr().out == (
        "1 of 1 rules have current hashes; --quick parses no equation and replays no proof\n"
    )
    assert run(["gate", str(path), "--jobs", "1", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["quick"], document["rules"], document["replayed"]) == (False, 1, 1)
    assert document["offenders"][0]["reason"] == "its grade is sampled, not replayed"


def test_what_is_imported_is_evaluated_and_stays_a_candidate(
    capsys: pytest.CaptureFixture[str], database: str, tmp_path: Path
) -> None:
    path = tmp_path / "rules.jsonl"
    assert run(["library", "export", str(path), "--database", database]) == 0
    line = json.loads(path.read_text())
    text = "tanh(transpose(transpose(x))) => x"
    line |= {"equation": text, "operators_source": ["tanh", "transpose", "transpose"], "operators_target": []}
    path.write_text(json.dumps(line) + "\n")
    capsys.readouterr()
    identity = rule_id(parse_equation(text))
    assert run(["library", "import", str(path), "--database", database, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["new"], [rule["id"] for rule in document["refuted"]]) == (1, [identity])
    assert document["refuted"][0]["counterexample"].startswith("x: f32[")
    assert run(["library", "show", identity, "--database", database, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "candidate"
    assert run(["library", "import", str(path), "--database", database, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["refuted"] == []
