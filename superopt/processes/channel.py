"""Framed messages over a stream socket: eight bytes of length, then the message."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from contextlib import suppress

_LENGTH = struct.Struct("!Q")
_READ_BYTES = 1 << 18


class Channel:
    """One end of a socket pair; sending is thread-safe.

    ``closed`` is True once the other end has gone, or has announced a message of more than ``most`` bytes.
    """

    def __init__(self, connection: socket.socket, most: int | None = None) -> None:
        self.closed = False
        self._connection = connection
        self._most = most
        self._buffer = bytearray()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._connection.fileno()

    def send(self, message: bytes) -> None:
        """Sends a message; without effect if the other end has gone."""
        with self._sending, suppress(OSError):
            self._connection.sendall(_LENGTH.pack(len(message)))
            self._connection.sendall(message)

    def send_descriptor(self, descriptor: int) -> None:
        """Sends a file descriptor instead of messages, with one byte. Raises OSError."""
        socket.send_fds(self._connection, [b"\0"], [descriptor])

    def received(self, seconds: float | None = None) -> list[bytearray]:
        """The messages completed by one read, which waits at most so long (None: as long as it takes)."""
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            if not selector.select(None if seconds is None else max(0.0, seconds)):
                return []
        try:
            chunk = self._connection.recv(_READ_BYTES)
        except OSError:
            chunk = b""
        self.closed = not chunk
        self._buffer += chunk
        messages: list[bytearray] = []
        while len(self._buffer) >= _LENGTH.size and not self.closed:
            end = _LENGTH.size + int(_LENGTH.unpack_from(self._buffer)[0])
            self.closed = self._most is not None and end > self._most
            if len(self._buffer) < end or self.closed:
                break
            messages.append(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
        return messages

    def close(self) -> None:
        """Closes this end."""
        self._connection.close()
