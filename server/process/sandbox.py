"""Sandbox: calls a function in a fork with limits on memory and time and without writing files.

The fork server has imported what the functions need and holds no request data; a fork starts in milliseconds.
Results are JSON, so that a compromised fork can return nothing but a document.
"""

from __future__ import annotations

import atexit
import json
import logging
import socket
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from typing import cast

from superopt.server.problem_types import ProblemType
from superopt.server.process.endings import Done, Failed
from superopt.substitution_db.store.records import JsonObject

WALL_PER_CPU = 6.0
"""Limit of wall-clock time as a multiple of the processor time."""

_START_SECONDS = 60.0
_ANSWER_BYTES = 1 << 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a fork: processor time in seconds, private memory in bytes, niceness added."""

    seconds: float
    bytes: int
    niceness: int = 0


def prepare() -> None:
    """Starts the fork server if it is not running; does not wait until it is ready."""
    _prepared.start()


def run_in_sandbox(function: str, arguments: JsonObject, bounds: Bounds) -> Done | Failed:
    """Calls ``function`` (``module:name``, JSON to JSON) in a fork. Thread-safe.

    Exceeding a limit or killing the process also counts as failure of the function.
    """
    task = {"function": function, "arguments": arguments, **asdict(bounds)}
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            _prepared.send(json.dumps(task).encode(), theirs.fileno())
        ours.settimeout(_START_SECONDS + bounds.seconds * WALL_PER_CPU)
        answer = _received(ours)
    if answer is None:
        detail = (
            f"reading it exceeded {bounds.seconds:g} s or {bounds.bytes >> 20} MiB, "
            "or crashed the reading process"
        )
        _log.warning("%s: %s", function, detail)
        return Failed(ProblemType.COSTLY.document(detail))
    return answer


def _received(connection: socket.socket) -> Done | Failed | None:
    received = bytearray()
    try:
        while chunk := connection.recv(1 << 16):
            received += chunk
            if len(received) > _ANSWER_BYTES:
                return None
        message = cast("JsonObject", json.loads(received))
    except (OSError, ValueError, RecursionError):
        return None
    if "result" in message:
        return Done(cast("JsonObject", message["result"]))
    if "trace" in message:
        _log.error("%s", message["trace"])
    return Failed(cast("JsonObject", message["problem"]))


class _Prepared:
    """The fork server: started on first use, restarted when it has died, and ended with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> socket.socket:
        with self._lock:
            if self._socket is None or self._process is None or self._process.poll() is not None:
                self._end()
                self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    self._process = subprocess.Popen(
                        [sys.executable, "-m", "superopt.server.process.sandbox_main", str(theirs.fileno())],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        pass_fds=[theirs.fileno()],
                        start_new_session=True,
                    )
            return self._socket

    def send(self, task: bytes, descriptor: int) -> None:
        try:
            socket.send_fds(self.start(), [task], [descriptor])
        except (BrokenPipeError, ConnectionResetError):
            self.end()
            socket.send_fds(self.start(), [task], [descriptor])

    def end(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.wait()
        self._socket = self._process = None


_prepared = _Prepared()
atexit.register(_prepared.end)
