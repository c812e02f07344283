"""Submission of models: upload, validation, idempotency keys."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import anyio
import anyio.to_thread
from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from superopt.server.http.problems import Problem
from superopt.server.http.state import State, state_of
from superopt.server.http.upload import Upload
from superopt.server.options import parse_options
from superopt.server.problem_types import ProblemType
from superopt.server.process.tracing import current_parent
from superopt.server.worker.results import with_known_result
from superopt.substitution_db.jobs.repository import NewJob, QueueFullError
from superopt.substitution_db.jobs.submissions import KeyTakenError, Submission
from superopt.substitution_db.store.records import SCARCE, Job, JsonObject

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_SIGN_OF_LIFE_SECONDS = 15.0
_BEATS_MISSED = 3
_FIRST_LOOK_SECONDS = 0.05
_LAST_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Accepted:
    """The job of a request; ``expires_at`` is when its idempotency key expires, if it has one."""

    job: Job
    expires_at: datetime | None
    replayed: bool


async def accept(request: Request, owner: str) -> Accepted:
    """Creates a job for a request, or returns the job of an earlier request with the same idempotency key.

    A rejected request leaves its key unused. Raises Problem.
    """
    state = state_of(request)
    key = request.headers.get("idempotency-key")
    if key is None:
        return await _accept(request, state, owner, None)
    if not _KEY.fullmatch(key):
        raise Problem(ProblemType.PARAMETERS, "Idempotency-Key: expected 1 to 255 visible ASCII characters")
    known = await state.take_in(state.database.submissions.reserve, owner, key)
    if known is not None:
        return await _replay(request, state, known)
    async with _reserved(state, owner, key):
        return await _accept(request, state, owner, key)


async def wait_for_end(request: Request, job: Job, seconds: float) -> Job:
    """Returns the job once it has ended, after ``seconds``, or when the client disconnects."""
    state = state_of(request)
    deadline = time.monotonic() + seconds
    pause = _FIRST_LOOK_SECONDS
    while not job.state.final and time.monotonic() < deadline and not state.stopping.is_set():
        await anyio.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 1.5, _LAST_LOOK_SECONDS)
        job = await state.look(state.database.jobs.get, job.id) or job
        if await request.is_disconnected():
            break
    return job


async def _replay(request: Request, state: State, known: Submission) -> Accepted:
    if known.job_id is None:
        raise _in_flight()
    with Upload(state.database.blobs, state.settings) as upload:
        await upload.read(request)
        if upload.fingerprint != known.fingerprint:
            raise Problem(ProblemType.KEY_REUSED, "use a new key for a different request")
    job = await state.look(state.database.jobs.get, known.job_id)
    if job is None:
        raise Problem(
            ProblemType.NOT_FOUND, f"the optimization {known.job_id} of this key is no longer stored"
        )
    return Accepted(job, known.expires_at, replayed=True)


def _in_flight() -> Problem:
    return Problem(
        ProblemType.KEY_IN_FLIGHT, "wait until the first request has ended", headers={"Retry-After": "1"}
    )


@asynccontextmanager
async def _reserved(state: State, owner: str, key: str) -> AsyncGenerator[None]:
    """Renews the reservation of a key while the request is read; releases it if the request fails.

    Renewals run in a thread pool of their own, so that uploads do not delay them.
    """
    submissions = state.database.submissions

    async def keep() -> None:
        while True:
            await asyncio.sleep(_SIGN_OF_LIFE_SECONDS)
            await run_in_threadpool(submissions.keep, owner, key)

    signs = asyncio.create_task(keep())
    try:
        yield
    except BaseException:
        with anyio.CancelScope(shield=True):
            await run_in_threadpool(submissions.release, owner, key)
        raise
    finally:
        signs.cancel()


async def _accept(request: Request, state: State, owner: str, key: str | None) -> Accepted:
    await state.take_in(_refuse_when_full, state)
    with Upload(state.database.blobs, state.settings) as upload:
        await upload.read(request)
        if upload.has_cluster and not state.settings.plans_clusters:
            detail = "cluster: this service does not plan for several devices; omit it"
            raise Problem(ProblemType.CLUSTER, detail)
        options = parse_options(bytes(upload.options), state.settings, has_cluster=upload.has_cluster)
        await state.take_in(_refuse_without_device, state, upload, options)
        await anyio.to_thread.run_sync(upload.inspect, options, limiter=state.inspections)
        submit = partial(_submit, state, upload, options, owner, key, current_parent())
        return await state.take_in(submit)


def _refuse_when_full(state: State) -> None:
    """Rejects an upload early if the queue is full; the limit is enforced when the job is created."""
    if state.database.jobs.waiting() >= state.settings.max_queued_jobs:
        raise _full("the queue is full")


def _refuse_without_device(state: State, upload: Upload, options: JsonObject) -> None:
    """Rejects a job for a device that no live worker has, unless its result can be reused."""
    target = options.get("target")
    if target not in SCARCE:
        return
    recent = _BEATS_MISSED * state.settings.heartbeat_seconds
    workers = state.database.activity.workers()
    if any(target in sign.targets and sign.seconds < recent for sign in workers):
        return
    new = NewJob(upload.model_name, upload.files, options)
    if with_known_result(state.database, state.settings, new).known is None:
        detail = f"target {target}: no live worker has this device"
        raise Problem(ProblemType.JOB_SERVICE, detail, headers={"Retry-After": "30"})


def _submit(
    state: State, upload: Upload, options: JsonObject, owner: str, key: str | None, parent: str | None
) -> Accepted:
    """Makes the files durable, then creates the job."""
    limit = state.settings.max_queued_jobs
    new = NewJob(
        model_name=upload.model_name,
        files=upload.keep(),
        options=options,
        owner=owner,
        max_attempts=state.settings.max_job_attempts,
        traceparent=parent,
    )
    new = with_known_result(state.database, state.settings, new)
    try:
        if key is None:
            return Accepted(state.database.jobs.submit(new, queue_limit=limit), None, replayed=False)
        made = state.database.submissions.submit(owner, key, upload.fingerprint, new, queue_limit=limit)
        return Accepted(made.job, made.expires_at, replayed=False)
    except QueueFullError as error:
        raise _full(str(error)) from error
    except KeyTakenError as error:
        raise _in_flight() from error


def _full(detail: str) -> Problem:
    return Problem(ProblemType.QUEUE_FULL, detail, headers={"Retry-After": "30"})
