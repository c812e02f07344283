"""Judging many items in processes: whatever ends the process of an item is the reason for its answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from superopt.processes.pool import Allowance, NoProcessError, Pool
from superopt.processes.pool_main import TaskError

Progress = Callable[[int, int], None]
Item = TypeVar("Item")
Answer = TypeVar("Answer")

_TRIES = 2
_AHEAD = 16
_PER_TASK = 8
USUAL = Allowance()
"""Far above what a judgement needs: it decides only how a runaway ends."""


@dataclass(frozen=True)
class _Outcome(Generic[Answer]):
    """An answer, or none and the reason."""

    answer: tuple[Answer] | tuple[()]
    reason: str = ""


def judge_all(
    function: Callable[[Item], Answer],
    items: Sequence[Item],
    *,
    lost: Callable[[Item, str], Answer],
    jobs: int = 1,
    progress: Progress | None = None,
    executor: Executor | None = None,
    allowance: Allowance = USUAL,
) -> Iterator[Answer]:
    """``judge_as_they_come``, the answers in the order of the items."""
    waiting: dict[int, Answer] = {}
    following = 0
    for number, answer in judge_as_they_come(
        function, items, lost=lost, jobs=jobs, progress=progress, executor=executor, allowance=allowance
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
    executor: Executor | None = None,
    allowance: Allowance = USUAL,
) -> Iterator[tuple[int, Answer]]:
    """The number of each item and ``function`` of it, over ``jobs`` processes or over the executor.

    An item whose judgement raises, kills its process or exceeds the allowance is answered by ``lost(item,
    reason)``. What an executor fails at is done by ``jobs`` processes, at least one. With ``jobs`` 0 and no
    executor all is done in this process, where a crash ends everything. ``progress`` is told how many of how
    many are done. Function, items and answers are pickled.

    Raises ``MissingServiceError`` when no worker process can be started.
    """
    left = dict(enumerate(items))
    if executor is not None:
        outcomes = _through(executor, function, left, max(1, jobs), allowance)
    elif jobs:
        outcomes = _pooled(function, left, jobs, allowance)
    else:
        outcomes = ((number, _attempt(function, item)) for number, item in enumerate(items))
    for done, (number, outcome) in enumerate(outcomes, 1):
        if progress:
            progress(done, len(items))
        yield number, outcome.answer[0] if outcome.answer else lost(items[number], outcome.reason)


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


def _attempt(function: Callable[[Item], Answer], item: Item) -> _Outcome[Answer]:
    try:
        return _Outcome((function(item),))
    except NoProcessError:
        raise
    except TaskError as error:
        return _Outcome((), str(error))
    except Exception as error:  # noqa: BLE001 - whatever fails is no answer, and says why
        return _Outcome((), f"{type(error).__name__}: {error}")


def _pooled(
    function: Callable[[Item], Answer], items: dict[int, Item], jobs: int, allowance: Allowance
) -> Iterator[tuple[int, _Outcome[Answer]]]:
    """Over a pool of our own, where an item whose process dies is tried again."""
    left = deque(items)
    waiting: dict[Future[Answer], int] = {}
    with Pool(function, jobs, allowance, tries=_TRIES) as pool:
        while left or waiting:
            while left and len(waiting) < _AHEAD * jobs:
                number = left.popleft()
                waiting[pool.submit(items[number])] = number
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), _attempt(Future[Answer].result, future)


def _through(
    executor: Executor,
    function: Callable[[Item], Answer],
    items: dict[int, Item],
    jobs: int,
    allowance: Allowance,
) -> Iterator[tuple[int, _Outcome[Answer]]]:
    """Over an executor, in tasks of some items; the items of tasks that fail go to a pool of our own."""
    numbers = list(items)
    tasks: dict[Future[list[_Outcome[Answer]]], list[int]] = {}
    try:
        for start in range(0, len(numbers), _PER_TASK):
            some = numbers[start : start + _PER_TASK]
            with suppress(Exception):
                tasks[executor.submit(_attempt_each, function, [items[number] for number in some])] = some
        for future, some in tasks.items():
            done = _attempt(Future[list[_Outcome[Answer]]].result, future)
            for number, outcome in zip(some, *done.answer, strict=True) if done.answer else ():
                del items[number]
                yield number, outcome
    finally:
        for future in tasks:
            future.cancel()
    yield from _pooled(function, items, jobs, allowance)


def _attempt_each(function: Callable[[Item], Answer], items: Sequence[Item]) -> list[_Outcome[Answer]]:
    return [_attempt(function, item) for item in items]


__all__ = ["Allowance", "Progress", "judge_all", "judge_alone", "judge_as_they_come"]
