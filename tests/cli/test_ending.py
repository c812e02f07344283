"""A command that is told to end leaves no temporary file behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import WithLibrary
from tests.onnx_io.kit import model, node, value

_PROGRAM = """
import sys, time
from importlib import import_module
from superopt.cli import main
def wait(*_, **__):
    print("waiting", flush=True)
    while True:
        time.sleep(0.1)
module, _, name = sys.argv[1].rpartition(".")
setattr(import_module(module), name, wait)
main(sys.argv[2:])
"""


IN_PROCESS, COMPARING = "superopt.journeys.in_process", "superopt.journeys.comparing"


@pytest.fixture(autouse=True)
def _own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary) -> None:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "superopt.db"))


@contextmanager
def waiting(command: str, models: int, waits_in: str, tmp_path: Path) -> Generator[subprocess.Popen[str]]:
    """A command that waits in a function; its temporary files are in the directory ``scratch``."""
    scratch, path = tmp_path / "scratch", tmp_path / "net.onnx"
    scratch.mkdir()
    ports = [value("x", ["n", 4])], [value("y", ["n", 4])]
    path.write_bytes(model([node("Relu", "x", "y")], *ports).SerializeToString())
    environment = {
        **os.environ,
        "TMPDIR": str(scratch),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    arguments = [sys.executable, "-c", _PROGRAM, waits_in, command, *[str(path)] * models]
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "waiting\n"
            yield running
        finally:
            running.kill()


@pytest.mark.parametrize(
    ("command", "models", "waits_in"),
    [("inspect", 1, f"{IN_PROCESS}.settle_sizes"), ("check", 2, f"{COMPARING}.check_equivalence")],
)
def test_a_command_that_is_told_to_end_leaves_nothing(
    command: str, models: int, waits_in: str, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    with waiting(command, models, waits_in, tmp_path) as running:
        assert list(scratch.iterdir()) != []
        running.terminate()
        assert running.wait(60) == 128 + signal.SIGTERM
    assert list(scratch.iterdir()) == []
