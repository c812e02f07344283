"""Middleware for HEAD: the response of GET without its content (RFC 9110, section 9.3.2)."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _AnsweredError(Exception):
    """Stops the route once the head of the response has been sent."""


class HeadRequests:
    """Passes HEAD to the routes as GET and stops them once the head of the response is known."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                raise _AnsweredError

        seen = {**scope, "method": "GET"}
        try:
            await self._app(seen, receive, send_head)
        except _AnsweredError:
            pass
        finally:
            scope.update({**seen, "method": "HEAD"})
