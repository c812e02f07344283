"""The library is proved anew and swapped on the live database while jobs run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from superopt.cli.main import run
from superopt.equations import parse_equation
from superopt.substitution_db import CandidateRule, Database
from tests.server.conftest import Http

RULE = "relu(relu(x)) => relu(x)"
Work = Callable[..., None]


def library(database: Database, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert run(["library", *words, "--database", database.url, "--json"]) == 0
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def test_a_job_finishes_with_the_library_that_it_began_with(
    http: Http,
    model: bytes,
    database: Database,
    work: Work,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)
    before = database.library.in_force()
    assert before is not None
    database.rules.add_candidates([CandidateRule(parse_equation(RULE), "test")])
    started = http.submit(model, data={"options": json.dumps({"budget": 30, "max_candidates": 1})})
    staged = library(database, capsys, "verify", "--all", "--stage")
    assert (staged["verified"], staged["version"]) == (1, before.number)
    published = library(database, capsys, "publish")
    assert (published["version"], published["rules"]) == (before.number + 1, 1)
    work(module="superopt.journeys.supervision", function="optimize_file")
    report = http("GET", f"/v1/optimizations/{started}/report").json()
    assert report["library"] == {"version": before.number, "sha256": before.sha256}
    assert report["rules"]["loaded"] == 0
    assert (
        run(
            [
                "optimize",
                *_model(tmp_path, model),
                "--max-candidates",
                "1",
                "--database",
                database.url,
                "--json",
            ]
        )
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert report["library"] == {"version": published["version"], "sha256": published["sha256"]}
    assert report["rules"]["loaded"] == 1


def _model(directory: Path, content: bytes) -> list[str]:
    path = directory / "net.onnx"
    path.write_bytes(content)
    return [str(path), "-o", str(directory / "out.onnx")]
