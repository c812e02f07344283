"""Runs that end badly, for real: workers that die at a task, programs that are killed half-way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from superopt.generator import Generation, Preset, Workers, load_preset
from superopt.generator.enumerate import enumeration

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

PART_PAIRS = 100
"""With it, the three stages have 2, 3 and 3 parts."""

KILLED_HALF_WAY = """
import os, signal, sys
from contextlib import nullcontext
from pathlib import Path
from superopt.generator import fresh_work, generate, in_process, processes
from tests.generator.runs import in_small_parts, preset, set_small_parts

def end(progress):
    if progress.done == 1 and progress.parts == (2, 3):
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    jobs = int(sys.argv[2])
    set_small_parts()
    with (processes(jobs) if jobs > 1 else nullcontext(in_process())) as workers:
        with fresh_work(Path(sys.argv[1])) as checkpoints:
            small = in_small_parts(workers)
            generate(preset(), max_ops=2, workers=small, checkpoints=checkpoints, progress=end)
"""


def preset() -> Preset:
    """One with several stages."""
    return load_preset("elementwise")


def essence(generation: Generation) -> str:
    """All of a generation but what it cost."""
    return repr(
        (generation.levels, generation.pairs, generation.distinct, generation.dropped, generation.candidates)
    )


def kill_half_way(root: Path, jobs: int) -> int:
    """Runs a program that is killed when one stage and two parts of the next are done; what signal did it."""
    arguments = [sys.executable, "-c", KILLED_HALF_WAY, str(root), str(jobs)]
    done = subprocess.run(arguments, capture_output=True, check=False)
    return -done.returncode


class Around(Executor):
    """Another executor's, with something around each task: what ``around`` says of its number."""

    def __init__(self, executor: Executor, around: Callable[[int], Callable[..., object]]) -> None:
        self._executor = executor
        self._around = around
        self._count = 0

    def submit(
        self, fn: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        around = self._around(self._count)
        self._count += 1
        return self._executor.submit(partial(around, fn), *args, **kwargs)


def in_small_parts(workers: Workers) -> Workers:
    """The workers; wherever they are, last levels have parts of few terms."""
    return replace(workers, executor=Around(workers.executor, lambda _: _with_small_parts))


def deadly(workers: Workers, marker: Path, number: int) -> Workers:
    """The workers; one is killed, once, when it has computed the answer of the task of that number."""
    dying = partial(_dying_once, marker)
    return replace(workers, executor=Around(workers.executor, lambda n: dying if n == number else _plain))


def set_small_parts() -> None:
    """From now on, last levels have parts of few terms in this process."""
    enumeration.PART_PAIRS = PART_PAIRS


def _plain(function: Callable[..., object], *arguments: object) -> object:
    return function(*arguments)


def _with_small_parts(function: Callable[..., object], *arguments: object) -> object:
    set_small_parts()
    return function(*arguments)


def _dying_once(marker: Path, function: Callable[..., object], *arguments: object) -> object:
    result = function(*arguments)
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return result


def fail(item: str) -> str:
    """A task that cannot be done; ``die`` takes its worker with it."""
    if item == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError(item)
