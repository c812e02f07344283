"""A false rule that got into the database is caught by its effects, and used no more."""
# pyright: reportUnknownMemberType=false
# onnx and its runtime leave types out.

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from superopt.cli.main import run
from superopt.equations import parse_equation, rule_id
from superopt.journeys.library.gate import compare_hashes_of_database
from superopt.journeys.supervision import optimize_file
from superopt.substitution_db import Outcome, RuleFilter, RuleStatus, open_database
from superopt.substitution_db.rules.currency import current
from superopt.substitution_db.store.records import Evidence
from tests.conftest import WithLibrary
from tests.journeys.planted_rule import FALSE, plant, write_model

PLANTED = rule_id(parse_equation(FALSE))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory, with_library: WithLibrary) -> Path:
    """A database of the shipped library with a false rule in it."""
    path = tmp_path_factory.mktemp("planted") / "rules.db"
    with open_database(with_library(path)) as database:
        assert plant(database) == PLANTED
    return path


@pytest.fixture
def database(planted: Path, tmp_path: Path) -> str:
    """A copy that a test may change."""
    return str(shutil.copy(planted, tmp_path / "rules.db"))


def optimised(model: Path, directory: Path, database: str, *options: str) -> dict[str, Any]:
    """The report of ``superopt optimize`` as it is typed, and written to ``report.json``."""
    out, report = directory / "out.onnx", directory / "report.json"
    arguments = ["optimize", str(model), "-o", str(out), "--report", str(report), "--database", database]
    assert run([*arguments, "--budget", "20", "--threads", "1", *options]) == 0
    return json.loads(report.read_text())


def evidence_in(database: str) -> tuple[Evidence, ...]:
    with open_database(database) as opened:
        return opened.quarantine.evidence(PLANTED)


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
        assert rule.status is RuleStatus.SUSPECT
        assert [r.id for r in opened.rules.list(RuleFilter(status=RuleStatus.SUSPECT))] == [PLANTED]
        (evidence,) = rule.evidence
    assert (evidence.found_by, evidence.model, evidence.seed) == ("optimize", "model.onnx", 0)
    assert evidence.sha256 == report["model"]["sha256"]

    again = optimised(model, tmp_path, database)
    assert again["suspects"] == []
    assert PLANTED not in {step["rule"] for step in again["trace"]}
    assert again["rules"]["loaded"] == report["rules"]["loaded"] - 1


def test_a_plan_for_a_cluster_is_made_without_it(database: str, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.onnx")
    report = optimised(model, tmp_path, database, "--cluster", "dgx-h100:2", "--budget", "40")
    assert [suspect["rule"] for suspect in report["suspects"]] == [PLANTED]
    assert PLANTED not in {step["rule"] for step in report["trace"]}
    (evidence,) = evidence_in(database)
    assert evidence.difference == report["suspects"][0]["difference"]
    np.testing.assert_allclose(outputs(tmp_path / "out.onnx"), outputs(model), rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def caught(planted: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Evidence]:
    """The model on which the rule was caught by a job of the service, and the evidence."""
    directory = tmp_path_factory.mktemp("caught")
    database = str(shutil.copy(planted, directory / "rules.db"))
    model = write_model(directory / "model.onnx")
    options = {"budget": 20.0, "threads": 1, "seed": 3}
    report = optimize_file(model, directory / "out.onnx", options, database, lambda _: None)
    assert report["suspects"]
    (evidence,) = evidence_in(database)
    assert evidence.seed == 3
    return model, evidence


def test_a_report_whose_replay_differs_makes_its_rule_suspect(
    caught: tuple[Path, Evidence], database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, evidence = caught
    path, out = tmp_path / "report.json", tmp_path / "out.onnx"
    path.write_text(json.dumps({**evidence.report, "model": {"sha256": evidence.sha256}}))
    arguments = ["replay", str(model), str(path), "-o", str(out), "--database", database]
    assert run(arguments) == 1
    assert f"rule {PLANTED} is to blame and now suspect: {FALSE}" in capsys.readouterr().err
    assert not out.exists()
    (found,) = evidence_in(database)
    assert (found.found_by, found.model, found.sha256) == ("replay", "model.onnx", evidence.sha256)
    assert run(arguments) == 1
    assert f"rule {PLANTED} is not among the verified rules" in capsys.readouterr().err


@pytest.fixture
def suspecting(caught: tuple[Path, Evidence], database: str) -> str:
    """A database in which the rule is suspect."""
    with open_database(database) as opened:
        opened.quarantine.record({PLANTED: caught[1], "0" * 16: caught[1]})
        opened.quarantine.record({PLANTED: caught[1]})
        assert opened.quarantine.evidence(PLANTED) == (caught[1],)
    return database


def test_a_suspect_rule_is_shown_everywhere(suspecting: str, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*arguments: str) -> Any:
        run([*arguments, "--database", suspecting, "--json"])
        return json.loads(capsys.readouterr().out)

    (listed,) = printed("library", "list", "--status", "suspect")
    assert listed["id"] == PLANTED
    assert listed["why_not"].startswith("applied by optimize to model.onnx (sha256 ")
    shown = printed("library", "show", PLANTED)
    assert (shown["status"], shown["evidence"][0]["seed"]) == ("suspect", 3)
    assert printed("library", "stats")["by_status"]["suspect"] == 1
    offenders = {o["id"]: o["reason"] for o in printed("gate", "--quick")["offenders"]}
    assert offenders == {PLANTED: f"it is suspect: {listed['why_not']}"}
    assert run(["library", "show", PLANTED, "--database", suspecting]) == 0
    assert "evidence    applied by optimize to model.onnx" in capsys.readouterr().out


def test_no_proof_and_no_version_brings_a_suspect_rule_back(suspecting: str) -> None:
    with open_database(suspecting) as opened:
        plant(opened)
        version = opened.library.in_force()
        assert version is not None
        assert PLANTED not in opened.library.read(current()).equations
        assert PLANTED not in opened.library.read(current(), version.number).equations
        rule = opened.rules.get(PLANTED)
        assert rule is not None
        assert rule.proof is not None
        assert (rule.status, rule.proof.verdict) == (RuleStatus.SUSPECT, Outcome.VERIFIED)
        (offender,) = compare_hashes_of_database(opened, current()).offenders
        assert offender.id == PLANTED


def test_a_suspect_rule_is_proved_only_where_the_evidence_no_longer_stands(
    caught: tuple[Path, Evidence], suspecting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verify = ["library", "verify", "--id", PLANTED, "--database", suspecting, "--json"]

    def standing(*arguments: str) -> str:
        assert run([*verify, *arguments]) == 1
        document = json.loads(capsys.readouterr().out)
        assert document["status"] == "suspect"
        return document["standing"][0]

    assert standing().endswith("to re-examine it, give that model with --model")
    other = tmp_path / "other.onnx"
    other.write_bytes(caught[0].read_bytes() + b"\x42\x00")
    assert "other.onnx is another model (sha256 " in standing("--model", str(other))
    assert "; and now: output y: an element differs by " in standing("--model", str(caught[0]))
    assert evidence_in(suspecting) == (caught[1],)


def test_evidence_of_a_model_that_rounds_leaves_the_verdict_to_the_proof(
    caught: tuple[Path, Evidence], database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_model(tmp_path / "rounding.onnx", is_rounded=True)
    sha256 = hashlib.sha256(model.read_bytes()).hexdigest()
    with open_database(database) as opened:
        opened.quarantine.record({PLANTED: replace(caught[1], sha256=sha256)})
    arguments = ["library", "verify", "--id", PLANTED, "--model", str(model), "--database", database]
    assert run(arguments) == 1
    assert capsys.readouterr().out.startswith(f"{PLANTED}: refuted")
    assert evidence_in(database) == ()


def test_a_rule_of_which_nothing_shows_any_more_is_proved_anew(
    caught: tuple[Path, Evidence], database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here the evidence is about a true rule: its own steps change nothing."""
    true = "relu(relu(x)) => relu(x)"
    identity = rule_id(parse_equation(true))
    model, evidence = caught
    nothing = Evidence(
        "optimize", evidence.model, evidence.sha256, 0, "once", {**evidence.report, "trace": []}
    )
    with open_database(database) as opened:
        opened.quarantine.record({identity: nothing})
        assert identity not in opened.library.read(current()).equations
    arguments = ["library", "verify", "--id", identity, "--model", str(model), "--database", database]
    assert run(arguments) == 0
    assert capsys.readouterr().out == f"{identity}: verified\n"
    with open_database(database) as opened:
        assert opened.quarantine.evidence(identity) == ()
        assert identity in opened.library.read(current()).equations
