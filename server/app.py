"""The application: routes, failures as problem documents, security headers, counts of requests."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server import operations, optimizations, problems, substitutions
from server.options import OptimizationOptions
from server.security import local_or_keys
from server.settings import Settings
from server.state import State, Traffic
from substitution_db import Database

_PAGE = Path(__file__).parent / "page.html"
_DESCRIPTION = (
    "Optimise ONNX models with proved graph rewrites and measured costs. Failures are "
    "`application/problem+json`; their types are at `/problems`."
)


def create_app(settings: Settings, database: Database) -> FastAPI:
    """The application on an open database, which stays open."""
    app = FastAPI(
        title="superopt",
        version="1",
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    state = State(
        settings=settings,
        database=database,
        stopping=threading.Event(),
        proofs=threading.BoundedSemaphore(settings.max_proofs_at_once),
    )
    app.state.shared = state
    problems.install(app)
    for router in (optimizations.router, substitutions.router, operations.router):
        app.include_router(router)
    _add_page(app)
    _add_openapi(app)
    app.add_middleware(_Edges, traffic=state.traffic)
    return app


def _add_page(app: FastAPI) -> None:
    page = _PAGE.read_text(encoding="utf-8")
    headers = {"Content-Security-Policy": _content_security_policy(page), "Cache-Control": "no-cache"}

    @app.get("/", include_in_schema=False, dependencies=[Depends(local_or_keys)])
    def show_page() -> HTMLResponse:  # pyright: ignore[reportUnusedFunction]
        return HTMLResponse(page, headers=headers)


def _content_security_policy(page: str) -> str:
    """Only the page's own script and style run, and only this service is called."""
    hashes: dict[str, str] = {}
    for tag in ("script", "style"):
        content = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in content)
        hashes[tag] = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; "
        "connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _add_openapi(app: FastAPI) -> None:
    """OpenAPI with the options of a submission among its schemas."""
    generate = cast("Callable[[], dict[str, object]]", app.openapi)

    def openapi() -> dict[str, object]:
        document = generate()
        schemas = cast("dict[str, dict[str, object]]", document["components"])["schemas"]
        reference = "#/components/schemas/{model}"
        schemas["OptimizationOptions"] = OptimizationOptions.model_json_schema(ref_template=reference)
        return document

    app.openapi = openapi

    @app.get("/openapi.json", include_in_schema=False, dependencies=[Depends(local_or_keys)])
    def show_openapi() -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        return openapi()


class _Edges:
    """Around every request: security headers on the response, and its count and time."""

    def __init__(self, app: ASGIApp, traffic: Traffic) -> None:
        self._app = app
        self._traffic = traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        status = 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("X-Frame-Options", "DENY")
                headers.setdefault("Referrer-Policy", "no-referrer")
                headers.setdefault("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._traffic.requests[method, route, status] += 1
            self._traffic.seconds[route] += time.monotonic() - started


_METHODS = frozenset(("GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"))
