"""A pool of processes: every item has an answer or a reason, whatever becomes of its process."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import psutil
import pytest

from superopt.processes.pool import Allowance, LostTaskError, NoProcessError, Pool
from superopt.processes.pool_main import TaskError
from tests.processes.functions import judge

UNLIMITED = Allowance(seconds=math.inf, megabytes=None)


def test_an_exception_comes_with_its_trace() -> None:
    with Pool(judge, 1, UNLIMITED) as pool:
        error = pool.submit("raise").exception()
    assert isinstance(error, ZeroDivisionError)
    assert str(error) == "a bug"
    assert "functions.py" in error.__notes__[0]


def test_an_exception_that_cannot_be_sent_is_told_in_words() -> None:
    with Pool(judge, 1, UNLIMITED) as pool, pytest.raises(TaskError, match=r"^OddError: not readable$"):
        pool.submit("odd").result()


@pytest.mark.parametrize("tries", [1, 2])
def test_an_item_that_kills_its_process_is_lost_alone(tries: int) -> None:
    with Pool(judge, 1, UNLIMITED, tries=tries) as pool:
        futures = [pool.submit(item) for item in ("a", "die", "b", "die", "c")]
        errors = [future.exception() for future in futures]
    assert [isinstance(error, LostTaskError) for error in errors] == [False, True, False, True, False]
    assert errors[0] is errors[2] is errors[4] is None
    assert str(errors[1]) == "the process was killed by signal 9 (Killed)"


def test_processes_are_used_again_and_not_more_than_needed() -> None:
    with Pool(judge, 4, UNLIMITED) as pool:
        pids = {pool.submit("pid").result() for _ in range(5)}
    assert len(pids) == 1


def test_a_process_that_dies_between_items_costs_no_item() -> None:
    with Pool(judge, 1, UNLIMITED) as pool:
        pid = int(pool.submit("pid").result())
        process = psutil.Process(pid)
        process.kill()
        psutil.wait_procs([process], timeout=60)
        assert int(pool.submit("pid").result()) != pid


def test_nothing_is_done_for_a_cancelled_future() -> None:
    with Pool(judge, 1, Allowance(seconds=3, megabytes=None)) as pool:
        first = pool.submit("wait")
        others = [pool.submit("die") for _ in range(3)]
        while not first.running():
            pass
        assert others[-1].cancel()
        assert isinstance(first.exception(), LostTaskError)


def test_the_end_of_the_block_ends_what_is_under_way() -> None:
    with Pool(judge, 2, UNLIMITED) as pool:
        futures = [pool.submit("wait") for _ in range(5)]
        while not futures[0].running():
            pass
    assert all(isinstance(future.exception(), TaskError) for future in futures)
    assert not [child for child in psutil.Process().children() if "pool_main" in str(child.cmdline())]
    assert isinstance(pool.submit("late").exception(), TaskError)


def test_a_program_that_ends_does_not_wait_for_its_pool() -> None:
    program = (
        "from superopt.processes.pool import Allowance, Pool\n"
        "from tests.processes.functions import judge\n"
        "pool = Pool(judge, 1, Allowance()).__enter__()\n"
        "waiting = pool.submit('wait')\n"
        "pool.submit('late')\n"
        "while not waiting.running(): pass\n"
        "raise SystemExit(7)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    assert (
        subprocess.run([sys.executable, "-c", program], timeout=60, env=environment, check=False).returncode
        == 7
    )


class Unreadable:
    """A function whose reading ends the process."""

    def __call__(self, item: str) -> object:
        return item

    def __reduce__(self) -> tuple[object, ...]:
        return (os._exit, (4,))


def test_a_pool_without_processes_says_so_to_every_item() -> None:
    with Pool(Unreadable(), 1, UNLIMITED) as pool:
        futures: list[Future[object]] = [pool.submit("a") for _ in range(3)]
        reasons = {str(future.exception()) for future in futures}
        assert isinstance(pool.submit("late").exception(), NoProcessError)
    assert reasons == {"no worker process can be started: it ended with exit code 4"}
