"""HTTP/1.1 as it is read from a connection, with a bound on all that is kept before somebody takes it."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 << 10
"""Most bytes of a head, of trailers, or between two pieces of a body (and what comes with the last)."""

_MOST_WAITING = 16


class BoundedHttp(HttpToolsProtocol):
    """The protocol of one connection, which ends when a client sends on without getting anywhere."""

    _idle_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Some bytes arrived; ends the connection when too many have since the last progress."""
        self._idle_bytes += len(data)
        super().data_received(data)
        if self._idle_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """Another request begins; raises ValueError, which ends the connection, when too many wait."""
        if len(self.pipeline) >= _MOST_WAITING:
            raise ValueError("too many requests at once")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head has arrived."""
        self._idle_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body has arrived."""
        self._idle_bytes = 0
        super().on_body(body)
