"""News of jobs for all streams of a process at the price of one: one of those that wait asks the database."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from weakref import WeakValueDictionary

import anyio
from fastapi.concurrency import run_in_threadpool

from substitution_db import Database

_REMEMBERED = 10_000


class News:
    """Waits for events of jobs; every use is in one event loop.

    Whoever waits while nobody looks takes on looking, every ``seconds``. An event whose transaction ends
    behind that of a later one may be missed: nobody should wait for long before he looks for himself.
    """

    def __init__(self, database: Database, seconds: float, stopping: threading.Event) -> None:
        self._database = database
        self._seconds = seconds
        self._stopping = stopping
        self._looking = False
        self._last: int | None = None
        self._newest: OrderedDict[str, int] = OrderedDict()
        self._waiting: WeakValueDictionary[str, anyio.Event] = WeakValueDictionary()

    async def wait(self, job: str, after: int, seconds: float) -> None:
        """Returns when the job has an event behind ``after``, the service stops, or after so many seconds."""
        deadline = time.monotonic() + seconds
        if self._last is None:
            self._last = after
        heard = self._waiting.get(job)
        if heard is None:
            self._waiting[job] = heard = anyio.Event()
        while self._newest.get(job, 0) <= after and not heard.is_set():
            if self._stopping.is_set() or time.monotonic() > deadline:
                return
            await self._listen(heard)

    async def _listen(self, heard: anyio.Event) -> None:
        if self._looking:
            with anyio.move_on_after(self._seconds):
                await heard.wait()
            return
        self._looking = True
        try:
            await anyio.sleep(self._seconds)
            await self._look()
        finally:
            self._looking = False

    async def _look(self) -> None:
        news = await run_in_threadpool(self._database.jobs.news, self._last or 0)
        for job, newest in news.items():
            self._last = max(self._last or 0, newest)
            self._newest[job] = newest
            self._newest.move_to_end(job)
            waiting = self._waiting.pop(job, None)
            if waiting is not None:
                waiting.set()
        while len(self._newest) > _REMEMBERED:
            self._newest.popitem(last=False)
