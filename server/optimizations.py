"""``/v1/optimizations``: submit, list, read, download, cancel."""

from __future__ import annotations

import math
import re
import time
from typing import Annotated, Literal

import anyio
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, JSONResponse

from server.documents import OptimizationDocument, OptimizationPage, ProblemDocument
from server.events import event_stream
from server.options import parse_options
from server.problem_types import ProblemType
from server.problems import Problem
from server.security import require
from server.state import State, state_of
from server.upload import Upload
from substitution_db.jobs import NewJob, QueueFullError
from substitution_db.records import Job, JobFile, JobRole, JobState
from superopt.errors import InvalidOptionError

router = APIRouter(
    prefix="/v1/optimizations", tags=["optimizations"], responses={"default": {"model": ProblemDocument}}
)
Submitter = Annotated[str, Depends(require("submit"))]
Reader = Annotated[str, Depends(require("read"))]
_WAIT_SECONDS = 0.1
_KEY = re.compile(r"[\x21-\x7e]{1,255}")

_SUBMIT_BODY: dict[str, object] = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["model"],
                "properties": {
                    "model": {"type": "string", "format": "binary", "description": "The ONNX model."},
                    "data": {
                        "type": "array",
                        "items": {"type": "string", "format": "binary"},
                        "description": "External data; each file name is its location in the model.",
                    },
                    "cluster": {
                        "type": "string",
                        "format": "binary",
                        "description": "A cluster description, YAML or JSON.",
                    },
                    "options": {"$ref": "#/components/schemas/OptimizationOptions"},
                },
            },
            "encoding": {"options": {"contentType": "application/json"}},
        }
    },
}
_SUBMIT_HEADERS: list[dict[str, object]] = [
    {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[\x21-\x7e]+$"},
        "description": "The same request sent again with this key (for a day) gives the same optimization.",
    },
    {
        "name": "Prefer",
        "in": "header",
        "schema": {"type": "string"},
        "example": "wait=30",
        "description": "Wait so many seconds for the end; then the answer is 200 instead of 202.",
    },
]


@router.post(
    "",
    status_code=202,
    response_model=OptimizationDocument,
    responses={200: {"model": OptimizationDocument, "description": "It finished in time."}},
    openapi_extra={"requestBody": _SUBMIT_BODY, "parameters": _SUBMIT_HEADERS},
)
async def submit(request: Request, owner: Submitter) -> JSONResponse:
    """Accept a model to be optimised."""
    state = state_of(request)
    seconds = _preferred_wait(request, state)
    key = request.headers.get("idempotency-key")
    if key is None:
        job = await _accept(request, state, owner, None)
    elif _KEY.fullmatch(key):
        job = await _accept_once(request, state, owner, key)
    else:
        raise Problem(ProblemType.PARAMETERS, "Idempotency-Key: expected 1 to 255 visible ASCII characters")
    if seconds is not None:
        job = await _wait(state, job, seconds)
    headers = {"Location": f"/v1/optimizations/{job.id}"}
    if seconds is not None:
        headers["Preference-Applied"] = f"wait={seconds:g}"
    document = OptimizationDocument.of(job).model_dump(mode="json")
    return JSONResponse(document, 200 if job.state.final else 202, headers)


@router.get("")
def list_optimizations(
    request: Request,
    _: Reader,
    state: JobState | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=64)] = None,
) -> OptimizationPage:
    """List optimizations, newest first."""
    try:
        jobs = state_of(request).database.jobs.list(state=state, before=cursor, limit=limit + 1)
    except InvalidOptionError as error:
        raise Problem(ProblemType.PARAMETERS, f"cursor: {error}") from error
    shown = jobs[:limit]
    return OptimizationPage(
        items=[OptimizationDocument.of(job) for job in shown],
        next=shown[-1].id if len(jobs) > limit else None,
    )


@router.get("/{identity}")
def read(request: Request, _: Reader, identity: str) -> OptimizationDocument:
    """Read an optimization."""
    return OptimizationDocument.of(_job(request, identity))


@router.delete("/{identity}", status_code=202)
def cancel(request: Request, _: Submitter, identity: str) -> OptimizationDocument:
    """Cancel an optimization; nothing happens to one that has ended."""
    job = state_of(request).database.jobs.cancel(identity)
    if job is None:
        raise _unknown(identity)
    return OptimizationDocument.of(job)


@router.get("/{identity}/model", response_class=FileResponse)
def model(request: Request, _: Reader, identity: str) -> FileResponse:
    """Download the optimised model: an ONNX file, or a zip archive when it has external data."""
    job = _job(request, identity)
    file = _result(job, JobRole.RESULT)
    kind = "application/zip" if file.name.endswith(".zip") else "application/octet-stream"
    return _download(request, file, kind)


@router.get("/{identity}/report", response_class=FileResponse)
def report(request: Request, _: Reader, identity: str) -> FileResponse:
    """Read the report."""
    return _download(request, _result(_job(request, identity), JobRole.REPORT), "application/json")


@router.get("/{identity}/events", response_class=Response)
def events(request: Request, _: Reader, identity: str) -> Response:
    """Follow an optimization as server-sent events; ``Last-Event-ID`` resumes."""
    job = _job(request, identity)
    last = request.headers.get("last-event-id", "0")
    if not re.fullmatch(r"[0-9]{1,18}", last):
        raise Problem(
            ProblemType.PARAMETERS, f"Last-Event-ID: expected the id of an event, got {last[:40]!r}"
        )
    return event_stream(state_of(request), job.id, int(last))


async def _accept_once(request: Request, state: State, owner: str, key: str) -> Job:
    """Accepts the request, or gives the job that it made before; a request that fails frees its key."""
    submissions = state.database.submissions
    known = await run_in_threadpool(submissions.reserve, owner, key)
    if known is not None and known.job_id is None:
        raise Problem(
            ProblemType.KEY_IN_FLIGHT, "wait for the first request to end", headers={"Retry-After": "1"}
        )
    if known is not None and known.job_id is not None:
        with Upload(state.database.blobs, state.settings) as upload:
            await upload.read(request)
            if upload.fingerprint != known.fingerprint:
                raise Problem(ProblemType.KEY_REUSED, "use a new key for a new request")
        return await run_in_threadpool(_job, request, known.job_id)
    try:
        return await _accept(request, state, owner, key)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await run_in_threadpool(submissions.release, owner, key)
        raise


async def _accept(request: Request, state: State, owner: str, key: str | None) -> Job:
    with Upload(state.database.blobs, state.settings) as upload:
        await upload.read(request)
        return await run_in_threadpool(_store, state, upload, owner, key)


def _store(state: State, upload: Upload, owner: str, key: str | None) -> Job:
    options = parse_options(bytes(upload.options), state.settings.max_job_seconds)
    if upload.has_cluster and not state.settings.plans_clusters:
        detail = "cluster: plans for several devices cannot be made yet; leave it out"
        raise Problem(ProblemType.OPTIONS, detail)
    new = NewJob(
        model_name=upload.model_name,
        files=upload.keep(),
        options=options,
        owner=owner,
        max_attempts=state.settings.max_job_attempts,
    )
    limit = state.settings.max_queued_jobs
    try:
        if key is None:
            return state.database.jobs.submit(new, queue_limit=limit)
        return state.database.submissions.submit(owner, key, upload.fingerprint, new, queue_limit=limit)
    except QueueFullError as error:
        raise Problem(ProblemType.QUEUE_FULL, str(error), headers={"Retry-After": "30"}) from error


async def _wait(state: State, job: Job, seconds: float) -> Job:
    deadline = time.monotonic() + seconds
    while not job.state.final and time.monotonic() < deadline and not state.stopping.is_set():
        await anyio.sleep(_WAIT_SECONDS)
        job = await run_in_threadpool(state.database.jobs.get, job.id) or job
    return job


def _preferred_wait(request: Request, state: State) -> float | None:
    """The seconds of ``Prefer: wait=N``, as far as they are allowed; other preferences are ignored (RFC
    7240).
    """
    for preference in request.headers.get("prefer", "").split(","):
        name, _, value = preference.partition("=")
        if name.strip().lower() == "wait" and re.fullmatch(r"\s*\"?[0-9]{1,9}\"?\s*", value):
            return math.floor(min(float(value.strip(' "')), state.settings.max_wait_seconds))
    return None


def _job(request: Request, identity: str) -> Job:
    job = state_of(request).database.jobs.get(identity)
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


def _download(request: Request, file: JobFile, kind: str) -> FileResponse:
    path = state_of(request).database.blobs.path(file.sha256)
    if not path.exists():
        raise Problem(ProblemType.ARCHIVE_UNAVAILABLE, f"{file.name} was removed from the blob store")
    disposition = "inline" if file.role is JobRole.REPORT else "attachment"
    headers = {"ETag": f'"{file.sha256}"'}
    return FileResponse(
        path, headers=headers, media_type=kind, filename=file.name, content_disposition_type=disposition
    )
