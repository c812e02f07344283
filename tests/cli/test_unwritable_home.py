"""Without a home directory that can be written, commands go on where they can, and say what to set."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from superopt.cli.main import run
from tests.onnx_io.kit import model, node, value

HOME = "/proc/nonexistent"
ELSEWHERE = "give --database FILE, or set SUPEROPT_DATABASE_URL"
WORK = "give --work DIRECTORY, or set XDG_CACHE_HOME"
QUICK = "--budget 60 --max-candidates 1 --objective flops --threads 1"


@pytest.fixture
def relu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SUPEROPT_DATABASE_URL", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", HOME)
    path = tmp_path / "relu.onnx"
    onnx.save(model([node("Relu", "x", "y")], [value("x", [4, 4])], [value("y", [4, 4])]), path)
    return path


@pytest.mark.parametrize(
    "command",
    [
        f"optimize {{relu}} -o {{relu}}.out --report {{relu}}.json {QUICK}",
        "inspect {relu}",
        "library list --limit 1",
    ],
)
def test_work_that_needs_no_memory_goes_on(
    command: str, relu: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.format(relu=relu).split()) == 0
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert warning.startswith(f"superopt: warning: {HOME}/.local/share/superopt cannot be created: ")
    assert warning.endswith(f"; a temporary database with the shipped rules is used; {ELSEWHERE}")


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("library verify", ELSEWHERE),
        ("library generate --preset elementwise", ELSEWHERE),
        (
            "library generate --preset elementwise --database {relu}.db",
            "give --work DIRECTORY, or set XDG_CACHE_HOME",
        ),
    ],
)
def test_work_that_would_be_lost_says_what_to_set(
    command: str, advice: str, relu: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.format(relu=relu).split()) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith(f"; {advice}\n")
