"""Pool of supervised processes that call one function: an item that kills its process loses only its result.

A process that dies, takes too long or has kept too much memory is replaced; the next items go to a new one.
"""

from __future__ import annotations

import math
import pickle
import selectors
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from superopt.errors import MissingServiceError
from superopt.processes.pool_main import TaskError
from superopt.processes.supervised import Supervised

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_PROGRAM = "superopt.processes.pool_main"
_FALSE_STARTS = 3
_AHEAD = 4
_STARTING_SECONDS = 120.0
_END_SECONDS = 5.0
_LONGEST_WAIT_SECONDS = 3600.0


@dataclass(frozen=True)
class Allowance:
    """What an item may cost in a process: wall seconds, and megabytes of private memory beyond a fresh one's
    (None: unlimited).
    """

    seconds: float = 300.0
    megabytes: int | None = 8000


class LostTaskError(TaskError):
    """The process of an item died or took too long; the message says how."""


class NoProcessError(MissingServiceError):
    """No process of a pool can be started."""


@dataclass(eq=False)
class _Task(Generic[Item, Answer]):
    item: Item
    future: Future[Answer]
    deaths: int = 0


@dataclass(eq=False)
class _Worker(Generic[Item, Answer]):
    """A process, the tasks that it was given, and since when it has been at the first."""

    process: Supervised
    since: float
    started: bool = False
    fresh: bool = True
    given: deque[_Task[Item, Answer]] = field(default_factory=deque[_Task[Item, Answer]])


class Pool(Generic[Item, Answer]):
    """``jobs`` processes, started on demand, that call a function; they end with the block.

    A process calls ``begin`` and reads the function once, then one item at a time. Function, items and
    answers are pickled; nothing is imported from the main module. An item whose process dies is tried
    ``tries`` times, the last ones alone in a fresh process. ``environment`` is added to that of this process.
    """

    def __init__(
        self,
        function: Callable[[Item], Answer],
        jobs: int,
        allowance: Allowance,
        *,
        tries: int = 1,
        begin: Callable[[], None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._head = pickle.dumps((begin, function, allowance.megabytes))
        self._jobs = jobs
        self._seconds = allowance.seconds
        self._tries = tries
        self._environment = environment
        self._pending: deque[_Task[Item, Answer]] = deque()
        self._again: deque[_Task[Item, Answer]] = deque()
        self._workers: list[_Worker[Item, Answer]] = []
        self._false_starts = 0
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._woken, self._waking = socket.socketpair()
        self._waking.setblocking(False)  # noqa: FBT003
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Pool[Item, Answer]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._fail(TaskError("the pool has ended"))
        self._wake()
        self._thread.join()
        self._selector.close()
        self._woken.close()
        self._waking.close()

    def submit(self, item: Item) -> Future[Answer]:
        """The answer of an item. The future raises the function's exception, TaskError if the item or its
        answer cannot be sent, LostTaskError, or NoProcessError.
        """
        task = _Task[Item, Answer](item, Future())
        with self._lock:
            if self._failure is None:
                self._pending.append(task)
            else:
                task.future.set_exception(self._failure)
        self._wake()
        return task.future

    def _wake(self) -> None:
        with suppress(OSError):  # full: the thread is woken anyway
            self._waking.send(b"\0")

    def _run(self) -> None:
        """Drives the processes, which end with this thread."""
        try:
            while self._failure is None:
                self._round()
        except BaseException as error:  # noqa: BLE001 - raised by the futures
            self._fail(error)
        for worker in tuple(self._workers):
            self._end(worker)
            self._pending.extend(worker.given)
        for task in (*self._pending, *self._again):
            if task.future.running() or task.future.set_running_or_notify_cancel():
                task.future.set_exception(self._failure)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._failure = self._failure or error

    def _round(self) -> None:
        self._staff()
        for worker in self._workers:
            if worker.started and not worker.given:
                self._give(worker)
        busy = [worker for worker in self._workers if worker.given or not worker.started]
        expiring = min((worker.since + self._patience(worker) for worker in busy), default=math.inf)
        seconds = min(max(0.0, expiring - time.monotonic()), _LONGEST_WAIT_SECONDS)
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                self._woken.recv(1 << 16)
            else:
                self._hear(key.data)
        for worker in tuple(self._workers):
            is_busy = worker.given or not worker.started
            if is_busy and time.monotonic() - worker.since > self._patience(worker):
                self._expire(worker)

    def _staff(self) -> None:
        while len(self._workers) < self._jobs:
            free = sum(not worker.given for worker in self._workers)
            fresh = sum(worker.fresh for worker in self._workers)
            if len(self._pending) <= free and len(self._again) <= fresh:
                break
            try:
                process = Supervised(_PROGRAM, environment=self._environment)
            except OSError as error:
                raise NoProcessError(f"no worker process can be started: {error}") from error
            process.channel.send(self._head)
            worker = _Worker[Item, Answer](process, time.monotonic())
            self._selector.register(process.channel, selectors.EVENT_READ, worker)
            self._workers.append(worker)

    def _give(self, worker: _Worker[Item, Answer]) -> None:
        """Tasks for a process that has none."""
        worker.since = time.monotonic()
        if worker.fresh and self._again:
            self._send(worker, self._again.popleft())
            return
        count = max(1, min(_AHEAD, len(self._pending) // (2 * self._jobs)))
        while self._pending and len(worker.given) < count:
            self._send(worker, self._pending.popleft())

    def _send(self, worker: _Worker[Item, Answer], task: _Task[Item, Answer]) -> None:
        """Gives a task to a process unless it was cancelled; one that cannot be pickled fails at once."""
        if not task.future.running() and not task.future.set_running_or_notify_cancel():
            return
        try:
            message = pickle.dumps(task.item)
        except Exception as error:  # noqa: BLE001 - raised by the future
            task.future.set_exception(error)
            return
        worker.fresh = False
        worker.given.append(task)
        worker.process.channel.send(message)

    def _hear(self, worker: _Worker[Item, Answer]) -> None:
        is_full = False
        for message in worker.process.channel.received():
            worker.since = time.monotonic()
            if message:
                _settle(worker.given.popleft().future, message)
            else:
                is_full, worker.started = worker.started, True
                self._false_starts = 0
        if worker.process.channel.closed:
            self._bury(worker)
        elif is_full:
            self._replace(worker)

    def _bury(self, worker: _Worker[Item, Answer]) -> None:
        """Handles a dead process: retries or fails its current task, and requeues the rest."""
        code = worker.process.exit_code(_END_SECONDS) or 0
        how = f"ended with exit code {code}"
        if code < 0:
            how = f"was killed by signal {-code} ({signal.strsignal(-code)})"
        if not worker.started:
            self._false_start(how)
        if worker.given:
            task = worker.given.popleft()
            task.deaths += 1
            if task.deaths < self._tries:
                self._again.append(task)
            else:
                task.future.set_exception(LostTaskError(f"the process {how}"))
        self._replace(worker)

    def _expire(self, worker: _Worker[Item, Answer]) -> None:
        reason = f"took longer than {self._patience(worker):g} s"
        if worker.given:
            worker.given.popleft().future.set_exception(LostTaskError(reason))
        else:
            self._false_start(reason)
        self._replace(worker)

    def _patience(self, worker: _Worker[Item, Answer]) -> float:
        return self._seconds if worker.started else _STARTING_SECONDS

    def _false_start(self, how: str) -> None:
        self._false_starts += 1
        if self._false_starts == _FALSE_STARTS:
            raise NoProcessError(f"no worker process can be started: it {how}")

    def _replace(self, worker: _Worker[Item, Answer]) -> None:
        self._end(worker)
        self._pending.extendleft(reversed(worker.given))

    def _end(self, worker: _Worker[Item, Answer]) -> None:
        self._workers.remove(worker)
        self._selector.unregister(worker.process.channel)
        worker.process.end()


def _settle(future: Future[Answer], message: bytearray) -> None:
    try:
        answer, error = cast("tuple[Answer, BaseException | None]", pickle.loads(message))
    except Exception as unreadable:  # noqa: BLE001 - raised by the future
        future.set_exception(unreadable)
        return
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)
