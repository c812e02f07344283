"""superopt library generate: what it prints, how it goes on, and one clear sentence for whatever is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from superopt.cli.main import run
from superopt.generator.enumerate import enumeration
from superopt.substitution_db import open_database
from tests.generator.runs import PART_PAIRS, kill_half_way, preset

GENERATE = ["library", "generate", "--max-ops", "2"]


@pytest.fixture(autouse=True)
def _own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", str(tmp_path / "rules.db"))


def _equations(database: str) -> list[str]:
    with open_database(database) as opened:
        return [rule.equation for rule in opened.rules.list()]


def test_one_preset_is_one_document(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run([*GENERATE, "--preset", "matrix", "--operators", "relu,transpose", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"preset", "max_ops", "levels", "candidates", "kept", "seconds"} <= document.keys()
    assert document["preset"], document["max_ops"] == ("matrix", 2)
    assert [level["ops"] for level in document["levels"]] == [1, 2]
    assert (document["kept"], document["new"], document["resumed_tasks"]) == (3, 3, 0)
    assert document["cpu_seconds"] > 0
    assert document["cpu_seconds_by_phase"].keys() == {"enumerate", "pair", "prune"}
    assert document["peak_memory_bytes"] > 10_000_000
    assert len(_equations(str(tmp_path / "rules.db"))) == 3
    assert not list((tmp_path / "cache" / "superopt" / "generate").iterdir())


def test_several_presets_end_with_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    several = [*GENERATE, "--preset", "matrix", "--preset", "elementwise", "--operators", "relu,add"]
    assert run(several) == 0
    printed = capsys.readouterr().out.splitlines()
    (heading,) = (number for number, line in enumerate(printed) if line.startswith("preset"))
    assert [line.split()[0] for line in printed[heading + 1 : heading + 3]] == ["matrix", "elementwise"]
    assert run([*several, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["preset"] for one in document["presets"]] == ["matrix", "elementwise"]


def test_a_killed_run_is_taken_up(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enumeration, "PART_PAIRS", PART_PAIRS)
    arguments = [*GENERATE, "--preset", preset().name, "--work", str(tmp_path / "work"), "--json"]
    assert kill_half_way(tmp_path / "work", 1) == signal.SIGKILL
    assert run([*arguments, "--resume", "--database", str(tmp_path / "resumed.db")]) == 0
    assert json.loads(capsys.readouterr().out)["resumed_tasks"] == 4
    assert run([*arguments, "--resume"]) == 0
    assert json.loads(capsys.readouterr().out)["resumed_tasks"] == 0
    assert _equations(str(tmp_path / "resumed.db")) == _equations(str(tmp_path / "rules.db")) != []


def test_an_interrupted_run_says_how_to_go_on_and_keeps_what_is_done(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "superopt", "library", "generate", "--preset", preset().name]
    options = ["--preset", "matrix", "--max-ops", "3", "--jobs", "2", "--work", str(tmp_path / "work")]
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not list(tmp_path.glob("work/*/*.result")):
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            pytest.fail("it ended before it was interrupted")
    os.killpg(process.pid, signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert printed == ""
    assert errors.splitlines() == [
        "to continue, run the same command with --resume",
        "superopt: interrupted",
    ]
    assert list(tmp_path.glob("work/*/*.result"))


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--preset", "nothing"], 2, "unknown preset nothing; known: "),
        (["--preset", "nothing.toml"], 2, "nothing.toml: cannot be read"),
        (["--preset", "matrix", "--operators", "conv"], 2, "preset matrix has no operator conv; it has: "),
        (["--operators", "relu,nothing"], 2, "no preset has an operator nothing; they have: "),
        (["--preset", "matrix", "--max-ops", "0"], 2, "--max-ops: expected at least 1, got '0'"),
        (["--preset", "matrix", "--jobs", "0"], 2, "--jobs: expected at least 1, got '0'"),
        (["--preset", "matrix", "--work", "/dev/null/there"], 2, "/dev/null/there/matrix-2-"),
        (["--preset", "matrix", "--scheduler", "tcp://127.0.0.1:1"], 4, "no Dask scheduler at tcp"),
        (["--preset", "matrix", "--scheduler", "somewhere"], 2, "scheduler 'somewhere': expected an address"),
        (["--preset", "matrix", "--device", "tpu"], 2, "device 'tpu': expected one of cpu, cuda"),
        (["--preset", "matrix", "--scheduler", "a:1", "--jobs", "2"], 2, "--jobs and --scheduler exclude"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    capsys: pytest.CaptureFixture[str], options: list[str], code: int, message: str
) -> None:
    assert run([*GENERATE, *options]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(f"superopt: {message}")


def test_a_scheduler_needs_dask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert run([*GENERATE, "--preset", "matrix", "--scheduler", "tcp://127.0.0.1:1"]) == 4
    assert "needs Dask" in capsys.readouterr().err
