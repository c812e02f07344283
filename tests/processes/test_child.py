"""A function in a child process: however it ends, the parent gets one ending, and no process is left."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from superopt.errors import SuperoptError
from superopt.processes.channel import Channel
from superopt.processes.child import (
    Broken,
    Ending,
    JsonObject,
    Killed,
    OutOfDisk,
    OutOfMemory,
    OutOfTime,
    Raised,
    ResourceLimits,
    Returned,
    Stopped,
    ending_of,
    run_in_child,
)
from tests.processes.functions import LocalError

HERE = "tests.processes.functions"
LIMITS = ResourceLimits(seconds=60.0)


@pytest.mark.parametrize(
    ("function", "ending"),
    [
        ("return_an_object", Broken("TypeError: Object of type object is not JSON serializable")),
        ("fill_the_disk", OutOfDisk()),
        ("take_memory", OutOfMemory()),
        ("no_such_function", Broken(f"AttributeError: module '{HERE}' has no attribute 'no_such_function'")),
    ],
)
def test_a_failure_is_an_ending(function: str, ending: Ending) -> None:
    assert run_in_child(f"{HERE}:{function}", {}, ResourceLimits(60.0, 1 << 30)) == ending


def test_what_it_prints_is_no_result(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_in_child(f"{HERE}:print_much", {}, LIMITS) == Returned({})
    assert capfd.readouterr() == ("", "printed by Python\nprinted by native code\n")


def test_an_error_that_the_parent_does_not_know_is_one_of_its_bases() -> None:
    ending = run_in_child(f"{HERE}:raise_a_local_error", {}, LIMITS)
    assert isinstance(ending, Raised)
    assert (type(ending.error()), str(ending.error())) == (LocalError, "said in the child")


def test_no_error_is_imported_by_its_name() -> None:
    raised = Raised(("antigravity:Error", "os:system"), "said by a hostile process")
    assert type(raised.error()) is SuperoptError
    assert "antigravity" not in sys.modules


def test_its_descendants_end_with_it() -> None:
    told: list[dict[str, object]] = []
    began = time.monotonic()
    limits = ResourceLimits(60.0)
    stopped = run_in_child(
        f"{HERE}:start_and_hang", {}, limits, on_progress=told.append, wanted=lambda: not told
    )
    assert stopped == Stopped()
    assert time.monotonic() - began < limits.seconds
    wait_until_gone(pids_of(told[0]))


def test_a_limit_of_time_ends_it() -> None:
    assert isinstance(run_in_child(f"{HERE}:hang", {}, ResourceLimits(0.5)), OutOfTime)


@pytest.mark.parametrize("function", ["hang", "loop"])
def test_it_ends_when_its_parent_is_killed(function: str) -> None:
    program = (
        "from superopt.processes.child import ResourceLimits, run_in_child\n"
        f"run_in_child('{HERE}:{function}', {{}}, ResourceLimits(60.0), "
        "on_progress=lambda told: print(*told['pids'], flush=True))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    wait_until_gone([pid])


def pids_of(told: dict[str, object]) -> list[int]:
    pids = told["pids"]
    assert isinstance(pids, list)
    return [int(str(pid)) for pid in pids]  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline, pids
        threading.Event().wait(0.02)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    "answer", [{}, {"result": 5}, {"error": 5}, {"error": {"kinds": 5}}, {"broken": 3}, {"progress": 1}]
)
def test_what_is_no_answer_is_an_ending_too(answer: JsonObject) -> None:
    assert ending_of(answer) == Killed("its parent: it sent an invalid message")


def test_a_message_that_is_not_read_closes_both_ends() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(0.1)
    with closing(Channel(ours)) as sender, closing(Channel(theirs)) as reader:
        sender.send(bytes(1 << 24))
        assert sender.next_message(60) is None
        assert reader.next_message(60) is None
        assert sender.closed
        assert reader.closed
