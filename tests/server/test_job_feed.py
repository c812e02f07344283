"""Streams of events: who waits, for how long, and who says something meanwhile."""

from __future__ import annotations

import threading
import time

import anyio
import httpx
import pytest

from superopt.server.http.job_feed import JobFeed
from superopt.server.settings import Settings
from superopt.substitution_db import Database
from superopt.substitution_db.jobs.repository import JobRepository, NewJob
from superopt.substitution_db.store.records import JobFile, JobRole
from tests.server.live import serving


def waiting_job(database: Database, model: bytes) -> str:
    blob = database.blobs.put_bytes(model)
    file = JobFile(JobRole.MODEL, "model.onnx", blob.sha256, blob.bytes)
    return database.jobs.submit(NewJob("net.onnx", [file])).id


def test_news_that_cannot_be_read_any_more_are_told_once(database: Database, model: bytes) -> None:
    """As when a job is removed after its last event: nobody then reads that event, and all go on waiting."""
    job = waiting_job(database, model)
    last = database.jobs.events(job)[-1].id
    feed = JobFeed(database, 0.01, threading.Event())

    async def follow() -> None:
        heard = last
        while heard == last:
            heard = await feed.wait(job, heard, 5.0)
        times.append(time.monotonic())
        assert await feed.wait(job, heard, 0.2) == heard
        times.append(time.monotonic())

    async def late() -> None:
        assert await feed.wait(job, last, 5.0) > last

    async def run() -> None:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(follow)
                await anyio.sleep(0.1)
                database.jobs.cancel(job)
            await late()

    times: list[float] = []
    anyio.run(run)
    assert times[1] - times[0] >= 0.19


def test_a_removed_job_is_not_asked_for_all_the_time(
    settings: Settings, database: Database, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = waiting_job(database, model)
    asked: list[int] = []
    events = JobRepository.events
    gone = threading.Event()

    def look(self: JobRepository, identity: str, *, after: int = 0, limit: int = 500) -> object:
        asked.append(after)
        return () if gone.is_set() else events(self, identity, after=after, limit=limit)

    monkeypatch.setattr(JobRepository, "events", look)
    monkeypatch.setattr("superopt.server.http.events._KEEP_ALIVE_SECONDS", 1.0)
    with (
        serving(settings, database) as address,
        httpx.stream("GET", f"{address}/v1/optimizations/{job}/events", timeout=10) as response,
    ):
        lines = response.iter_lines()
        while not next(lines).startswith("data: "):
            pass
        gone.set()
        database.jobs.cancel(job)
        assert not [line for line in lines if line.startswith("id: ")]
    assert len(asked) < 20


def test_a_stream_says_something_in_time(
    settings: Settings, database: Database, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = waiting_job(database, model)
    monkeypatch.setattr("superopt.server.http.events._KEEP_ALIVE_SECONDS", 1.0)
    with (
        serving(settings, database) as address,
        httpx.stream("GET", f"{address}/v1/optimizations/{job}/events", timeout=5) as response,
    ):
        assert ": still there" in response.iter_lines()
        database.jobs.cancel(job)
