"""Judging many items in processes: whatever ends the process of an item is the reason for its answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from superopt.errors import UnjudgedError
from superopt.processes.pool import Allowance, LostTaskError, NoProcessError, Pool
from superopt.processes.pool_main import TaskError

Progress = Callable[[int, int], None]
Item = TypeVar("Item")
Answer = TypeVar("Answer")

_TRIES = 2
_AHEAD = 16
USUAL = Allowance()
"""Far above what a judgement needs: it decides only how a runaway ends."""

UNHURRIED = Allowance(seconds=24 * 3600)
"""For answers that must not depend on the load of the machine; a judgement takes seconds of the processor."""


@dataclass(frozen=True)
class _Failure:
    """The reason why an item has no answer; ``unjudged``: its process took too long, lacked memory or died,
    which may be due to the machine."""

    reason: str
    unjudged: bool


def judge_all(
    function: Callable[[Item], Answer],
    items: Sequence[Item],
    *,
    lost: Callable[[Item, str], Answer],
    jobs: int = 1,
    progress: Progress | None = None,
    allowance: Allowance = USUAL,
) -> Iterator[Answer]:
    """``judge_as_they_come``, the answers in the order of the items."""
    waiting: dict[int, Answer] = {}
    following = 0
    for number, answer in judge_as_they_come(
        function, items, lost=lost, jobs=jobs, progress=progress, allowance=allowance
    ):
        waiting[number] = answer
        while following in waiting:
            yield waiting.pop(following)
            following += 1


def judge_as_they_come(
    function: Callable[[Item], Answer],
    items: Sequence[Item],
    *,
    lost: Callable[[Item, str], Answer],
    jobs: int = 1,
    progress: Progress | None = None,
    allowance: Allowance = USUAL,
) -> Iterator[tuple[int, Answer]]:
    """The number of each item and ``function`` of it, over ``jobs`` processes.

    An item whose judgement raises, kills its process or exceeds the allowance is answered by ``lost(item,
    reason)``; one that kills its process is tried again in a fresh one before. With ``jobs`` 0 all is done in
    this process, where a crash ends everything. ``progress`` is told how many of how many are done. Function,
    items and answers are pickled.

    Raises ``MissingServiceError`` when no worker process can be started.
    """
    with closing(_outcomes(function, enumerate(items), jobs, allowance)) as outcomes:
        for done, (number, outcome) in enumerate(outcomes, 1):
            if progress:
                progress(done, len(items))
            failed = isinstance(outcome, _Failure)
            yield number, lost(items[number], outcome.reason) if failed else outcome


def judge_for_good(
    function: Callable[[Item], Answer],
    items: Sequence[Item],
    *,
    lost: Callable[[Item, str], Answer],
    jobs: int = 1,
    progress: Progress | None = None,
    allowance: Allowance = UNHURRIED,
) -> Iterator[tuple[int, Answer]]:
    """``judge_as_they_come`` for answers that are stored, and that the machine and its load must not decide.

    An item whose process exceeds the time allowed, lacks memory or dies is judged again after all others,
    alone. Raises UnjudgedError for those to which that happens twice, after every other answer.
    """
    waiting = dict(enumerate(items))
    unjudged: dict[int, str] = {}
    for jobs_at_once in (jobs, min(jobs, 1)):
        unjudged = {}
        with closing(_outcomes(function, waiting.items(), jobs_at_once, allowance)) as outcomes:
            for number, outcome in outcomes:
                failed = isinstance(outcome, _Failure)
                if failed and outcome.unjudged:
                    unjudged[number] = outcome.reason
                    continue
                del waiting[number]
                if progress:
                    progress(len(items) - len(waiting), len(items))
                yield number, lost(items[number], outcome.reason) if failed else outcome
    if unjudged:
        reasons = ", ".join(sorted(set(unjudged.values())))
        raise UnjudgedError(
            f"{len(unjudged)} of {len(items)} were not judged, when tried twice: {reasons}; all other "
            "answers are kept, so run the command again where there is more time or memory"
        )


def judge_alone(
    function: Callable[[Item], Answer],
    item: Item,
    *,
    lost: Callable[[Item, str], Answer],
    allowance: Allowance = USUAL,
) -> Answer:
    """``function`` of the item in a process of its own, which may die; to start it takes half a second."""
    (answer,) = judge_all(function, [item], lost=lost, allowance=allowance)
    return answer


def _outcomes(
    function: Callable[[Item], Answer], items: Iterable[tuple[int, Item]], jobs: int, allowance: Allowance
) -> Generator[tuple[int, Answer | _Failure]]:
    """The number of each item, and its answer or why there is none. With ``jobs`` 0 in this process."""
    numbered = tuple(items)
    if jobs:
        judged = _pooled(function, numbered, jobs, allowance)
    else:
        judged = ((number, partial(function, item)) for number, item in numbered)
    with closing(judged):
        for number, judgement in judged:
            yield number, _outcome(judgement)


def _outcome(judgement: Callable[[], Answer]) -> Answer | _Failure:
    try:
        return judgement()
    except NoProcessError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever fails is no answer, and says why
        reason = str(error) if isinstance(error, TaskError) else f"{type(error).__name__}: {error}"
        return _Failure(reason, unjudged=isinstance(error, LostTaskError | MemoryError))


def _pooled(
    function: Callable[[Item], Answer], items: Iterable[tuple[int, Item]], jobs: int, allowance: Allowance
) -> Generator[tuple[int, Callable[[], Answer]]]:
    """The number of each item and how to get its answer, as they come; few are submitted ahead."""
    left = deque(items)
    waiting: dict[Future[Answer], int] = {}
    with Pool(function, jobs, allowance, tries=_TRIES) as pool:
        while left or waiting:
            while left and len(waiting) < _AHEAD * jobs:
                number, item = left.popleft()
                waiting[pool.submit(item)] = number
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result


__all__ = [
    "Allowance",
    "Progress",
    "judge_all",
    "judge_alone",
    "judge_as_they_come",
    "judge_for_good",
]
