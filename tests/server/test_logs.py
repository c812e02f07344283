"""Logs: short lines for people at a terminal, JSON for programs."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from superopt.cli.main import run
from superopt.processes import logs
from superopt.processes.logs import Text, about_job, about_request

TIME = r"\d\d:\d\d:\d\d"
BELOW = (
    "import sys; from superopt.processes.logs import configure; configure(sys.argv[1], 'info', 'worker'); "
    "from superopt.processes.child import ResourceLimits, run_in_child; "
    "run_in_child('tests.server.work_functions:log_from_below', {'job': '0123', 'line': 'here'}, "
    "ResourceLimits(60.0))"
)
PROGRAM = (
    "import logging, sys; from superopt.processes.logs import configure; "
    "configure(sys.argv[1], 'info', 'server'); logging.getLogger('test').warning('it is %s', 'late'); "
    "logging.getLogger('uvicorn.error').info('startup complete')"
)


@pytest.fixture(autouse=True)
def loggers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leaves the loggers, and those of child processes, as they were."""
    monkeypatch.setenv(logs.CONFIGURED, "")
    monkeypatch.delenv(logs.CONFIGURED)
    root, server = logging.getLogger(), logging.getLogger("uvicorn.error")
    before = root.level, list(root.handlers), server.level
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    server.setLevel(before[2])


def record(level: int, message: str, **fields: object) -> logging.LogRecord:
    """A record as code here makes it."""
    made = logging.LogRecord("test", level, "", 0, message, (), None)
    made.fields = fields
    return made


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (record(logging.INFO, "GET / 200", seconds=0.0123, status=200), "GET / 200  12 ms  job 0123abcd"),
        (record(logging.INFO, "succeeded"), "succeeded  job 0123abcd"),
        (record(logging.ERROR, "broken"), "error: broken  job 0123abcd  request mine"),
    ],
)
def test_a_line_for_people(made: logging.LogRecord, expected: str) -> None:
    with about_request("mine"), about_job("0123abcd" * 4):
        assert re.fullmatch(f"{TIME} worker {re.escape(expected)}", Text("worker", {}).format(made))


def test_an_exception_follows_its_line() -> None:
    made = record(logging.ERROR, "broken")
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        made.exc_info = sys.exc_info()
    assert Text("server", {}).format(made).splitlines()[-1] == "ZeroDivisionError"


def lines_on_a_terminal(format_: str, **environment: str) -> list[str]:
    """What a process logs whose standard error is a terminal."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-c", PROGRAM, format_]
    subprocess.run(words, stderr=theirs, check=True, env={**os.environ, **environment})
    os.close(theirs)
    text = os.read(ours, 10_000).decode()
    os.close(ours)
    return text.splitlines()


def lines_in_a_file(format_: str) -> list[str]:
    """What a process logs whose standard error is no terminal."""
    words = [sys.executable, "-c", PROGRAM, format_]
    return subprocess.run(words, stderr=subprocess.PIPE, check=True, text=True).stderr.splitlines()


def test_a_terminal_gets_short_lines_in_colour_and_others_json() -> None:
    (coloured,) = lines_on_a_terminal("auto")
    assert re.fullmatch(rf"\x1b\[2m{TIME} server\x1b\[0m \x1b\[33mwarning: it is late\x1b\[0m", coloured)
    (plain,) = lines_on_a_terminal("auto", NO_COLOR="1")
    assert re.fullmatch(f"{TIME} server warning: it is late", plain)
    assert [json.loads(line)["message"] for line in lines_in_a_file("auto")] == [
        "it is late",
        "startup complete",
    ]


def test_the_format_can_be_chosen() -> None:
    assert json.loads(lines_on_a_terminal("json")[0])["message"] == "it is late"
    (plain,) = lines_in_a_file("text")
    assert re.fullmatch(f"{TIME} server warning: it is late", plain)


def test_the_processes_of_a_job_log_like_their_worker() -> None:
    words = [sys.executable, "-c", BELOW, "json"]
    said = subprocess.run(words, stderr=subprocess.PIPE, check=True, text=True).stderr
    found = [json.loads(line) for line in said.splitlines()]
    assert [(line["message"], line["service"], line["job_id"]) for line in found] == [
        ("here", "worker", "0123"),
        ("below", "worker", "0123"),
    ]
    assert len({line["pid"] for line in found}) == 2


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_an_unknown_format_is_bad_usage(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--log-format", "xml"]) == 2
    assert "SUPEROPT_LOG_FORMAT: Input should be 'auto', 'json' or 'text'" in capsys.readouterr().err


def test_a_level_below_warning_shows_the_server_too() -> None:
    logs.configure("text", "debug", "server")
    assert logging.getLogger("uvicorn.error").isEnabledFor(logging.INFO)
