"""``/v1/optimizations``: submit, list, read, download, cancel."""

from __future__ import annotations

import math
import re
from email.utils import format_datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from superopt.server.http.cursors import cursor_of, number_of
from superopt.server.http.descriptions import (
    EVENT_ANSWERS,
    EVENT_PARAMETERS,
    FILE_PARAMETERS,
    OF_ONE,
    READ_ANSWERS,
    READ_PARAMETERS,
    SUBMIT_ANSWERS,
    SUBMIT_BODY,
    SUBMIT_HEADERS,
    file_answers,
)
from superopt.server.http.documents import OptimizationDocument, OptimizationPage
from superopt.server.http.downloads import download, unless_known
from superopt.server.http.events import event_stream
from superopt.server.http.openapi import failures
from superopt.server.http.problems import Problem
from superopt.server.http.security import Caller, require
from superopt.server.http.state import State, state_of
from superopt.server.problem_types import ProblemType
from superopt.server.routes.submission import accept, wait_for_end
from superopt.substitution_db.store.records import Job, JobFile, JobRole, JobState

router = APIRouter(prefix="/v1/optimizations", tags=["optimizations"])
Submitter = Annotated[Caller, Depends(require("submit"))]
Reader = Annotated[Caller, Depends(require("read"))]
Identity = Annotated[
    str, Path(description="The id of an optimization.", json_schema_extra={"format": "optimization"})
]
Cursor = Annotated[
    str | None,
    Query(
        max_length=200,
        description="`next` of the previous page.",
        json_schema_extra={"format": "optimizations-cursor"},
    ),
]
_LIST = "optimizations"


@router.post(
    "",
    status_code=202,
    response_model=OptimizationDocument,
    responses=SUBMIT_ANSWERS,
    openapi_extra={"requestBody": SUBMIT_BODY, "parameters": SUBMIT_HEADERS},
)
async def submit(request: Request, caller: Submitter) -> JSONResponse:
    """Accept a model to be optimised.

    The status is 200 if the optimization ends within `Prefer: wait` or an earlier result is reused, else 202.
    """
    seconds = _preferred_wait(request, state_of(request))
    accepted = await accept(request, caller.key)
    job = accepted.job if seconds is None else await wait_for_end(request, accepted.job, seconds)
    headers = {"Location": f"/v1/optimizations/{job.id}"}
    if seconds is not None:
        headers["Preference-Applied"] = f"wait={seconds}"
    if accepted.expires_at is not None:
        headers["Idempotency-Expires"] = format_datetime(accepted.expires_at, usegmt=True)
        headers["Idempotency-Replayed"] = str(accepted.replayed).lower()
    at_once = seconds is not None or job.reused_from is not None
    document = OptimizationDocument.of(job).model_dump(mode="json")
    return JSONResponse(document, 200 if job.state.final and at_once else 202, headers)


@router.get("", responses=failures(ProblemType.PARAMETERS, ProblemType.CURSOR))
def list_optimizations(
    request: Request,
    caller: Reader,
    state: JobState | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Cursor = None,
) -> OptimizationPage:
    """List the optimizations that the API key may see, newest first."""
    before = None if cursor is None else number_of(_LIST, cursor)
    jobs = state_of(request).database.jobs.list(state=state, before=before, limit=limit + 1, of=caller.jobs)
    shown = jobs[:limit]
    return OptimizationPage(
        items=[OptimizationDocument.of(job) for job in shown],
        next=cursor_of(_LIST, str(shown[-1].number)) if len(jobs) > limit else None,
    )


@router.get(
    "/{identity}",
    response_model=OptimizationDocument,
    responses=READ_ANSWERS,
    openapi_extra=READ_PARAMETERS,
)
async def read(request: Request, caller: Reader, identity: Identity) -> Response:
    """Read an optimization."""
    state = state_of(request)
    job = await state.look(state.database.jobs.get, identity, caller.jobs)
    if job is None:
        raise _unknown(identity)
    return unless_known(request, OptimizationDocument.of(job).model_dump_json().encode())


@router.delete("/{identity}", status_code=202, responses=OF_ONE)
def cancel(request: Request, caller: Submitter, identity: Identity) -> OptimizationDocument:
    """Cancel an optimization. Has no effect on one that has ended."""
    job = state_of(request).database.jobs.cancel(identity, caller.jobs)
    if job is None:
        raise _unknown(identity)
    return OptimizationDocument.of(job)


@router.get(
    "/{identity}/model",
    response_class=Response,
    responses=file_answers("application/octet-stream", "application/zip"),
    openapi_extra=FILE_PARAMETERS,
)
def model(request: Request, caller: Reader, identity: Identity) -> Response:
    """Download the optimised model: an ONNX file, or a zip archive when it has external data."""
    job = _job(request, caller, identity)
    file = _result(job, JobRole.RESULT)
    kind = "application/zip" if file.name.endswith(".zip") else "application/octet-stream"
    return download(request, file, kind)


@router.get(
    "/{identity}/report",
    response_class=Response,
    responses=file_answers("application/json"),
    openapi_extra=FILE_PARAMETERS,
)
def report(request: Request, caller: Reader, identity: Identity) -> Response:
    """Read the report."""
    return download(request, _result(_job(request, caller, identity), JobRole.REPORT), "application/json")


@router.get(
    "/{identity}/events",
    response_class=Response,
    responses=EVENT_ANSWERS,
    openapi_extra=EVENT_PARAMETERS,
)
async def events(request: Request, caller: Reader, identity: Identity) -> Response:
    """Follow an optimization as server-sent events; ``Last-Event-ID`` resumes after that event."""
    job = await run_in_threadpool(_job, request, caller, identity)
    last = request.headers.get("last-event-id", "0")
    if not re.fullmatch(r"[0-9]{1,18}", last):
        raise Problem(
            ProblemType.PARAMETERS, f"Last-Event-ID: expected the id of an event, got {last[:40]!r}"
        )
    return await event_stream(state_of(request), job, int(last))


def _preferred_wait(request: Request, state: State) -> int | None:
    """The seconds of ``Prefer: wait=N``, capped at the limit; other preferences are ignored (RFC 7240)."""
    for preference in request.headers.get("prefer", "").split(","):
        name, _, value = preference.partition("=")
        if name.strip().lower() == "wait" and re.fullmatch(r"\s*\"?[0-9]{1,9}\"?\s*", value):
            return min(int(value.strip(' "')), math.floor(state.settings.max_wait_seconds))
    return None


def _job(request: Request, caller: Caller, identity: str) -> Job:
    job = state_of(request).database.jobs.get(identity, caller.jobs)
    if job is None:
        raise _unknown(identity)
    return job


def _unknown(identity: str) -> Problem:
    return Problem(ProblemType.NOT_FOUND, f"there is no optimization {identity[:64]}")


def _result(job: Job, role: Literal[JobRole.RESULT, JobRole.REPORT]) -> JobFile:
    file = job.file(role)
    if file is not None:
        return file
    if job.state.final:
        raise Problem(ProblemType.NO_RESULT, f"the optimization is {job.state}")
    raise Problem(ProblemType.NOT_FINISHED, f"the optimization is {job.state}", headers={"Retry-After": "1"})
