"""Shared polling for job events: one task polls the database for all event streams of a process."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict, deque
from weakref import WeakValueDictionary

import anyio
from fastapi.concurrency import run_in_threadpool

from superopt.errors import MissingServiceError
from superopt.substitution_db import Database

_REMEMBERED = 10_000
_LATE_SECONDS = 2.0
"""How late an event may be committed after one with a higher id and still be noticed."""

_log = logging.getLogger(__name__)


class JobFeed:
    """Waits for events of jobs. All calls must come from one event loop.

    While there are waiters, a task polls every ``seconds``. Callers must poll the job again after a bounded
    wait: events committed late may be missed.
    """

    def __init__(self, database: Database, seconds: float, stopping: threading.Event) -> None:
        self._database = database
        self._seconds = seconds
        self._stopping = stopping
        self._looker: asyncio.Task[None] | None = None
        self._looked: deque[tuple[float, int]] = deque()
        self._newest: OrderedDict[str, int] = OrderedDict()
        self._waiting: WeakValueDictionary[str, anyio.Event] = WeakValueDictionary()

    async def wait(self, job: str, after: int, seconds: float) -> int:
        """Waits until the job has an event after ``after``, the service stops, or ``seconds`` pass. May
        return early.

        Returns the id of the newest event known, or ``after``. Pass it as ``after`` in the next call, even if
        the event could not be read (the job may have been removed).
        """
        if self._newest.get(job, 0) > after or self._stopping.is_set():
            return max(after, self._newest.get(job, 0))
        heard = self._waiting.get(job)
        if heard is None:
            self._waiting[job] = heard = anyio.Event()
        if self._looker is None or self._looker.done():
            self._looker = asyncio.create_task(self._look_on())
        with anyio.move_on_after(seconds):
            await heard.wait()
        return max(after, self._newest.get(job, 0))

    async def _look_on(self) -> None:
        """Polls while there are waiters. Waiters present when it starts or fails must poll themselves."""
        try:
            newest = await run_in_threadpool(self._database.jobs.newest_event)
            self._looked = deque([(time.monotonic(), newest)])
            self._wake_all()
            await anyio.sleep(self._seconds)
            while self._waiting and not self._stopping.is_set():
                await self._look()
                await anyio.sleep(self._seconds)
        except MissingServiceError as error:
            _log.warning("cannot poll job events: %s", error)
        except Exception:  # noqa: BLE001 - whoever waits looks for himself, and meets it again
            _log.exception("no news")
        finally:
            self._wake_all()

    async def _look(self) -> None:
        now = time.monotonic()
        while len(self._looked) > 1 and self._looked[1][0] < now - _LATE_SECONDS:
            self._looked.popleft()
        news = await run_in_threadpool(self._database.jobs.news, self._looked[0][1])
        if news:
            self._looked.append((now, max(news.values())))
        for job, newest in news.items():
            if newest > self._newest.get(job, 0):
                self._newest[job] = newest
                self._newest.move_to_end(job)
                self._wake(job)
        while len(self._newest) > _REMEMBERED:
            self._newest.popitem(last=False)

    def _wake_all(self) -> None:
        for job in tuple(self._waiting):
            self._wake(job)

    def _wake(self, job: str) -> None:
        heard = self._waiting.pop(job, None)
        if heard is not None:
            heard.set()
