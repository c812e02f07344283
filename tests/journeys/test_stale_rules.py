"""Rules that were proved for another version of superopt are not used, and the user is told."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from superopt.cli.main import run
from superopt.equations import parse_equation
from superopt.substitution_db import CandidateRule, open_database
from tests.journeys.planted_rule import write_model

RULES = ("relu(relu(x)) => relu(x)", "add(x, y) <=> add(y, x)")
WARNING = "1 proved rule is not used: superopt has changed since"


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two proved rules, one of them by a checker that is no longer this one."""
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)
    path = tmp_path / "rules.db"
    with open_database(str(path)) as opened:
        opened.rules.add_candidates(CandidateRule(parse_equation(text), "test") for text in RULES)
    assert run(["library", "verify", "--database", str(path)]) == 0
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE proofs SET verifier_hash = 'another' WHERE rule_id IN "
            "(SELECT id FROM rules WHERE equation = ?)",
            (RULES[0],),
        )
    connection.close()
    return str(path)


def _report(model: Path, database: str, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    report = model.with_name("report.json")
    out = model.with_name("out.onnx")
    capsys.readouterr()
    given = ["optimize", str(model), "-o", str(out), "--report", str(report), "--database", database]
    assert run([*given, "--objective", "flops", "--max-candidates", "1", "--threads", "1"]) == 0
    return json.loads(report.read_text()), capsys.readouterr().out


def test_stale_rules_are_told_of_until_they_are_proved_again(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_model(tmp_path / "model.onnx")
    report, text = _report(model, database, capsys)
    assert (report["rules"]["loaded"], report["rules"]["stale"]) == (1, 1)
    assert WARNING in text

    assert run(["inspect", str(model), "--database", database]) == 0
    assert f"warning: {WARNING}" in capsys.readouterr().out

    assert run(["library", "verify", "--database", database]) == 0
    report, text = _report(model, database, capsys)
    assert (report["rules"]["loaded"], report["rules"]["stale"]) == (2, 0)
    assert "not used" not in text
