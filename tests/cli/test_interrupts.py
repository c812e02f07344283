"""Ctrl-C ends a search with its best model, the second time at once; SIGTERM leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
import psutil
import pytest

from superopt.cli.progress import LINE_SECONDS
from tests.conftest import WithLibrary
from tests.onnx_io.kit import model, node, value, weight

_PRODUCTS = 7
_SIZE = 192


@dataclass(frozen=True)
class Run:
    """A running command, and the directories where it writes results and temporary files."""

    process: subprocess.Popen[str]
    results: Path
    scratch: Path

    def wait_for(self, *words: str) -> str:
        """The next line on standard error that has all the words."""
        assert self.process.stderr is not None
        said: list[str] = []
        for line in self.process.stderr:
            said.append(line)
            if all(word in line for word in words):
                return line
        raise AssertionError("".join(said))

    def written(self) -> list[str]:
        """The names of all results."""
        return sorted(path.name for path in self.results.iterdir())

    def ended(self) -> tuple[int, str, str]:
        """Exit code, standard output, and the rest of standard error."""
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err


@pytest.fixture(autouse=True)
def _own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary) -> None:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "superopt.db"))


@contextmanager
def _searching(tmp_path: Path, *options: str) -> Generator[Run]:
    """The command on a model with a large gain, found soon, and a search that does not end by itself.
    Bilinear algorithms, which have more nodes, are left out."""
    products = [node("MatMul", f"x w{i}", f"p{i}") for i in range(_PRODUCTS)]
    sums = [node("Add", f"s{i - 1} p{i}", f"s{i}") for i in range(1, _PRODUCTS)]
    sums[0].input[0] = "p0"
    shape = [_SIZE, _SIZE]
    made = model(
        [*products, *sums],
        [value("x", shape)],
        [value(f"s{_PRODUCTS - 1}", shape)],
        [weight(f"w{i}", _SIZE, _SIZE) for i in range(_PRODUCTS)],
    )
    path, results, scratch = tmp_path / "net.onnx", tmp_path / "results", tmp_path / "scratch"
    onnx.save(made, path)
    results.mkdir()
    scratch.mkdir()
    environment: Mapping[str, str] = {
        **os.environ,
        "TMPDIR": str(scratch),
        LINE_SECONDS: "0.1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    arguments = ["optimize", str(path), "-o", str(results / "o.onnx"), "--report", str(results / "r.json")]
    arguments += ["--budget", "600", "--alpha", "4", "--exact-rounding"]
    with subprocess.Popen(
        [sys.executable, "-m", "superopt.cli", *arguments, *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Run(process, results, scratch)
        finally:
            process.kill()


def test_the_best_model_so_far_is_checked_and_written(tmp_path: Path) -> None:
    with _searching(tmp_path) as run:
        while "best 1.0" in run.wait_for("searching", "best"):
            continue
        os.killpg(run.process.pid, signal.SIGINT)
        code, out, err = run.ended()
        assert (code, "interrupted: the search ends" in err) == (0, True), err
    report = json.loads((run.results / "r.json").read_text())
    assert report["search"]["stopped_by"] == "interrupted"
    assert "interrupted: search ended early" in out
    assert (report["returned"], report["equivalence"]["passed"]) == ("optimized", True), out
    assert report["measured"]["ratio"] > 1
    assert run.written() == ["o.onnx", "r.json"]
    assert len(onnx.load(run.results / "o.onnx").graph.node) < 2 * _PRODUCTS - 1


@pytest.mark.parametrize(
    ("signals", "code"),
    [
        ((signal.SIGINT, signal.SIGINT), 130),
        ((signal.SIGTERM,), 128 + signal.SIGTERM),
        ((signal.SIGINT, signal.SIGTERM), 128 + signal.SIGTERM),
    ],
)
def test_nothing_is_written_and_nothing_stays(
    signals: tuple[signal.Signals, ...], code: int, tmp_path: Path
) -> None:
    with _searching(tmp_path) as run:
        run.wait_for("searching")
        children = psutil.Process(run.process.pid).children(recursive=True)
        assert children
        for number in signals[:-1]:
            run.process.send_signal(number)
            run.wait_for("interrupted: the search ends")
        run.process.send_signal(signals[-1])
        assert run.ended()[0] == code
        assert run.written() == []
        assert list(run.scratch.iterdir()) == []
        gone, alive = psutil.wait_procs(children, timeout=20)
        assert (len(gone), alive) == (len(children), [])


def test_quiet_says_nothing_and_writes_the_result(tmp_path: Path) -> None:
    with _searching(tmp_path, "--quiet", "--max-candidates", "3") as run:
        assert run.ended() == (0, "", "")
    assert run.written() == ["o.onnx", "r.json"]


def test_verbose_names_the_phases_and_their_seconds(tmp_path: Path) -> None:
    with _searching(tmp_path, "--verbose", "--max-candidates", "3") as run:
        for phase in ("loading", "measuring", "searching", "checking", "timing"):
            run.wait_for(f"superopt: {phase} took ", " s\n")
        assert run.ended()[0] == 0
