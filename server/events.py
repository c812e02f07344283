"""Server-sent events of a job: what is recorded behind an id, then what happens, until it has ended."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator

import anyio
from fastapi.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from server.state import State
from substitution_db.records import JobEvent

_KEEP_ALIVE_SECONDS = 15.0


def event_stream(state: State, identity: str, last: int) -> StreamingResponse:
    """The events of a job behind the id ``last``; the stream ends with the job, or when the service stops."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(state, identity, last), headers=headers, media_type="text/event-stream")


def format_event(event: JobEvent) -> str:
    """An event as text (WHATWG HTML, server-sent events)."""
    data = json.dumps({**event.content, "at": event.created_at.isoformat()}, separators=(",", ":"))
    return f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n"


async def _events(state: State, identity: str, last: int) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    spoken = time.monotonic()
    while not state.stopping.is_set():
        job = await run_in_threadpool(state.database.jobs.get, identity)
        events = await run_in_threadpool(state.database.jobs.events, identity, after=last)
        for event in events:
            yield format_event(event)
            last, spoken = event.id, time.monotonic()
        if not events and (job is None or job.state.final):
            return
        if not events:
            if time.monotonic() - spoken > _KEEP_ALIVE_SECONDS:
                yield ": still there\n\n"
                spoken = time.monotonic()
            await anyio.sleep(state.settings.poll_seconds)
