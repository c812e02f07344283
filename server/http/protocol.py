"""HTTP/1.1 connection protocol with a bound on the bytes buffered per connection.

A request that cannot be read gets a problem document, as those that can.
"""

from __future__ import annotations

import json

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from superopt.server.http.problems import MEDIA_TYPE
from superopt.server.problem_types import ProblemType

HEAD_BYTES = 64 << 10
"""Most bytes of a head, of trailers, or between two pieces of a body."""

_MOST_WAITING = 16


class BoundedHttp(HttpToolsProtocol):
    """The protocol of one connection; closes it when a client sends too much without making progress."""

    _idle_bytes = 0
    _refusal = "the request is not valid HTTP"

    def data_received(self, data: bytes) -> None:
        """Handles received bytes; closes the connection if too many arrive without progress."""
        self._idle_bytes += len(data)
        super().data_received(data)
        if self._idle_bytes > HEAD_BYTES and not self.transport.is_closing():
            self._refusal = f"the head of the request is larger than {HEAD_BYTES} bytes"
            self.send_400_response(self._refusal)

    def send_400_response(self, msg: str) -> None:
        """Answers with a problem document that says why, and closes the connection."""
        del msg  # the server's own says less
        body = json.dumps(ProblemType.BAD_REQUEST.document(self._refusal)).encode()
        head = (
            f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def on_message_begin(self) -> None:
        """Handles the start of a request. Raises ValueError, which closes the connection, if too many are
        pending.
        """
        if len(self.pipeline) >= _MOST_WAITING:
            self._refusal = f"more than {_MOST_WAITING} requests were sent before their answers"
            raise ValueError(self._refusal)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Handles the end of a head. Raises ValueError, which closes the connection, unless it names one host
        (RFC 9112, section 3.2).
        """
        self._idle_bytes = 0
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts != 1 and self.parser is not None and self.parser.get_http_version() == "1.1":
            self._refusal = f"expected one Host header, got {hosts}"
            raise ValueError(self._refusal)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Handles a piece of the body."""
        self._idle_bytes = 0
        super().on_body(body)
