"""Runs that end badly, for real: workers that die at a task, programs that are killed half-way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from generator import Generation, Preset, Workers, load_preset

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

KILLED_HALF_WAY = """
import os, signal, sys
from contextlib import nullcontext
from pathlib import Path
from generator import fresh_work, generate, in_process, processes
from tests.generator.runs import preset

def end(progress):
    if progress.done == 2:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    jobs = int(sys.argv[2])
    with (processes(jobs) if jobs > 1 else nullcontext(in_process())) as workers:
        with fresh_work(Path(sys.argv[1])) as checkpoints:
            generate(preset(), max_ops=2, workers=workers, checkpoints=checkpoints, progress=end)
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
    """Runs a program that is killed when two stages are done; the signal that ended it."""
    arguments = [sys.executable, "-c", KILLED_HALF_WAY, str(root), str(jobs)]
    done = subprocess.run(arguments, capture_output=True, check=False)
    return -done.returncode


class Deadly(Executor):
    """Another executor's, but of one task the worker is killed, once, when it has computed the answer."""

    def __init__(self, executor: Executor, marker: Path, number: int) -> None:
        self._executor = executor
        self._marker = marker
        self._left = number

    def submit(
        self, fn: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        if self._left == 0:
            fn = partial(_dying_once, fn, self._marker)
        self._left -= 1
        return self._executor.submit(fn, *args, **kwargs)


def deadly(workers: Workers, marker: Path, number: int) -> Workers:
    """The workers, of which one dies at the task of that number and leaves the marker."""
    return Workers(Deadly(workers.executor, marker, number), workers.ahead, workers.apart, workers.lost)


def _dying_once(
    function: Callable[Parameters, Result],
    marker: Path,
    *args: Parameters.args,
    **kwargs: Parameters.kwargs,
) -> Result:
    result = function(*args, **kwargs)
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return result


def fail(item: str) -> str:
    """A task that cannot be done; ``die`` takes its worker with it."""
    if item == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError(item)
