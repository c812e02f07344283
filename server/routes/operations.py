"""Routes for operating the service: ``/livez``, ``/readyz``, ``/metrics``, ``/problems``, ``/v1/devices``."""

from __future__ import annotations

from typing import Annotated

import psutil
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, PlainTextResponse

from superopt.server.http.documents import DeviceDocument, DevicePage, Health, ProblemDocument
from superopt.server.http.openapi import WITHOUT_KEY, failures, open_failures
from superopt.server.http.problems import MEDIA_TYPE, Problem
from superopt.server.http.security import Caller, local_or_keys, require
from superopt.server.http.state import state_of
from superopt.server.problem_types import ProblemType
from superopt.server.process.metrics import CONTENT_TYPE
from superopt.server.routes.readiness import readiness
from superopt.substitution_db.store.engine import DatabaseUnavailableError

router = APIRouter(tags=["operations"])
Reader = Annotated[Caller, Depends(require("read"))]


async def _reader_or_outage(request: Request) -> Caller:
    """The caller if its key may read; anybody while the database, which knows the keys, does not answer."""
    try:
        return await require("read")(request)
    except DatabaseUnavailableError:
        return Caller()


ReaderOrOutage = Annotated[Caller, Depends(_reader_or_outage)]


@router.get("/livez", responses=open_failures(), openapi_extra=WITHOUT_KEY)
def live() -> Health:
    """Liveness: the process responds."""
    return Health(status="alive")


@router.get(
    "/readyz",
    response_model=Health,
    responses=open_failures(ProblemType.NOT_READY),
    openapi_extra=WITHOUT_KEY,
)
def ready(request: Request) -> JSONResponse:
    """Readiness: database, schema, proved library and disk; 503 with all reasons if not ready."""
    checks = readiness(state_of(request))
    failed = [f"{name}: {check.detail}" for name, check in checks.items() if not check.ok]
    shown = {name: check.model_dump() for name, check in checks.items()}
    if not failed:
        return JSONResponse({"status": "ready", "checks": shown})
    document = ProblemType.NOT_READY.document("; ".join(failed), instance=request.url.path, checks=shown)
    return JSONResponse(document, ProblemType.NOT_READY.status, {"Retry-After": "5"}, MEDIA_TYPE)


@router.get("/metrics", response_class=PlainTextResponse, responses=failures())
def metrics(request: Request, _: ReaderOrOutage) -> PlainTextResponse:
    """Metrics in Prometheus's text format. While the database does not answer, keys cannot be checked:
    anybody may then read those of this process, and that the database is down."""
    return PlainTextResponse(state_of(request).metrics.text(), media_type=CONTENT_TYPE)


@router.get(
    "/problems",
    dependencies=[Depends(local_or_keys)],
    responses=open_failures(),
    openapi_extra=WITHOUT_KEY,
)
def list_problems() -> dict[str, ProblemDocument]:
    """List all problem types."""
    return {type_.slug: _described(type_) for type_ in ProblemType}


@router.get(
    "/problems/{slug}",
    dependencies=[Depends(local_or_keys)],
    responses=open_failures(ProblemType.NOT_FOUND, ProblemType.PARAMETERS),
    openapi_extra=WITHOUT_KEY,
)
def read_problem(slug: str) -> ProblemDocument:
    """Read a problem type."""
    for type_ in ProblemType:
        if type_.slug == slug:
            return _described(type_)
    raise Problem(ProblemType.NOT_FOUND, f"there is no problem type {slug[:64]}")


@router.get("/v1/devices", tags=["devices"], responses=failures())
def devices(request: Request, _: Reader) -> DevicePage:
    """List the devices to optimise for: this machine's CPU and those with measured costs."""
    measured = state_of(request).database.costs.devices()
    by_device: dict[str, int] = {}
    for device, _runtime, count in measured:
        if device:
            by_device[device] = by_device.get(device, 0) + count
    here = DeviceDocument(
        name="cpu",
        cores=psutil.cpu_count(logical=False),
        memory_bytes=psutil.virtual_memory().total,
        costs=by_device.pop("cpu", 0),
        here=True,
    )
    others = (
        DeviceDocument(name=name, cores=None, memory_bytes=None, costs=count, here=False)
        for name, count in sorted(by_device.items())
    )
    return DevicePage(items=[here, *others])


def _described(type_: ProblemType) -> ProblemDocument:
    return ProblemDocument(
        type=f"/problems/{type_.slug}", title=type_.title, status=type_.status, detail=type_.title
    )
