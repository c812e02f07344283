"""The runtime's telemetry is off in every process, unless the user turns it on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from superopt import zoo
from tests.e2e.conftest import serving

SWITCH = "ORT_DISABLE_TELEMETRY"
QUICK = ("--max-candidates", "5", "--threads", "1")
LOADS = "import superopt.optimizer.cost.runtime.session"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home where nothing lies."""
    path = tmp_path / "home"
    path.mkdir()
    return path


def environment_of(home: Path, **others: str) -> dict[str, str]:
    """The process environment as a user has it who set nothing; nothing that is sent leaves the machine."""
    kept = {
        name: value for name, value in os.environ.items() if name != SWITCH and not name.startswith("XDG_")
    }
    return {**kept, "HOME": str(home), "https_proxy": "http://127.0.0.1:9", **others}


def left_by_the_runtime(home: Path) -> list[str]:
    """The files of the runtime, by their names in the home."""
    files = (str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
    return sorted(name for name in files if "onnxruntime" in name or "Microsoft" in name)


def test_a_run_leaves_nothing_of_the_runtime(home: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    zoo.save("squeezenet", model)
    given = ("optimize", model, "-o", tmp_path / "out.onnx", "--budget", "60", *QUICK)
    done = subprocess.run(
        [sys.executable, "-m", "superopt", *map(str, given)],
        env=environment_of(home),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert left_by_the_runtime(home) == []
    assert any(home.rglob("superopt.db"))  # what we keep is there: this was the home


def test_a_job_of_the_service_leaves_nothing_of_the_runtime(home: Path, tmp_path: Path) -> None:
    model, environment = tmp_path / "model.onnx", environment_of(home)
    zoo.save("squeezenet", model)
    with serving(environment, tmp_path / "serve.log") as address:
        given = ("submit", model, "--server", address, "-o", tmp_path / "out.onnx", "--budget", "6", *QUICK)
        done = subprocess.run(
            [sys.executable, "-m", "superopt", *map(str, given)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.onnx").exists()
    assert left_by_the_runtime(home) == []


@pytest.mark.parametrize(("given", "kept"), [({}, "1"), ({SWITCH: "0"}, "0"), ({SWITCH: "1"}, "1")])
def test_what_the_user_set_stands(home: Path, given: dict[str, str], kept: str) -> None:
    # Whether the runtime then writes anything depends on when it gets to it, so what it is told is looked at.
    done = subprocess.run(
        [sys.executable, "-c", f"{LOADS}; import os; print(os.environ['{SWITCH}'])"],
        env=environment_of(home, **given),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [kept]
