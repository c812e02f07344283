"""The ASGI application: routes, problem documents, security headers."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import cast

import anyio
from fastapi import Depends, FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from superopt.server.http import openapi, problems
from superopt.server.http.bodies import Bodies
from superopt.server.http.head_requests import HeadRequests
from superopt.server.http.job_feed import JobFeed
from superopt.server.http.observation import Observation
from superopt.server.http.rate_limits import TokenBuckets
from superopt.server.http.security import local_or_keys
from superopt.server.http.state import State
from superopt.server.page import answers, routes
from superopt.server.process.metrics import Metrics
from superopt.server.process.sandbox import prepare
from superopt.server.process.tracing import Traces
from superopt.server.routes import operations, optimizations, substitutions
from superopt.server.settings import Settings
from superopt.substitution_db import Database

_INSPECTIONS_AT_ONCE = min(4, os.cpu_count() or 1)
_READS_AT_ONCE = 8
_INTAKE_AT_ONCE = 4
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
"""Default headers of every response."""

_DESCRIPTION = (
    "Optimise ONNX models with proved graph rewrites and measured costs. Failures are "
    "`application/problem+json`; their types are at `/problems`."
)


def create_app(settings: Settings, database: Database, traces: Traces | None = None) -> FastAPI:
    """The application over an open database, which it does not close; spans are sent to ``traces``."""
    app = FastAPI(
        title="superopt",
        version="1",
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        generate_unique_id_function=openapi.operation_id,
    )
    prepare()
    stopping = threading.Event()
    state = State(
        settings=settings,
        database=database,
        stopping=stopping,
        proofs=threading.BoundedSemaphore(settings.max_proofs_at_once),
        rates=TokenBuckets(settings.max_requests_per_second, settings.max_requests_burst),
        inspections=anyio.CapacityLimiter(_INSPECTIONS_AT_ONCE),
        reads=anyio.CapacityLimiter(_READS_AT_ONCE),
        intake=anyio.CapacityLimiter(_INTAKE_AT_ONCE),
        metrics=Metrics(database),
        job_feed=JobFeed(database, settings.poll_seconds, stopping),
    )
    app.state.shared = state
    routers = [module.router for module in (optimizations, substitutions, operations, answers, routes)]
    problems.install(app, routers)
    for router in routers:
        app.include_router(router)
    _add_openapi(app)
    app.add_middleware(HeadRequests)
    app.add_middleware(Bodies)
    app.add_middleware(Observation, metrics=state.metrics, traces=traces or Traces(None))
    app.add_middleware(_Edges)
    return app


def _add_openapi(app: FastAPI) -> None:
    @app.get("/openapi.json", include_in_schema=False, dependencies=[Depends(local_or_keys)])
    def show_openapi() -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        return openapi.document(app)


class _Edges:
    """Middleware that adds security headers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = cast("Sequence[tuple[bytes, bytes]]", message["headers"])
                present = {name for name, _ in headers}
                more = (header for header in _HEADERS if header[0] not in present)
                message["headers"] = [*headers, *more]
            await send(message)

        await self._app(scope, receive, send_with_headers)
