"""Tasks: pure functions mapped over an executor, with results stored in checkpoints."""

from __future__ import annotations

import hashlib
import platform
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from threading import Lock
from typing import Generic, TypeVar, cast

from superopt.errors import MissingServiceError
from superopt.generator.run.checkpoint import Checkpoint
from superopt.generator.run.executors import Workers
from superopt.generator.run.usage import Measured, Usage, measured

Item = TypeVar("Item")
Result = TypeVar("Result")

_TRIES = 4
_CHECK_SECONDS = 5.0
_ALONE = Lock()
_THIRD_PARTY = ("egglog", "numpy")
_OWN = (
    "superopt.generator",
    "superopt.domains",
    "superopt.equations",
    "superopt.instances",
    "superopt.ir",
    "superopt.ops",
    "superopt.rewriting",
)


@cache
def sources() -> str:
    """Hash of the code that results depend on, including other packages; 16 hex digits."""
    digest = hashlib.sha256(platform.python_version().encode())
    for package in _OWN:
        for path, file in sorted(_modules(resources.files(package), package)):
            digest.update(f"\0{path}\0".encode())
            digest.update(file.read_bytes())
    for package in _THIRD_PARTY:
        digest.update(f"\0{package} {_version(package)}".encode())
    return digest.hexdigest()[:16]


@dataclass
class Tasks:
    """Runs tasks with an executor, a checkpoint and usage accounting; ``kept`` counts reused results."""

    workers: Workers
    checkpoint: Checkpoint | None = None
    usage: Usage = field(default_factory=Usage)
    kept: int = 0

    def map(self, name: str, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The result of each item, in order; ``name`` distinguishes these tasks from others of the run.

        Raises what the function raises, and MissingServiceError if workers keep dying or run other sources.
        """
        return _Map(self, task_names(name, len(items)), function, items).results()


def task_names(name: str, count: int) -> tuple[str, ...]:
    """The names of a map's tasks in the checkpoint."""
    return tuple(f"{name} {number}" for number in range(count))


class _Map(Generic[Item, Result]):
    def __init__(
        self, tasks: Tasks, names: Sequence[str], function: Callable[[Item], Result], items: Sequence[Item]
    ) -> None:
        self._tasks = tasks
        self._names = names
        self._function = function
        self._items = items
        self._todo = deque(n for n, name in enumerate(names) if not self._stored(name))
        self._pending: dict[Future[Measured[Result]], int] = {}
        self._ready: dict[int, Result] = {}
        self._tries = dict.fromkeys(range(len(names)), 0)
        tasks.kept += len(names) - len(self._todo)
        if tasks.workers.apart:
            self._submit()

    def results(self) -> Iterator[Result]:
        """The results in order."""
        try:
            for number in range(len(self._items)):
                yield self._result(number)
        finally:
            self._leave()

    def _result(self, number: int) -> Result:
        while True:
            if number in self._ready:
                return self._ready.pop(number)
            if number not in self._todo and number not in self._pending.values():
                found = self._loaded(number)
                if found is not None:
                    return found
                self._todo.appendleft(number)
            self._submit()
            finished, _ = wait(self._pending, _CHECK_SECONDS, FIRST_COMPLETED)
            self._tasks.workers.check()
            for future in finished:
                self._take(future, number)

    def _submit(self) -> None:
        workers = self._tasks.workers
        while self._todo and len(self._pending) < workers.ahead:
            number = self._todo.popleft()
            compute = partial(_alone if workers.apart else _here, sources(), self._function)
            self._pending[workers.executor.submit(compute, self._items[number])] = number

    def _take(self, future: Future[Measured[Result]], wanted: int) -> None:
        number = self._pending.pop(future)
        try:
            found = future.result()
        except (*self._tasks.workers.lost, CancelledError) as error:
            self._tries[number] += 1
            if self._tries[number] == _TRIES:
                reason = str(error) or type(error).__name__
                raise MissingServiceError(f"workers keep dying at {self._names[number]}: {reason}") from error
            self._todo.appendleft(number)
            return
        except ImportError as error:
            raise MissingServiceError(f"workers cannot run this: {error}") from error
        if self._tasks.workers.apart:
            self._tasks.usage.add(found)
        self._store(number, found.value)
        if number == wanted or self._tasks.checkpoint is None:
            self._ready[number] = found.value

    def _leave(self) -> None:
        """Stores finished results and cancels the rest."""
        for future, number in self._pending.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                self._store(number, future.result().value)
        with suppress(MissingServiceError):
            self._tasks.workers.check()
            for future in self._pending:
                future.cancel()

    def _stored(self, name: str) -> bool:
        return self._tasks.checkpoint is not None and self._tasks.checkpoint.has(name)

    def _loaded(self, number: int) -> Result | None:
        checkpoint = self._tasks.checkpoint
        return None if checkpoint is None else cast("Result | None", checkpoint.load(self._names[number]))

    def _store(self, number: int, result: Result) -> None:
        if self._tasks.checkpoint is not None:
            self._tasks.checkpoint.store(self._names[number], result)


def _alone(wanted: str, function: Callable[[Item], Result], item: Item) -> Measured[Result]:
    """Runs a task in a dedicated worker process."""
    if sources() != wanted:
        raise MissingServiceError(
            f"a worker runs other versions ({sources()}) than this process ({wanted}): install the same ones"
        )
    with _ALONE:
        return measured(lambda: function(item))


def _here(_wanted: str, function: Callable[[Item], Result], item: Item) -> Measured[Result]:
    return Measured(function(item), "", 0.0, 0)


def _modules(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _modules(entry, f"{path}/{entry.name}")
        elif entry.name.endswith((".py", ".lark")):
            yield f"{path}/{entry.name}", entry


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"
