"""The options of the main job on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from superopt.cli.main import run
from tests.conftest import WithLibrary
from tests.onnx_io.kit import model, node, value

QUICK = ("--budget", "30", "--max-candidates", "1", "--objective", "flops", "--threads", "1")


@pytest.fixture
def relu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary) -> Path:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "superopt.db"))
    path = tmp_path / "relu.onnx"
    made = model([node("Relu", "x", "y")], [value("x", [4, 4])], [value("y", [4, 4])])
    path.write_bytes(made.SerializeToString())
    return path


def test_a_dry_run_needs_no_output(relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = relu.with_name("report.json")
    assert run(["optimize", str(relu), "--dry-run", "--report", str(report), *QUICK]) == 0
    shown = capsys.readouterr().out
    assert "relu.onnx: 1 node, 0 opaque\n" in shown
    assert shown.endswith(f"\nwritten: report: {report}\n")
    assert json.loads(report.read_text())["model"]["name"] == "relu.onnx"


def test_a_model_that_does_not_run_is_not_searched(relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unfit = model([node("MatMul", "x x", "y")], [value("x", [4, 5])], [value("y", [4, 5])])
    relu.write_bytes(unfit.SerializeToString())
    assert run(["optimize", str(relu), "--dry-run", *QUICK]) == 0
    assert "\nsearch    none, because the original does not run\n" in capsys.readouterr().out


def test_any_other_run_needs_an_output(relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["optimize", str(relu), *QUICK]) == 2
    assert capsys.readouterr().err == ("superopt: --output is required unless --dry-run is given\n")


def test_standard_output_is_called_that(relu: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["optimize", str(relu), "-o", "-", *QUICK]) == 0
    assert capfd.readouterr().err.endswith("\nwritten: standard output\n")


@pytest.mark.parametrize("command", ["optimize - -o -", "optimize /dev/stdin -o /dev/stdout"])
def test_a_model_comes_and_goes_by_the_standard_streams(command: str, relu: Path) -> None:
    """Through a file, and through a pipe."""
    program = [sys.executable, "-m", "superopt.cli", *command.split(), *QUICK]
    with relu.open("rb") as file:
        from_file = subprocess.run(program, stdin=file, capture_output=True, check=True).stdout
    from_pipe = subprocess.run(program, input=relu.read_bytes(), capture_output=True, check=True).stdout
    assert from_file == from_pipe == relu.read_bytes()


def test_inspect_reads_standard_input(relu: Path) -> None:
    program = [sys.executable, "-m", "superopt.cli", "inspect", "-", "--json"]
    found = subprocess.run(program, input=relu.read_bytes(), capture_output=True, check=True).stdout
    assert json.loads(found)["nodes"] == 1


def test_models_with_other_inputs_are_told_apart(relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = relu.with_name("other.onnx")
    made = model([node("Relu", "a", "y")], [value("a", [4, 4])], [value("y", [4, 4])])
    other.write_bytes(made.SerializeToString())
    assert run(["check", str(relu), str(other)]) == 1
    assert capsys.readouterr().out == (
        "equivalent  no\nsamples     0\ndifferent inputs: x (float32) against a (float32)\n"
    )


def test_of_two_models_the_one_that_does_not_run_is_named(
    relu: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = relu.with_name("foo.onnx")
    made = model(
        [node("Foo", "x", "y", domain="my")], [value("x", [4, 4])], [value("y", [4, 4])], domains={"my": 1}
    )
    other.write_bytes(made.SerializeToString())
    for models in ((relu, other), (other, relu)):
        assert run(["check", *map(str, models)]) == 2
        assert capsys.readouterr().err.startswith(f"superopt: {other} does not run: ONNX Runtime")


def test_what_is_no_report_is_named(relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = relu.with_name("empty.json")
    path.write_text("{}")
    assert run(["report", str(path), "-o", str(relu.with_name("page.html"))]) == 2
    assert capsys.readouterr().err == f"superopt: {path}: expected a report of schema 1, got None\n"


@pytest.mark.parametrize(
    ("output", "reports"),
    [
        ("r.json", ["r.json"]),
        ("o.onnx", ["r.json", "./r.json"]),
        ("link.onnx", ["r.json"]),
    ],
)
def test_two_results_do_not_go_into_one_file(
    output: str,
    reports: list[str],
    relu: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(relu.parent)
    Path("link.onnx").symlink_to("r.json")
    options = [word for report in reports for word in ("--report", report)]
    assert run(["optimize", str(relu), "-o", output, *options, *QUICK]) == 2
    said = capsys.readouterr().err
    assert said.startswith("superopt: r.json: expected a file of its own for each result, and ")
    assert not Path("r.json").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("optimize {} --dry-run --budget inf", "budget: expected a number of seconds, above 0, got inf"),
        ("optimize {} --dry-run --seed -1", "seed: expected a whole number, at least 0 and at most "),
        ("optimize {} --dry-run --memory-limit 2GX", "memory_limit: expected bytes, as in '2 GiB'"),
        (
            "optimize {} --dry-run --dim batch=0",
            "dim.batch: expected a whole number, at least 1 and at most ",
        ),
        (
            "optimize {} --dry-run --search none",
            "search: expected one of auto, backtracking, regions, beam (none ",
        ),
        ("check {} {} --seed -1", "--seed: expected at least 0, got '-1'"),
        ("check {} {} --tolerance nan", "tolerance: expected a number above 0, got nan"),
        ("check {} {} --tolerance -1", "tolerance: expected a number above 0, got -1.0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    command: str, message: str, relu: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([word.format(relu) for word in command.split()]) == 2
    assert capsys.readouterr().err.startswith(f"superopt: {message}")
