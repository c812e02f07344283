"""An archive of inputs that does not fit the model is one clear error, whatever is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias
from zipfile import ZipFile

import numpy as np
import pytest

from superopt.cli.main import run
from tests.conftest import WithLibrary
from tests.onnx_io.kit import model, node, value

ROWS, BIAS = np.ones((2, 4), np.float32), np.ones(4, np.float32)
Writer: TypeAlias = "Callable[[Path], object]"


def archive(**arrays: object) -> Writer:
    return lambda path: np.savez(path, **arrays)  # type: ignore[arg-type]


def archive_of_text(path: Path) -> None:
    with ZipFile(path, "w") as file:
        file.writestr("x", "no array")


def torn(path: Path) -> None:
    archive(x=ROWS, b=BIAS)(path)
    path.write_bytes(path.read_bytes()[:200])


NO_ARCHIVE = "expected a numpy archive (.npz) of inputs: "
CASES: Mapping[str, tuple[Writer, str]] = {
    "a missing name": (archive(x=ROWS), "input 'b' is missing; it has x"),
    "no names": (archive(), "inputs 'x', 'b' are missing; it has none"),
    "a name too many": (
        archive(x=ROWS, b=BIAS, z=BIAS),
        "the model has no input 'z'; its inputs are x, b",
    ),
    "two names too many": (
        archive(x=ROWS, b=BIAS, z=BIAS, zz=BIAS),
        "the model has no inputs 'z', 'zz'; its inputs are x, b",
    ),
    "a wrong size": (
        archive(x=np.ones((2, 5), np.float32), b=BIAS),
        "input 'x': expected shape ['batch', 4], got [2, 5]",
    ),
    "a wrong rank": (
        archive(x=BIAS, b=BIAS),
        "input 'x': expected shape ['batch', 4], got [4]",
    ),
    "a wrong type": (
        archive(x=ROWS.astype(np.float64), b=BIAS),
        "input 'x': expected float32, got float64",
    ),
    "no array": (archive_of_text, f"{NO_ARCHIVE}x: not an array"),
    "objects": (archive(x=np.array([None], object)), f"{NO_ARCHIVE}Object arrays cannot be loaded"),
    "a torn archive": (torn, f"{NO_ARCHIVE}not an archive, or a truncated one"),
    "text": (lambda path: path.write_text("text"), f"{NO_ARCHIVE}not an archive, or a truncated one"),
    "a directory": (Path.mkdir, f"{NO_ARCHIVE}is a directory"),
    "nothing": (lambda _: None, f"{NO_ARCHIVE}no such file"),
}


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary) -> Path:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "superopt.db"))
    path = tmp_path / "net.onnx"
    ports = [value("x", ["batch", 4]), value("b", [4])], [value("y", ["batch", 4])]
    path.write_bytes(model([node("Add", "x b", "y")], *ports).SerializeToString())
    return path


@pytest.mark.parametrize("case", CASES)
def test_check_says_what_is_wrong(case: str, network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write, message = CASES[case]
    inputs = network.with_name("inputs.npz")
    write(inputs)
    assert run(["check", str(network), str(network), "--inputs", str(inputs)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"superopt: {inputs}: {message}")
    assert said.count("\n") == 1


@pytest.mark.parametrize("case", ["a missing name", "a name too many", "no array", "a wrong type"])
def test_optimize_says_the_same(case: str, network: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write, message = CASES[case]
    inputs = network.with_name("inputs.npz")
    write(inputs)
    arguments = ["--dry-run", "--budget", "30", "--max-candidates", "1", "--inputs", str(inputs)]
    assert run(["optimize", str(network), *arguments]) == 2
    said = capfd.readouterr()
    assert said.err.startswith(f"superopt: {inputs}: {message}")
    assert (said.err.count("\n"), said.out) == (1, "")
