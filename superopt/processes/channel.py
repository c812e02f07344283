"""Framed messages over a stream socket: eight bytes of length, then the message."""

from __future__ import annotations

import math
import select
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress

_LENGTH = struct.Struct("!Q")
_READ_BYTES = 1 << 18
_LONGEST_WAIT_SECONDS = 3600.0


class Channel:
    """One end of a socket pair; sending is thread-safe.

    ``closed`` is True once the other end has gone, or has announced a message of more than ``most`` bytes.
    """

    def __init__(self, connection: socket.socket, most: int | None = None) -> None:
        self.closed = False
        self._connection = connection
        self._most = most
        self._buffer = bytearray()
        self._messages: deque[bytearray] = deque()
        self._sending = threading.Lock()

    def send(self, message: bytes) -> None:
        """Sends a message. If the other end has gone, or does not read in time, both ends find the channel
        closed: part of a message cannot be taken back."""
        with self._sending:
            try:
                self._connection.sendall(_LENGTH.pack(len(message)))
                self._connection.sendall(message)
            except OSError:
                with suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)

    def send_descriptor(self, descriptor: int) -> None:
        """Sends a file descriptor instead of messages, with one byte. Raises OSError."""
        socket.send_fds(self._connection, [b"\0"], [descriptor])

    def next_message(self, seconds: float = math.inf) -> bytearray | None:
        """The next message; None if the channel is closed, or none comes within ``seconds``."""
        ends = time.monotonic() + seconds
        readable = select.poll()
        readable.register(self._connection, select.POLLIN)
        while not self._messages and not self.closed:
            left = max(0.0, ends - time.monotonic())
            if readable.poll(math.ceil(1000 * min(left, _LONGEST_WAIT_SECONDS))):
                self._read()
            elif not left:
                break
        return self._messages.popleft() if self._messages else None

    def _read(self) -> None:
        try:
            chunk = self._connection.recv(_READ_BYTES)
        except OSError:
            chunk = b""
        self.closed = not chunk
        self._buffer += chunk
        while len(self._buffer) >= _LENGTH.size and not self.closed:
            end = _LENGTH.size + int(_LENGTH.unpack_from(self._buffer)[0])
            self.closed = self._most is not None and end > self._most
            if len(self._buffer) < end or self.closed:
                break
            self._messages.append(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]

    def close(self) -> None:
        """Closes this end."""
        self._connection.close()
