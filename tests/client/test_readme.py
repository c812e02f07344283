"""The examples of the README are run as they stand, against a real service."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from superopt.server.settings import Settings
from superopt.server.worker.loop import Worker
from tests.machine import require_program
from tests.server.conftest import WEIGHT, tiny_model
from tests.server.live import furnished, serving

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = Settings(
        optimize_file="work_functions:copy", job_niceness=0, poll_seconds=0.02, min_free_bytes=0
    )
    with (
        pytest.MonkeyPatch.context() as patch,
        furnished(tmp_path_factory.mktemp("readme")) as database,
        serving(settings, database) as address,
    ):
        patch.setenv("PYTHONPATH", str(ROOT / "tests" / "server"))
        stop = threading.Event()
        worker = threading.Thread(target=Worker(database, settings, stop).run)
        worker.start()
        yield address
        stop.set()
        worker.join()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The files that the examples are about."""
    (tmp_path / "net.onnx").write_bytes(tiny_model())
    (tmp_path / "large.onnx").write_bytes(tiny_model("weights/w.bin"))
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.bin").write_bytes(WEIGHT)
    return tmp_path


def block(language: str, text: str) -> str:
    """The block of code in that language that holds the text."""
    found = [code for code in re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL) if text in code]
    assert len(found) == 1
    return found[0]


def test_the_examples_with_curl(server: str, directory: Path) -> None:
    require_program("curl", "curl")
    script = block("sh", "curl").replace(ADDRESS, server)
    assert script.count(server) == 1
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=directory, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert json.loads((directory / "job.json").read_text())["state"] == "succeeded"
    assert (directory / "faster.onnx").read_bytes() == (directory / "net.onnx").read_bytes()
    assert json.loads((directory / "report.json").read_text())["schema"] == 1
    for shown in ("event: state", '"verdict":"verified"', "relu(relu(x)) => relu(x)", "superopt_jobs{"):
        assert shown in done.stdout


def test_the_example_in_python(server: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    code = block("python", "superopt.client").replace(ADDRESS, server)
    exec(compile(code, "README.md", "exec"), {})
    assert (directory / "faster.onnx").exists()
