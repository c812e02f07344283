"""A false rule that got into the database is caught by its effects, and used no more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from substitution_db import RuleFilter, RuleStatus, open_database
from superopt.cli.main import run
from superopt.equations import parse_equation, rule_id
from tests.journeys.planted_rule import FALSE, plant, write_model

PLANTED = rule_id(parse_equation(FALSE))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of the shipped library with a false rule in it."""
    path = tmp_path_factory.mktemp("planted") / "rules.db"
    with open_database(str(path)) as database:
        assert plant(database) == PLANTED
    return path


@pytest.fixture
def database(planted: Path, tmp_path: Path) -> str:
    """A copy that a test may change."""
    return str(shutil.copy(planted, tmp_path / "rules.db"))


def optimised(model: Path, directory: Path, database: str, *options: str) -> dict[str, object]:
    """The report of ``superopt optimize`` as it is typed, and written to ``report.json``."""
    out, report = directory / "out.onnx", directory / "report.json"
    arguments = ["optimize", str(model), "-o", str(out), "--report", str(report), "--database", database]
    assert run([*arguments, "--budget", "20", "--threads", "1", *options]) == 0
    return json.loads(report.read_text())


def outputs(path: Path) -> np.ndarray:
    x = np.random.default_rng(1).normal(size=(512, 64)).astype(np.float32)
    session = onnxruntime.InferenceSession(onnx.load(path).SerializeToString())
    return np.asarray(session.run(None, {"x": x})[0])


def test_a_false_rule_is_quarantined_and_not_used_again(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_model(tmp_path / "model.onnx")
    report = optimised(model, tmp_path, database)
    (suspect,) = report["suspects"]
    assert (suspect["rule"], suspect["equation"]) == (PLANTED, FALSE)
    assert "output y: an element differs by" in suspect["difference"]
    assert PLANTED not in {step["rule"] for step in report["trace"]}
    assert f"suspect      {PLANTED} {FALSE}: output y" in capsys.readouterr().out
    np.testing.assert_allclose(outputs(tmp_path / "out.onnx"), outputs(model), rtol=1e-4, atol=1e-6)

    with open_database(database) as opened:
        rule = opened.rules.get(PLANTED)
        assert rule is not None
        assert [r.id for r in opened.rules.list(RuleFilter(status=RuleStatus.SUSPECT))] == [PLANTED]
    assert rule.status is RuleStatus.SUSPECT
    (evidence,) = rule.evidence
    assert (evidence.found_by, evidence.model, evidence.seed) == ("optimize", "model.onnx", 0)
    assert evidence.sha256 == report["model"]["sha256"]

    again = optimised(model, tmp_path, database)
    assert again["suspects"] == []
    assert PLANTED not in {step["rule"] for step in again["trace"]}
    assert again["rules"]["loaded"] == report["rules"]["loaded"] - 1
