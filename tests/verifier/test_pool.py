"""Judging many: order, and that whatever ends a worker costs the item that it was at and no other."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from superopt.errors import MissingServiceError, UnjudgedError
from superopt.verifier.pool import Allowance, judge_all, judge_as_they_come, judge_for_good
from tests.verifier.culprits import Unpicklable, judge

REASONS = {
    "crash": "the process was killed by signal 11 (Segmentation fault)",
    "leave": "the process ended with exit code 3",
    "hang": "took longer than 2 s",
    "recurse": "RecursionError: maximum recursion depth exceeded",
    "swallow": "MemoryError: ",
    "unpicklable": "RecursionError: too deep to send",
}


class Unreadable:
    """A judgement whose reading ends the process."""

    def __call__(self, item: object) -> object:
        return item

    def __reduce__(self) -> tuple[object, ...]:
        return (os._exit, (4,))


def lost(item: object, reason: str) -> object:
    return f"{item if isinstance(item, str) else type(item).__name__}: {reason}"


def children() -> list[psutil.Process]:
    """The processes of pools."""
    every = psutil.Process().children(recursive=True)
    return [child for child in every if "superopt.processes.pool_main" in child.cmdline()]


def all_of(items: Sequence[object], jobs: int) -> list[object]:
    allowance = Allowance(seconds=2, megabytes=4000)
    return list(judge_all(judge, items, lost=lost, jobs=jobs, allowance=allowance))  # pyright: ignore[reportArgumentType]


def test_each_culprit_is_answered_with_what_it_did_and_all_others_are_judged() -> None:
    innocent = [f"item{number}" for number in range(30)]
    items = [name for pair in zip(innocent, [*REASONS, *[""] * 24], strict=True) for name in pair if name]
    answers = all_of(items, 2)
    expected = [f"{item}: {REASONS[item]}" if item in REASONS else item.upper() for item in items]
    assert [str(a)[: len(e)] for a, e in zip(answers, expected, strict=True)] == expected
    assert not children()


def test_a_worker_killed_from_outside_costs_nothing(tmp_path: Path) -> None:
    assert all_of(["a", f"once {tmp_path / 'done'}", "b"], 1) == ["A", "ONCE", "B"]


def test_what_earlier_items_keep_is_not_taken_from_later_ones() -> None:
    allowance = Allowance(megabytes=1400)
    assert list(judge_all(judge, ["hoard"] * 8, lost=lost, allowance=allowance)) == ["kept"] * 8


def test_an_item_that_cannot_be_sent_is_lost_alone() -> None:
    assert all_of(["a", Unpicklable(), "b"], 2) == ["A", "Unpicklable: RecursionError: too deep to send", "B"]


def test_without_a_process_errors_are_answers_too() -> None:
    answers = all_of(["a", "recurse", "swallow", "b"], 0)
    assert (answers[0], answers[3]) == ("A", "B")
    assert [str(answer).split(":")[1] for answer in answers[1:3]] == [" RecursionError", " MemoryError"]


def test_an_answer_does_not_wait_for_those_before_it(tmp_path: Path) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    file.write_text("second")
    answers = judge_as_they_come(Path.read_text, [pipe, file], lost=lost, jobs=2)  # pyright: ignore[reportArgumentType]
    assert next(answers) == (1, "second")
    pipe.write_text("first")
    assert list(answers) == [(0, "first")]


def test_what_the_machine_stops_is_judged_again_after_all_others(tmp_path: Path) -> None:
    slow = f"slow once {tmp_path / 'done'}"
    told: list[tuple[int, int]] = []
    answers = judge_for_good(
        judge,
        [slow, "a", "recurse"],
        lost=lost,
        jobs=2,
        allowance=Allowance(seconds=2),
        progress=lambda done, total: told.append((done, total)),
    )
    found = list(answers)
    assert sorted(found[:2]) == [(1, "A"), (2, f"recurse: {REASONS['recurse']}")]
    assert found[2:] == [(0, "SLOW ONCE")]
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("culprit", "reason"),
    [
        ("hang", "took longer than 2 s"),
        ("be killed", "the process was killed by signal 9 (Killed)"),
        ("crash", "the process was killed by signal 11 (Segmentation fault)"),
        ("swallow", "MemoryError: "),
    ],
)
def test_what_the_machine_never_lets_end_has_no_answer(culprit: str, reason: str) -> None:
    answers = judge_for_good(judge, [culprit, "a"], lost=lost, allowance=Allowance(seconds=2))
    assert next(answers) == (1, "A")
    with pytest.raises(
        UnjudgedError, match=f"^1 of 2 were not judged, when tried twice: {re.escape(reason)}"
    ):
        next(answers)


def test_the_progress_counts_every_item_once() -> None:
    told: list[tuple[int, int]] = []
    progress = lambda done, total: told.append((done, total))  # noqa: E731
    list(judge_all(judge, ["a", "leave", "b"], lost=lost, jobs=2, progress=progress))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_an_abandoned_pool_leaves_no_process() -> None:
    answers = judge_all(judge, ["a", "hang", "b"], lost=lost, jobs=2)
    assert next(answers) == "A"
    assert children()
    answers.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert not children()


def test_workers_that_cannot_start_are_an_error_and_no_verdict() -> None:
    with pytest.raises(
        MissingServiceError, match="no worker process can be started: it ended with exit code 4"
    ):
        list(judge_all(Unreadable(), ["a"], lost=lost))


def test_workers_end_when_their_parent_is_killed() -> None:
    script = (
        "from tests.verifier.culprits import judge; from verifier.pool import judge_all\n"
        "import psutil\n"
        "if __name__ == '__main__':\n"
        "    answers = judge_all(judge, ['a', 'b'], lost=print)\n"
        "    next(answers)\n"
        "    print(psutil.Process().children()[0].pid, flush=True)\n"
        "    input()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    os.kill(worker, 0)
    parent.kill()
    parent.communicate()
    for _ in range(100):
        if not Path(f"/proc/{worker}").exists() or "(zombie)" in Path(f"/proc/{worker}/status").read_text():
            break
        signal.sigtimedwait([], 0.05)
    else:
        pytest.fail("the worker lives on")
