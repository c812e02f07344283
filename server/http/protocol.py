"""HTTP/1.1 connection protocol with a bound on the bytes buffered per connection."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 << 10
"""Most bytes of a head, of trailers, or between two pieces of a body."""

_MOST_WAITING = 16


class BoundedHttp(HttpToolsProtocol):
    """The protocol of one connection; closes it when a client sends too much without making progress."""

    _idle_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Handles received bytes; closes the connection if too many arrive without progress."""
        self._idle_bytes += len(data)
        super().data_received(data)
        if self._idle_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """Handles the start of a request. Raises ValueError, which closes the connection, if too many are
        pending.
        """
        if len(self.pipeline) >= _MOST_WAITING:
            raise ValueError("too many pipelined requests")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Handles the end of a head."""
        self._idle_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Handles a piece of the body."""
        self._idle_bytes = 0
        super().on_body(body)
