"""Middleware that limits request bodies and delivers the response to a request rejected early."""

from __future__ import annotations

import anyio
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from superopt.server.http.problems import Problem
from superopt.server.problem_types import ProblemType

UPLOADS = "/v1/optimizations"
SMALL_BYTES = 64 << 10
"""Largest body of a request other than an upload."""

_IDLE_SECONDS = 60.0
_DRAINED_BYTES = 4 << 20
_DRAINED_SECONDS = 2.0


class Bodies:
    """Buffers small bodies before calling the application. After an early rejection it reads some of the
    remaining body, because closing a connection with unread bytes can discard the response.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one ASGI request."""
        if scope["type"] != "http" or not _has_body(scope):
            await self._app(scope, receive, send)
        elif scope["path"] == UPLOADS:
            body = _Body(scope, receive)
            await self._app(scope, body.receive, body.after(send))
        else:
            await self._small(scope, receive, send)

    async def _small(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = _Body(scope, receive)
        content = bytearray()
        try:
            while body.more:
                with anyio.fail_after(_IDLE_SECONDS):
                    message = await body.receive()
                if message["type"] != "http.request":
                    return
                content += message.get("body", b"")
                if len(content) > SMALL_BYTES:
                    detail = f"the body is limited to {SMALL_BYTES} bytes here; send models to {UPLOADS}"
                    await _refuse(ProblemType.UPLOAD_TOO_LARGE, detail, scope, body, send)
                    return
        except TimeoutError:
            await _refuse(ProblemType.SLOW, f"no data received for {_IDLE_SECONDS:g} s", scope, body, send)
            return
        first: Message | None = {"type": "http.request", "body": bytes(content), "more_body": False}

        async def replay() -> Message:
            nonlocal first
            if first is None:
                return await receive()
            message, first = first, None
            return message

        await self._app(scope, replay, send)


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


class _Body:
    """A body being received."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._expects_leave = "expect" in Headers(scope=scope)
        self._begun = False
        self.more = True

    async def receive(self) -> Message:
        message = await self._receive()
        self._begun = True
        self.more = message["type"] == "http.request" and bool(message.get("more_body", False))
        return message

    def after(self, send: Send) -> Send:
        """``send``, which first drains part of the body if the response is an error."""

        async def send_after(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                await self._drain()
            await send(message)

        return send_after

    async def _drain(self) -> None:
        """Reads part of the remaining body; none if the client still waits for ``100 Continue``."""
        if self._expects_leave and not self._begun:
            return
        taken = 0
        with anyio.move_on_after(_DRAINED_SECONDS):
            while self.more and taken < _DRAINED_BYTES:
                taken += len((await self.receive()).get("body", b""))


async def _refuse(type_: ProblemType, detail: str, scope: Scope, body: _Body, send: Send) -> None:
    response = Problem(type_, detail).response(Request(scope))
    await response(scope, body.receive, body.after(send))
