"""Middleware that gives each request an id, a log line, metrics and a trace span."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from superopt.processes.logs import about_request
from superopt.server.http.problems import internal
from superopt.server.process.metrics import Metrics
from superopt.server.process.tracing import RequestSpan, Traces

REQUEST_ID = "X-Request-Id"
_SANE = re.compile(r"[A-Za-z0-9._:=+/-]{1,128}")
_JOB = re.compile(r"/v1/optimizations/([0-9a-f]{32})")
_PROBES = frozenset(("/livez", "/readyz", "/metrics"))
_SERVER_ERROR = 500
_PATH_BYTES = 300
_log = logging.getLogger("superopt.access")


class Observation:
    """Observes the requests of an application.

    An ``X-Request-Id`` of up to 128 safe characters is kept, otherwise one is generated; the response repeats
    it.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, traces: Traces) -> None:
        self._app = app
        self._metrics = metrics
        self._traces = traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one ASGI request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope)
        with self._traces.request(scope["method"], given) as entry:
            identity = _identity(given.get(REQUEST_ID, ""), entry)
            with about_request(identity):
                await self._observed(scope, receive, send, identity, entry)

    async def _observed(
        self, scope: Scope, receive: Receive, send: Send, identity: str, entry: RequestSpan
    ) -> None:
        started = time.monotonic()
        status, answered, location = _SERVER_ERROR, started, ""

        async def send_identified(message: Message) -> None:
            nonlocal status, answered, location
            if message["type"] == "http.response.start":
                status, answered = message["status"], time.monotonic()
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = identity
                location = headers.get("Location", "")
            await send(message)

        self._metrics.began()
        try:
            await self._app(scope, receive, send_identified)
        except Exception as error:
            if answered > started:
                raise
            response = internal(Request(scope), error)
            await response(scope, receive, send_identified)
        finally:
            if answered == started:
                answered = time.monotonic()
            route = str(getattr(scope.get("route"), "path", "other"))
            self._metrics.ended(scope["method"], route, status, answered - started)
            _describe(entry, scope, route, status)
            fields = _fields(scope, route, status, location, answered - started, time.monotonic() - started)
            quiet = route in _PROBES and status < _SERVER_ERROR
            level = logging.DEBUG if quiet else logging.INFO
            path = scope.get("raw_path", b"")[:_PATH_BYTES].decode("ascii", "replace")
            _log.log(level, "%s %s %d", scope["method"], path, status, extra={"fields": fields})


def _identity(given: str, entry: RequestSpan) -> str:
    return given if _SANE.fullmatch(given) else entry.trace_id or secrets.token_hex(16)


def _describe(entry: RequestSpan, scope: Scope, route: str, status: int) -> None:
    entry.rename(f"{scope['method']} {route}")
    entry.set(
        {
            "http.request.method": scope["method"],
            "http.route": route,
            "http.response.status_code": status,
            "url.path": scope["path"],
            "url.scheme": scope["scheme"],
        }
    )
    if status >= _SERVER_ERROR:
        entry.failed(str(status))


def _fields(
    scope: Scope, route: str, status: int, location: str, answered: float, ended: float
) -> Mapping[str, object]:
    client = scope.get("client")
    job = _JOB.match(location) or _JOB.match(scope["path"])
    return {
        "method": scope["method"],
        "route": route,
        "status": status,
        "seconds": round(answered, 4),
        "seconds_in_all": round(ended, 4),
        "client": client[0] if client else None,
        **({"job_id": job[1]} if job else {}),
    }
