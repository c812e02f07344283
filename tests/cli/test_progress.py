"""Progress: a bar on a terminal, lines elsewhere; what it says of an optimization."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from superopt.cli.progress import LINE_SECONDS, clock, counted
from superopt.cli.run_progress import Loudness, RunProgress
from superopt.errors import InvalidOptionError
from superopt.journeys.supervision import Job

_PROGRAM = """
import sys
from superopt.cli.progress import counted
with counted("verifying") as move:
    move(3, 9)
    sys.stdin.readline()
"""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (125, "2:05"), (3725, "1:02:05")]
)
def test_seconds_are_short(seconds: float, text: str) -> None:
    assert clock(seconds) == text


class _Watched(io.StringIO):
    """Standard error that is no terminal, and says when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.was_written = threading.Event()

    def flush(self) -> None:
        self.was_written.set()


def test_lines_appear_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = _Watched()
    monkeypatch.setattr(sys, "stderr", watched)
    monkeypatch.setenv(LINE_SECONDS, "0.01")
    with counted("verifying") as move:
        move(3, 9)
        assert watched.was_written.wait(60)
    assert watched.getvalue().splitlines()[0] == "superopt: verifying: 3 of 9, 0 s"


def test_a_bar_appears_on_a_terminal() -> None:
    ours, theirs = os.openpty()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stderr=theirs, env=environment
    ) as running:
        shown = b""
        while not (b"3 of 9" in shown and "\u2501".encode() in shown):
            shown += os.read(ours, 4096)
        assert running.stdin is not None
        running.stdin.write(b"\n")
        running.stdin.close()
        assert running.wait(60) == 0
    os.close(ours)
    os.close(theirs)
    assert b"superopt:" not in shown


SEARCHING = {"phase": "search", "cost_before": 30.0, "best_cost": 20.0, "candidates": 1234}


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([], "loading: 1:00 left"),
        ([{"phase": "pricing", "cost_before": None, "best_cost": None}], "measuring: 1:00 left"),
        ([SEARCHING], "searching: 1:00 left, best 1.50x, 1,234 candidates"),
        ([SEARCHING, {**SEARCHING, "phase": "timing"}], "timing: 1:00 left, best 1.50x"),
    ],
)
def test_an_optimization_says_phase_time_and_gain(messages: list[dict[str, object]], text: str) -> None:
    job = Job(Path("net.onnx"), None, {}, 60.0, time.monotonic() + 0.4)
    running = RunProgress(job, Loudness.NORMAL, threading.Event())
    for message in messages:
        running.hear(message)
    assert str(running.status()) == text
    assert running.status().total == 60


@pytest.mark.parametrize(
    ("loudness", "shown"),
    [
        (Loudness.QUIET, ""),
        (Loudness.NORMAL, f"superopt: warning: {'w' * 300}… (--verbose shows all)\n"),
        (Loudness.VERBOSE, f"superopt: warning: {'w' * 1000}\n"),
    ],
)
def test_long_warnings_are_shown_in_full_on_request(
    loudness: Loudness, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(Path("net.onnx"), None, {}, 60.0, time.monotonic())
    RunProgress(job, loudness, threading.Event()).hear({"warning": "w" * 1000})
    assert capsys.readouterr().err == shown


def test_quiet_and_verbose_exclude_each_other() -> None:
    with pytest.raises(InvalidOptionError, match="--quiet and --verbose exclude each other"):
        Loudness.of(quiet=True, verbose=True)
