"""Server-sent events of a job: recorded events after an id, then new ones until the job ends."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator

from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from superopt.server.http.state import State
from superopt.substitution_db.store.records import Job, JobEvent, JobState

_KEEP_ALIVE_SECONDS = 15.0
_LOOK_SECONDS = 15.0


async def event_stream(state: State, job: Job, last: int) -> Response:
    """Streams the events of a job after the id ``last`` until the job ends or the service stops.

    Responds 204 if no events can follow, so that a browser does not reconnect.
    """
    if job.state.final and not await run_in_threadpool(
        state.database.jobs.events, job.id, after=last, limit=1
    ):
        return Response(status_code=204)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(state, job.id, last), headers=headers, media_type="text/event-stream")


def format_event(event: JobEvent) -> str:
    """An event in the text format of the WHATWG HTML standard."""
    data = json.dumps({**event.content, "at": event.created_at.isoformat()}, separators=(",", ":"))
    return f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n"


async def _events(state: State, identity: str, last: int) -> AsyncIterator[str]:
    yield "retry: 2000\n\n"
    spoken, heard = time.monotonic(), last
    while not state.stopping.is_set():
        events = await run_in_threadpool(state.database.jobs.events, identity, after=last)
        for event in events:
            yield format_event(event)
            last, spoken = event.id, time.monotonic()
        if events and _ends(events[-1]):
            return
        if time.monotonic() - spoken >= _KEEP_ALIVE_SECONDS:
            if not await _runs(state, identity):
                return
            yield ": still there\n\n"
            spoken = time.monotonic()
        if not events:
            until_spoken = max(0.0, spoken + _KEEP_ALIVE_SECONDS - time.monotonic())
            heard = await state.job_feed.wait(identity, max(last, heard), min(_LOOK_SECONDS, until_spoken))


def _ends(event: JobEvent) -> bool:
    return event.kind == "state" and JobState(str(event.content["state"])).final


async def _runs(state: State, identity: str) -> bool:
    job = await run_in_threadpool(state.database.jobs.get, identity)
    return job is not None and not job.state.final
