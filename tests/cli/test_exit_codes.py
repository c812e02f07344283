"""Every exit code of docs/exit-codes.md is that of a command."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from superopt.cli.main import run
from superopt.journeys import in_process
from tests.cli.test_ending import IN_PROCESS, waiting
from tests.conftest import WithLibrary
from tests.onnx_io.kit import model, node, value

PAGE = Path(__file__).parent.parent.parent / "docs" / "exit-codes.md"

COMMANDS: dict[int, tuple[str, ...]] = {
    0: ("check {relu} {relu}", "optimize {relu} -o {out} {quick}"),
    1: ("check {relu} {neg}", "optimize {relu} -o {out} {quick} --require-gain"),
    2: ("inspect {here}/nowhere.onnx", "optimize {relu} --dry-run --dim batch=2", "optimise"),
    3: (
        'prove --timeout 0.001 "matmul(x, matmul(y, z)) => matmul(matmul(x, y), z)"',
        "check {noise} {noise}",
        "check {bfloat16} {bfloat16}",
    ),
    4: ("library stats --database postgresql://127.0.0.1:1/superopt",),
}
SIGNALS = {130: signal.SIGINT, 143: signal.SIGTERM}
QUICK = "--budget 30 --max-candidates 1 --objective flops --threads 1"


def _documented() -> set[int]:
    return {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)}


@pytest.fixture
def words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary
) -> Callable[[str], list[str]]:
    """What stands for the names in a command."""
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "superopt.db"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("Relu", "Neg"):
        made = model([node(name, "x", "y")], [value("x", [4, 4])], [value("y", [4, 4])])
        onnx.save(made, tmp_path / f"{name.lower()}.onnx")
    noise = model([node("RandomNormalLike", "x", "y")], [value("x", [4, 4])], [value("y", [4, 4])])
    onnx.save(noise, tmp_path / "noise.onnx")
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.BFLOAT16, [4]) for name in "xy"]
    onnx.save(model([node("Identity", "x", "y")], ends[:1], ends[1:]), tmp_path / "bfloat16.onnx")
    paths = {name: tmp_path / f"{name}.onnx" for name in ("noise", "bfloat16")}
    paths |= {"relu": tmp_path / "relu.onnx", "neg": tmp_path / "neg.onnx", "out": tmp_path / "o.onnx"}
    quoted = re.compile(r'"([^"]*)"|(\S+)')
    return lambda command: [
        (first or second).format(**paths, here=tmp_path)
        for first, second in quoted.findall(command.replace("{quick}", QUICK))
    ]


def test_the_page_has_the_codes_that_are_tested() -> None:
    assert _documented() == COMMANDS.keys() | SIGNALS.keys() | {5, 141}


@pytest.mark.parametrize(
    ("code", "command"), [(code, command) for code, commands in COMMANDS.items() for command in commands]
)
def test_a_command_ends_with_the_code(code: int, command: str, words: Callable[[str], list[str]]) -> None:
    assert run(words(command)) == code


@pytest.mark.parametrize("code", SIGNALS)
def test_a_signal_ends_a_command_with_the_code(code: int, tmp_path: Path) -> None:
    with waiting("inspect", 1, f"{IN_PROCESS}.settle_sizes", tmp_path) as running:
        running.send_signal(SIGNALS[code])
        assert running.wait(60) == code


@pytest.mark.parametrize("arguments", [("axioms", "list"), ("library", "export", "-")], ids=" ".join)
def test_a_reader_that_leaves_is_no_answer(arguments: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "superopt", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == 141


def test_an_internal_error_is_one_sentence_and_a_file_with_the_details(
    words: Callable[[str], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(in_process, "inspect", fail)
    assert run(words("inspect {relu}")) == 5
    said = capsys.readouterr().err
    assert said.startswith("superopt: internal error, please report it: ZeroDivisionError: a bug; details: ")
    assert said.count("\n") == 1
    assert "in fail\n" in Path(said.split("details: ")[1].strip()).read_text(encoding="utf-8")


@pytest.mark.parametrize("verbose", [False, True])
def test_after_an_internal_error_the_original_is_written(
    words: Callable[[str], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    verbose: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr("superopt.cli.commands.optimize.FUNCTION", "tests.supervised_functions:have_a_bug")
    command = "optimize {relu} -o {out} --require-gain" + (" --verbose" if verbose else " --quiet")
    assert run(words(command)) == 5
    assert (tmp_path / "o.onnx").read_bytes() == (tmp_path / "relu.onnx").read_bytes()
    said = capfd.readouterr().err
    why = "internal error, please report it: ZeroDivisionError: a bug; the original is returned"
    assert f"superopt: {why}; details: " in said
    assert ("Traceback" in said) is verbose
    (log,) = (tmp_path / "state" / "superopt" / "log").iterdir()
    assert "in have_a_bug\n" in log.read_text(encoding="utf-8")
