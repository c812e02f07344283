"""What operators look at: ``/livez``, ``/readyz``, ``/metrics``, ``/problems``, and ``/v1/devices``."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Annotated

import psutil
from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse

from server.documents import DeviceDocument, DevicePage, Health, ProblemDocument
from server.problem_types import ProblemType
from server.problems import Problem
from server.security import local_or_keys, require
from server.state import State, state_of
from substitution_db.migrate import HEAD
from substitution_db.records import RuleStatus
from superopt.errors import MissingServiceError

router = APIRouter(tags=["operations"], responses={"default": {"model": ProblemDocument}})
Reader = Annotated[str, Depends(require("read"))]


@router.get("/livez")
def live() -> Health:
    """Whether the process answers."""
    return Health(status="alive")


@router.get("/readyz")
def ready(request: Request) -> Health:
    """Whether requests can be served: database, schema, disk."""
    state = state_of(request)
    try:
        revision = state.database.ping()
    except MissingServiceError as error:
        raise Problem(ProblemType.NOT_READY, "the database does not answer") from error
    if revision != HEAD:
        raise Problem(ProblemType.NOT_READY, f"the database is at revision {revision}, {HEAD} is needed")
    if state.database.blobs.free_bytes() < state.settings.min_free_bytes:
        raise Problem(ProblemType.NOT_READY, "the disk is nearly full")
    if state.stopping.is_set():
        raise Problem(ProblemType.NOT_READY, "the service is stopping")
    verified = state.database.rules.statistics().by_status[RuleStatus.VERIFIED]
    return Health(
        status="ready", checks={"revision": revision, "verified_rules": str(verified), "disk": "ok"}
    )


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(request: Request, _: Reader) -> PlainTextResponse:
    """Metrics in the text format of Prometheus."""
    text = "".join(_metrics(state_of(request)))
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/problems", dependencies=[Depends(local_or_keys)])
def list_problems() -> dict[str, ProblemDocument]:
    """Every type of problem."""
    return {type_.slug: _described(type_) for type_ in ProblemType}


@router.get("/problems/{slug}", dependencies=[Depends(local_or_keys)])
def read_problem(slug: str) -> ProblemDocument:
    """A type of problem."""
    for type_ in ProblemType:
        if type_.slug == slug:
            return _described(type_)
    raise Problem(ProblemType.NOT_FOUND, f"there is no type of problem {slug[:64]}")


@router.get("/v1/devices", tags=["devices"])
def devices(request: Request, _: Reader) -> DevicePage:
    """The devices that can be optimised for: this machine's CPU, and those with measured costs."""
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


def _metrics(state: State) -> Iterator[str]:
    database = state.database
    yield from _gauge(
        "superopt_info",
        "The version.",
        [({"version": version("superopt"), "python": platform.python_version()}, 1)],
    )
    jobs = [({"state": str(job_state)}, count) for job_state, count in database.jobs.counts().items()]
    yield from _gauge("superopt_jobs", "Optimizations that are stored.", jobs)
    rules = [({"status": str(s)}, count) for s, count in database.rules.statistics().by_status.items()]
    yield from _gauge("superopt_rules", "Rules in the library.", rules)
    yield from _gauge(
        "superopt_blob_free_bytes", "Free disk for models.", [({}, database.blobs.free_bytes())]
    )
    resident = psutil.Process().memory_info().rss
    yield from _gauge("superopt_process_resident_bytes", "Memory of the server.", [({}, resident)])
    traffic = state.traffic
    yield from _family(
        "superopt_http_requests_total",
        "counter",
        "Finished requests.",
        (
            ({"method": method, "route": route, "status": str(status)}, count)
            for (method, route, status), count in sorted(traffic.requests.items())
        ),
    )
    yield from _family(
        "superopt_http_request_seconds_total",
        "counter",
        "Seconds until responses were complete.",
        (({"route": route}, seconds) for route, seconds in sorted(traffic.seconds.items())),
    )


def _gauge(name: str, text: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> Iterator[str]:
    yield from _family(name, "gauge", text, samples)


def _family(
    name: str, kind: str, text: str, samples: Iterable[tuple[Mapping[str, str], float]]
) -> Iterator[str]:
    yield f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        written = ",".join(f'{label}="{_escaped(content)}"' for label, content in labels.items())
        yield f"{name}{{{written}}} {value}\n" if written else f"{name} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
