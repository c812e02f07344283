"""Fault-tolerant process pool: an item that kills its worker loses only its own result.

A worker that dies (solver crash, out of memory) or takes too long is replaced. Its current item is retried
once, alone in a fresh process; if that dies too, the item fails with the reason.
"""

from __future__ import annotations

import pickle
import resource
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Generic, TypeVar, cast

import psutil

from superopt.errors import MissingServiceError

Progress = Callable[[int, int], None]
Item = TypeVar("Item")
Answer = TypeVar("Answer")

_SPAWN = get_context("spawn")
_TRIES = 2
_FALSE_STARTS = 3
_AHEAD = 4
_PER_TASK = 8
_STARTING_SECONDS = 120.0
_GRACE_SECONDS = 5.0
_MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Allowance:
    """What an item may cost in a worker: wall seconds, and megabytes of address space beyond a fresh one's.

    Both are far above what a judgement needs: they decide nothing but how a runaway ends.
    """

    seconds: float = 300.0
    megabytes: int = 8000


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
    allowance: Allowance = Allowance(),
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
    allowance: Allowance = Allowance(),
) -> Iterator[tuple[int, Answer]]:
    """The number of each item and ``function`` of it, over ``jobs`` processes or over the executor.

    An item whose judgement raises, kills its process or exceeds the allowance is answered by ``lost(item,
    reason)``. What an executor fails at is done by ``jobs`` processes, at least one. With ``jobs`` 0 and no
    executor all is done in this process, where a crash ends everything. ``progress`` is told how many of how
    many are done. Function, items and answers are pickled.

    Raises ``MissingServiceError`` when no worker process can be started.
    """
    if executor is not None:
        outcomes = _through(executor, function, items, max(1, jobs), allowance)
    elif jobs:
        outcomes = _Pool(function, dict(enumerate(items)), jobs, allowance).outcomes()
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
    allowance: Allowance = Allowance(),
) -> Answer:
    """``function`` of the item in a process of its own, which may die; to start it takes half a second."""
    (answer,) = judge_all(function, [item], lost=lost, allowance=allowance)
    return answer


def _attempt(function: Callable[[Item], Answer], item: Item) -> _Outcome[Answer]:
    try:
        return _Outcome((function(item),))
    except Exception as error:  # noqa: BLE001 - whatever fails is no answer, and says why
        return _Outcome((), f"{type(error).__name__}: {error}")


def _answered(function: Callable[[Item], Answer], item: bytes) -> bytes:
    """The outcome for a pickled item, pickled."""
    read = _attempt(pickle.loads, item)
    outcome = _attempt(function, read.answer[0]) if read.answer else _Outcome[Answer]((), read.reason)
    written = _attempt(pickle.dumps, outcome)
    return written.answer[0] if written.answer else pickle.dumps(_Outcome[Answer]((), written.reason))


@dataclass(eq=False)
class _Worker:
    """A process, the numbers of the items that it was given, and since when it has been at the first."""

    process: SpawnProcess
    connection: Connection
    since: float
    started: bool = False
    fresh: bool = True
    given: deque[int] = field(default_factory=deque[int])


class _Pool(Generic[Item, Answer]):
    """Processes of our own, each with a pipe, so that it is known which item a dead one was at."""

    def __init__(
        self, function: Callable[[Item], Answer], items: dict[int, Item], jobs: int, allowance: Allowance
    ) -> None:
        self._function = pickle.dumps(function)
        self._items = items
        self._jobs = jobs
        self._allowance = allowance
        self._pending = deque(items)
        self._again: deque[int] = deque()
        self._deaths = dict.fromkeys(items, 0)
        self._workers: list[_Worker] = []
        self._false_starts = 0

    def outcomes(self) -> Iterator[tuple[int, _Outcome[Answer]]]:
        """The outcome of each item by its number, as they come."""
        left = len(self._items)
        try:
            while left:
                for number, outcome in self._round():
                    left -= 1
                    yield number, outcome
        finally:
            for worker in tuple(self._workers):
                worker.process.kill()
                self._end(worker)

    def _round(self) -> Iterator[tuple[int, _Outcome[Answer]]]:
        self._staff()
        for worker in self._workers:
            if worker.started and not worker.given:
                yield from self._give(worker)
        busy = [worker for worker in self._workers if worker.given or not worker.started]
        if not busy:
            return
        expiring = min(worker.since + self._patience(worker) for worker in busy)
        heard = wait([w.connection for w in self._workers], max(0.0, expiring - time.monotonic()))
        for worker in tuple(self._workers):
            if worker.connection in heard:
                yield from self._hear(worker)
            elif worker in busy and self._expired(worker):
                yield from self._expire(worker)

    def _staff(self) -> None:
        while len(self._workers) < self._jobs:
            free = sum(not worker.given for worker in self._workers)
            fresh = sum(worker.fresh for worker in self._workers)
            if len(self._pending) <= free and len(self._again) <= fresh:
                break
            self._workers.append(self._start())

    def _start(self) -> _Worker:
        ours, theirs = _SPAWN.Pipe()
        arguments = (theirs, self._function, self._allowance.megabytes)
        process = _SPAWN.Process(target=_work, args=arguments, daemon=True)
        try:
            with _uninterrupted():
                process.start()
        except OSError as error:
            raise MissingServiceError(f"no worker process can be started: {error}") from error
        theirs.close()
        return _Worker(process, cast("Connection", ours), time.monotonic())

    def _give(self, worker: _Worker) -> Iterator[tuple[int, _Outcome[Answer]]]:
        """Items for a worker that has none; one that cannot be pickled is answered at once."""
        if worker.fresh and self._again:
            numbers = [self._again.popleft()]
        else:
            count = min(len(self._pending), max(1, min(_AHEAD, len(self._pending) // (2 * self._jobs))))
            numbers = [self._pending.popleft() for _ in range(count)]
        message: list[bytes] = []
        for number in numbers:
            written = _attempt(pickle.dumps, self._items[number])
            if written.answer:
                worker.given.append(number)
                message.append(written.answer[0])
            else:
                yield number, _Outcome((), written.reason)
        if message:
            worker.fresh = False
            worker.since = time.monotonic()
            with suppress(OSError):  # of a worker that has just died; it is heard of next
                worker.connection.send(message)

    def _hear(self, worker: _Worker) -> Iterator[tuple[int, _Outcome[Answer]]]:
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            yield from self._bury(worker)
            return
        worker.since = time.monotonic()
        if not worker.started:
            worker.started = True
            self._false_starts = 0
            return
        read = _attempt(pickle.loads, message)
        yield worker.given.popleft(), read.answer[0] if read.answer else _Outcome((), read.reason)

    def _bury(self, worker: _Worker) -> Iterator[tuple[int, _Outcome[Answer]]]:
        """Handles a dead worker: retries or fails its current item, and requeues the rest."""
        how = self._end(worker)
        if not worker.started:
            self._false_start(how)
        if worker.given:
            number = worker.given.popleft()
            self._deaths[number] += 1
            if self._deaths[number] < _TRIES:
                self._again.append(number)
            else:
                yield number, _Outcome((), f"the process {how}")
        self._pending.extendleft(reversed(worker.given))

    def _patience(self, worker: _Worker) -> float:
        return self._allowance.seconds if worker.started else _STARTING_SECONDS

    def _expired(self, worker: _Worker) -> bool:
        return time.monotonic() - worker.since > self._patience(worker) and not worker.connection.poll()

    def _expire(self, worker: _Worker) -> Iterator[tuple[int, _Outcome[Answer]]]:
        worker.process.kill()
        self._end(worker)
        reason = f"took longer than {self._patience(worker):g} s"
        if worker.given:
            yield worker.given.popleft(), _Outcome((), reason)
        else:
            self._false_start(reason)
        self._pending.extendleft(reversed(worker.given))

    def _false_start(self, how: str) -> None:
        self._false_starts += 1
        if self._false_starts == _FALSE_STARTS:
            raise MissingServiceError(f"no worker process can be started: it {how}")

    def _end(self, worker: _Worker) -> str:
        """Removes a worker, killing it if alive; returns how it ended."""
        self._workers = [other for other in self._workers if other is not worker]
        worker.connection.close()
        worker.process.join(_GRACE_SECONDS)
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
        code = worker.process.exitcode or 0
        worker.process.close()
        if code < 0:
            return f"was killed by signal {-code} ({signal.strsignal(-code)})"
        return f"ended with exit code {code}"


@contextmanager
def _uninterrupted() -> Generator[None]:
    """What is started here ignores interrupts from its first instruction: who started it ends it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(connection: Connection, function: bytes, megabytes: int) -> None:
    """Worker loop: reads lists of pickled items and answers each, until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it ends it
    judge = pickle.loads(function)
    roomy = _address_space() + megabytes * _MEGABYTE // 2
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = roomy + megabytes * _MEGABYTE // 2
    resource.setrlimit(
        resource.RLIMIT_AS, (limit if most == resource.RLIM_INFINITY else min(limit, most), most)
    )
    with suppress(EOFError, OSError):
        connection.send_bytes(b"")
        while _address_space() < roomy:  # else a fresh process goes on, with all its memory
            for item in cast("list[bytes]", connection.recv()):
                connection.send_bytes(_answered(judge, item))


def _address_space() -> int:
    """Bytes of this process's."""
    return psutil.Process().memory_info().vms


def _through(
    executor: Executor,
    function: Callable[[Item], Answer],
    items: Sequence[Item],
    jobs: int,
    allowance: Allowance,
) -> Iterator[tuple[int, _Outcome[Answer]]]:
    """Over an executor, in tasks of some items; the items of tasks that fail go to a pool of our own."""
    left = dict(enumerate(items))
    tasks: list[tuple[list[int], Future[list[bytes]]]] = []
    try:
        for start in range(0, len(items), _PER_TASK):
            numbers = list(range(start, min(start + _PER_TASK, len(items))))
            future = _attempt(lambda n: _submit(executor, function, [items[i] for i in n]), numbers)
            if future.answer:
                tasks.append((numbers, future.answer[0]))
        for numbers, future in tasks:
            results = _attempt(Future[list[bytes]].result, future)
            for number, message in zip(numbers, results.answer[0] if results.answer else (), strict=False):
                read = _attempt(pickle.loads, message)
                del left[number]
                yield number, read.answer[0] if read.answer else _Outcome((), read.reason)
    finally:
        for _, future in tasks:
            future.cancel()
    yield from _Pool(function, left, jobs, allowance).outcomes()


def _submit(
    executor: Executor, function: Callable[[Item], Answer], items: Sequence[Item]
) -> Future[list[bytes]]:
    return executor.submit(_answer_task, pickle.dumps(function), [pickle.dumps(item) for item in items])


def _answer_task(function: bytes, items: Sequence[bytes]) -> list[bytes]:
    judge = pickle.loads(function)
    return [_answered(judge, item) for item in items]


__all__ = ["Allowance", "Progress", "judge_all", "judge_alone", "judge_as_they_come"]
