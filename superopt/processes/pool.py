"""Pool of supervised processes that call one function; one that dies loses only the result of its item."""

from __future__ import annotations

import pickle  # nosec B403: messages of processes that this pool starts
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar, cast

from superopt.errors import MissingServiceError
from superopt.processes.pool_main import TaskError
from superopt.processes.supervised import Supervised

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_PROGRAM = "superopt.processes.pool_main"
_FALSE_STARTS = 3
_STARTING_SECONDS = 120.0
_END_SECONDS = 5.0
_OVER = "the pool has ended"


@dataclass(frozen=True)
class Allowance:
    """What an item may cost in a process: wall seconds, and megabytes of private memory beyond a fresh one's
    (None: unlimited).
    """

    seconds: float = 300.0
    megabytes: int | None = 8000


class LostTaskError(TaskError):
    """The process of an item took too long or died; the message says how."""


class _DiedError(LostTaskError):
    pass


class NoProcessError(MissingServiceError):
    """No process of a pool can be started."""


class Pool(Generic[Item, Answer]):
    """``jobs`` processes, started on demand, that call a function; they end with the block.

    A process calls ``begin`` and reads the function once, then one item at a time; it is replaced when it
    dies, takes too long or has kept half of the memory. Function, items and answers are pickled; nothing is
    imported from the main module. An item whose process dies is tried ``tries`` times, again in fresh
    processes. ``environment`` is added to that of this process.
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
        self._seconds = allowance.seconds
        self._tries = tries
        self._environment = environment
        self._lock = threading.Lock()
        self._processes: set[Supervised] = set()
        self._idle: list[Supervised] = []
        self._is_over = False
        self._tasks: SimpleQueue[tuple[Future[Answer], Item] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(jobs)]

    def __enter__(self) -> Pool[Item, Answer]:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._is_over = True
            for process in self._processes:
                process.kill()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.end()

    def submit(self, item: Item) -> Future[Answer]:
        """The answer of an item. The future raises the function's exception, TaskError if that or the answer
        cannot be sent or the pool has ended, LostTaskError, or NoProcessError.
        """
        future = Future[Answer]()
        with self._lock:
            if self._is_over:
                future.set_exception(TaskError(_OVER))
            else:
                self._tasks.put((future, item))
        return future

    def _run(self) -> None:
        """Waits for one process at a time; in a daemon thread, for which Python does not wait at its end."""
        while (task := self._tasks.get()) is not None:
            future, item = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(self._answer(item))
                except BaseException as error:  # noqa: BLE001 - raised by the future
                    future.set_exception(error)

    def _answer(self, item: Item) -> Answer:
        message = pickle.dumps(item)
        process, received = self._received(message)
        if received[0]:
            self._end(process)
        else:
            self._idle.append(process)
        answer, error = cast("tuple[Answer, Exception | None]", pickle.loads(memoryview(received)[1:]))  # nosec B301
        if error is not None:
            raise error
        return answer

    def _received(self, message: bytes) -> tuple[Supervised, bytearray]:
        """The answer to an item, and the process that gave it. Raises LostTaskError."""
        for number in range(1, self._tries + 1):
            process = (self._living() if number == 1 else None) or self._started()
            process.channel.send(message)
            try:
                return process, self._next_message(process, self._seconds)
            except _DiedError:
                if number == self._tries:
                    raise
        raise AssertionError

    def _living(self) -> Supervised | None:
        """An idle process that has not died meanwhile."""
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            if idle is None or idle.exit_code(0) is None:
                return idle
            self._end(idle)

    def _started(self) -> Supervised:
        reason = ""
        for _ in range(_FALSE_STARTS):
            with self._lock:
                if self._is_over:
                    raise TaskError(_OVER)
                try:
                    process = Supervised(_PROGRAM, environment=self._environment)
                except OSError as error:
                    raise NoProcessError(f"no worker process can be started: {error}") from error
                self._processes.add(process)
            process.channel.send(self._head)
            try:
                self._next_message(process, _STARTING_SECONDS)
            except LostTaskError as error:
                reason = str(error).removeprefix("the process ")
            else:
                return process
        raise NoProcessError(f"no worker process can be started: it {reason}")

    def _next_message(self, process: Supervised, seconds: float) -> bytearray:
        """A message from a process; one that sends none is ended. Raises LostTaskError."""
        message = process.channel.next_message(seconds)
        if message is not None:
            return message
        if not process.channel.closed:
            self._end(process)
            raise LostTaskError(f"took longer than {seconds:g} s")
        code = process.exit_code(_END_SECONDS)
        self._end(process)
        if code is None:
            raise _DiedError("the process stopped answering")
        if code < 0:
            raise _DiedError(f"the process was killed by signal {-code} ({signal.strsignal(-code)})")
        raise _DiedError(f"the process ended with exit code {code}")

    def _end(self, process: Supervised) -> None:
        with self._lock:
            self._processes.discard(process)
        process.end()
