"""Endpoints used only by the page: form choices, drawings, model outlines, reports as HTML."""

from __future__ import annotations

import base64
import json
import tempfile
import threading
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from superopt.equations import drawing, equation_of_region, parse_equation
from superopt.equations.drawing import description
from superopt.errors import InvalidEquationError
from superopt.processes.child import ResourceLimits, Returned, Stopped
from superopt.server.http.problems import Problem
from superopt.server.http.security import Caller, local_or_keys, require
from superopt.server.http.state import State, state_of
from superopt.server.options import option_fields
from superopt.server.problem_types import ProblemType
from superopt.server.process.child import run_in_child
from superopt.substitution_db.store.records import JobRole, JsonObject

router = APIRouter(prefix="/page", include_in_schema=False)
Reader = Annotated[Caller, Depends(require("read"))]

_SECONDS = 60.0
_at_once = threading.BoundedSemaphore(2)


@router.get("/choices", dependencies=[Depends(local_or_keys)])
def choices(request: Request) -> dict[str, object]:
    """The options of an optimization and the limits of this service."""
    settings = state_of(request).settings
    return {
        "version": version("superopt"),
        "options": option_fields(settings),
        "max_upload_bytes": settings.max_upload_bytes,
        "max_prove_seconds": settings.max_prove_seconds,
    }


@router.get("/families")
def list_families(request: Request, _: Reader) -> list[dict[str, object]]:
    """The proved rules by the families of the operators that they replace, largest first."""
    return [asdict(family) for family in state_of(request).database.rules.families()]


@router.get("/drawing")
def draw(_: Reader, equation: Annotated[str, Query(min_length=1, max_length=8000)]) -> Response:
    """An equation drawn as SVG."""
    try:
        drawn = drawing(parse_equation(equation))
    except InvalidEquationError as error:
        raise Problem(ProblemType.EQUATION, str(error)) from error
    return Response(drawn, media_type="image/svg+xml", headers={"Cache-Control": "private, max-age=3600"})


@router.get("/optimizations/{identity}/drawings")
def drawings(request: Request, caller: Reader, identity: str) -> dict[str, object]:
    """The rewritten regions of a report drawn as SVG, in order; null for one that is too large."""
    state = state_of(request)
    report = cast("JsonObject", json.loads(_file(state, caller, identity, JobRole.REPORT).read_bytes()))
    explanation = cast("JsonObject", report.get("explanation") or {})
    regions = cast("list[JsonObject]", explanation.get("regions") or [])
    return {"regions": [_drawn(region) for region in regions]}


@router.get("/optimizations/{identity}/graphs")
def graphs(
    request: Request,
    caller: Reader,
    identity: str,
    most: Annotated[int | None, Query(ge=1, le=100_000)] = None,
) -> dict[str, object]:
    """Both models without tensor contents (base64), and the names of the nodes that differ. ``most`` limits
    each model to that many nodes around the differences.
    """
    state = state_of(request)
    models = {
        "before": str(_file(state, caller, identity, JobRole.MODEL)),
        "after": str(_file(state, caller, identity, JobRole.RESULT)),
    }
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        arguments: JsonObject = {**models, "directory": directory, "most": most}
        found = _in_child(state, "superopt.server.page.work:write_outlines", arguments)
        written = {side: (Path(directory) / f"{side}.onnx").read_bytes() for side in models}
    return {**found, **{side: base64.b64encode(content).decode() for side, content in written.items()}}


@router.get("/optimizations/{identity}/report.html")
def report_page(request: Request, caller: Reader, identity: str) -> Response:
    """The report as a self-contained HTML page."""
    state = state_of(request)
    report = _file(state, caller, identity, JobRole.REPORT)
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        page = Path(directory) / "report.html"
        _in_child(
            state, "superopt.server.page.work:write_report_page", {"report": str(report), "page": str(page)}
        )
        content = page.read_bytes()
    headers = {"Content-Disposition": 'attachment; filename="report.html"'}
    return Response(content, media_type="text/html; charset=utf-8", headers=headers)


def _drawn(region: JsonObject) -> dict[str, str] | None:
    try:
        equation = equation_of_region(region)
    except (LookupError, TypeError, ValueError):  # a report of another version
        return None
    return None if equation is None else {"svg": drawing(equation), "text": description(equation)}


def _file(state: State, caller: Caller, identity: str, role: JobRole) -> Path:
    """Path of a file of a succeeded optimization, read only. Raises Problem."""
    job = state.database.jobs.get(identity, caller.jobs)
    if job is None:
        raise Problem(ProblemType.NOT_FOUND, f"there is no optimization {identity[:64]}")
    file = job.file(role)
    if file is None or job.file(JobRole.RESULT) is None:
        type_ = ProblemType.NO_RESULT if job.state.final else ProblemType.NOT_FINISHED
        raise Problem(type_, f"the optimization is {job.state}")
    path = state.database.blobs.path(file.sha256)
    if not path.exists():
        raise Problem(ProblemType.ARCHIVE_UNAVAILABLE, f"{file.name} was removed from the blob store")
    return path


def _in_child(state: State, function: str, arguments: JsonObject) -> JsonObject:
    if not _at_once.acquire(blocking=False):
        raise Problem(ProblemType.BUSY, "too many renderings in progress", headers={"Retry-After": "2"})
    limits = ResourceLimits(_SECONDS, state.settings.max_job_bytes, 0.0, state.settings.job_niceness)
    try:
        ending = run_in_child(function, arguments, limits, wanted=lambda: not state.stopping.is_set())
    finally:
        _at_once.release()
    if isinstance(ending, Returned):
        return ending.result
    detail = "the service is stopping" if isinstance(ending, Stopped) else ending.problem.get("detail")
    raise Problem(ProblemType.INTERNAL, f"rendering failed: {detail}")
