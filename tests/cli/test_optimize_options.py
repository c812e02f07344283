"""The options of the main job: the same here and at a service, with the defaults that Python has."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from optimizer import Options
from superopt.cli.main import run
from superopt.cli.optimize_commands import optimize
from superopt.cli.submit_command import submit
from tests.onnx_io.kit import model, node, value

QUICK = ("--budget", "30", "--max-candidates", "1", "--objective", "flops", "--threads", "1")


@pytest.fixture
def relu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", f"sqlite:///{tmp_path / 'superopt.db'}")
    path = tmp_path / "relu.onnx"
    made = model([node("Relu", "x", "y")], [value("x", [4, 4])], [value("y", [4, 4])])
    path.write_bytes(made.SerializeToString())
    return path


def test_what_a_service_takes_too_is_declared_once() -> None:
    here, there = (inspect.signature(command).parameters for command in (optimize, submit))
    shared = [name for name in there if name in here and name not in ("model", "database", "as_json")]
    assert len(shared) > 12
    for name in shared:
        assert here[name].annotation == there[name].annotation, name
        assert there[name].default is None, name


def test_defaults_are_those_of_python() -> None:
    defaults = {name: option.default for name, option in inspect.signature(optimize).parameters.items()}
    usual = Options()
    for name in ("objective", "search", "budget", "alpha", "seed", "threads", "max_candidates", "tolerance"):
        assert defaults[name] == getattr(usual, name), name


def test_a_dry_run_needs_no_output(relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = relu.with_name("report.json")
    assert run(["optimize", str(relu), "--dry-run", "--report", str(report), *QUICK]) == 0
    shown = capsys.readouterr().out
    assert "relu.onnx: 1 node, 0 not understood\n" in shown
    assert shown.endswith(f"\nwritten: report: {report}\n")
    assert json.loads(report.read_text())["model"]["name"] == "relu.onnx"


def test_any_other_run_needs_an_output(relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["optimize", str(relu), *QUICK]) == 2
    assert capsys.readouterr().err == (
        "superopt: output: expected a file to write, by --output or -o; only --dry-run needs none\n"
    )


def test_standard_output_is_called_that(relu: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["optimize", str(relu), "-o", "-", *QUICK]) == 0
    assert capfd.readouterr().err.endswith("\nwritten: standard output\n")
