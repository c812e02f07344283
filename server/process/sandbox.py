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
import threading
from contextlib import closing
from dataclasses import dataclass

from superopt.processes import child
from superopt.processes.channel import Channel
from superopt.processes.child import Returned
from superopt.processes.child_main import task
from superopt.processes.confinement import Confinement
from superopt.processes.supervised import Supervised
from superopt.server.problem_types import ProblemType, type_of
from superopt.server.process.child import Failed
from superopt.substitution_db.store.records import JsonObject

_WALL_PER_CPU = 6.0
"""Limit of wall-clock time as a multiple of the processor time."""

_PROGRAM = "superopt.server.process.sandbox_main"
_START_SECONDS = 60.0
_ANSWER_BYTES = 1 << 20
_OPEN_FILES = 64
_SENTENCE = 2000
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


def run_in_sandbox(function: str, arguments: JsonObject, bounds: Bounds) -> Returned | Failed:
    """Calls ``function`` (``module:name``, see ``superopt.processes.child_main``) in a fork. Thread-safe.

    Exceeding a limit or killing the process also counts as failure of the function.
    """
    seconds = bounds.seconds * _WALL_PER_CPU
    confinement = Confinement(seconds, bounds.seconds, bounds.bytes, 0, _OPEN_FILES, bounds.niceness)
    ours, theirs = socket.socketpair()
    with closing(Channel(ours, _ANSWER_BYTES)) as channel:
        with theirs:
            _prepared.send(theirs.fileno())
        channel.send(task(function, arguments, confinement))
        ending = _ending(channel.next_message(_START_SECONDS + seconds))
    match ending:
        case Returned():
            return ending
        case child.Raised():
            error = ending.error()
            return Failed(type_of(error).document(str(error)[:_SENTENCE]))
        case child.Broken(reason) if (kind := reason.partition(":")[0]) != "RecursionError":
            # a model that breaks its reader is refused, not a failure here
            return Failed(ProblemType.JOB_MODEL.document(f"reading it failed: {kind}"))
        case _:
            detail = (
                f"reading it exceeded {bounds.seconds:g} s or {bounds.bytes >> 20} MiB, "
                "or crashed the reading process"
            )
            _log.warning("%s: %s", function, detail)
            return Failed(ProblemType.COSTLY.document(detail))


def _ending(answer: bytearray | None) -> child.Ending:
    try:
        return child.OutOfTime() if answer is None else child.ending_of(json.loads(answer))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return child.Stopped()


class _Prepared:
    """The fork server: started on first use, restarted when it has died, and ended with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: Supervised | None = None

    def start(self) -> Supervised:
        with self._lock:
            if self._server is None or self._server.exit_code(0) is not None:
                self._end()
                self._server = Supervised(_PROGRAM, stdout=subprocess.DEVNULL)
            return self._server

    def send(self, descriptor: int) -> None:
        server = self.start()
        try:
            server.channel.send_descriptor(descriptor)
        except OSError:
            with self._lock:
                if self._server is server:  # no other thread has replaced it
                    self._end()
            self.start().channel.send_descriptor(descriptor)

    def end(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._server is not None:
            self._server.end()
        self._server = None


_prepared = _Prepared()
atexit.register(_prepared.end)
