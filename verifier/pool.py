"""Judging many items in processes: whatever ends the process of an item is the reason for its answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from functools import partial
from typing import TypeVar

from superopt.processes.pool import Allowance, NoProcessError, Pool
from superopt.processes.pool_main import TaskError

Progress = Callable[[int, int], None]
Item = TypeVar("Item")
Answer = TypeVar("Answer")

_TRIES = 2
_AHEAD = 16
USUAL = Allowance()
"""Far above what a judgement needs: it decides only how a runaway ends."""


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
    if jobs:
        judged = _pooled(function, items, jobs, allowance)
    else:
        judged = ((number, partial(function, item)) for number, item in enumerate(items))
    with closing(judged):
        for done, (number, judgement) in enumerate(judged, 1):
            try:
                answer = judgement()
            except NoProcessError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever fails is no answer, and says why
                reason = str(error) if isinstance(error, TaskError) else f"{type(error).__name__}: {error}"
                answer = lost(items[number], reason)
            if progress:
                progress(done, len(items))
            yield number, answer


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


def _pooled(
    function: Callable[[Item], Answer], items: Sequence[Item], jobs: int, allowance: Allowance
) -> Generator[tuple[int, Callable[[], Answer]]]:
    """The number of each item and how to get its answer, as they come; few are submitted ahead."""
    left = deque(enumerate(items))
    waiting: dict[Future[Answer], int] = {}
    with Pool(function, jobs, allowance, tries=_TRIES) as pool:
        while left or waiting:
            while left and len(waiting) < _AHEAD * jobs:
                number, item = left.popleft()
                waiting[pool.submit(item)] = number
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result


__all__ = ["Allowance", "Progress", "judge_all", "judge_alone", "judge_as_they_come"]
