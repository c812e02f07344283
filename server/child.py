"""A child process for work that may crash, hang or eat memory: started, watched, limited, ended by the
parent.

Parent and child talk over a socket in lines of JSON. To the child: the task, then perhaps ``"cancel"``. From
the child: ``{"progress": ...}`` any number of times, then ``{"result": ...}``, ``{"problem": ...}`` or, if it
may go better another time, ``{"again": ...}``. When the parent dies the socket closes and the child ends
itself at once, with everything it has started.

Time and memory are limited twice. The child is under limits of the system, which hold whatever it does and
whoever watches: an alarm, and its own memory (``RLIMIT_DATA``, without mapped files). The parent looks at the
resident memory of the child with all that it has started.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import psutil

from server.child_main import too_large, too_slow
from server.endings import Died, Done, Ending, Failed, Stopped
from server.problem_types import ProblemType
from substitution_db.records import JsonObject

_LOOK_SECONDS = 0.25
_LINE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use; ``grace_seconds`` is how long it may take to end after being told, ``niceness``
    how far its priority is lowered.
    """

    seconds: float
    bytes: int
    grace_seconds: float
    niceness: int = 0


def run_in_child(
    function: str,
    arguments: JsonObject,
    limits: Limits,
    *,
    on_progress: Callable[[JsonObject], None] = lambda _: None,
    wanted: Callable[[], bool] = lambda: True,
) -> Ending:
    """Calls ``function`` (``module:name``, see ``server.child_main``) in a new process.

    ``wanted`` is asked every quarter second; once it says no the child is told, and killed after the grace
    time. An exception from either callback kills the child.
    """
    with _Child(function, arguments, limits) as child:
        return _watch(child, limits, on_progress, wanted)


def _watch(
    child: _Child, limits: Limits, on_progress: Callable[[JsonObject], None], wanted: Callable[[], bool]
) -> Ending:
    started = time.monotonic()
    told: float | None = None
    while True:
        for message in child.messages(_LOOK_SECONDS):
            if "progress" in message:
                on_progress(_object(message["progress"]))
            elif told is not None:
                return Stopped()
            elif "result" in message:
                return Done(_object(message["result"]))
            elif "again" in message:
                return Died(_object(message["again"]))
            else:
                return Failed(_object(message["problem"]))
        if child.closed:
            return Stopped() if told is not None else child.how_it_ended()
        now = time.monotonic()
        if told is None and not wanted():
            child.tell("cancel")
            told = now
        if told is not None and now - told > limits.grace_seconds:
            return Stopped()
        if now - started > limits.seconds:
            return Failed(too_slow(limits.seconds))
        if child.resident_bytes() > limits.bytes:
            return Failed(too_large(limits.bytes))


class _Child:
    def __init__(self, function: str, arguments: JsonObject, limits: Limits) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "server.child_main", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_descriptor() else subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._buffer = b""
        self._limits = limits
        self.closed = False
        self.tell(
            {
                "function": function,
                "arguments": arguments,
                "seconds": limits.seconds,
                "bytes": limits.bytes,
                "niceness": limits.niceness,
            }
        )

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._socket.close()

    def tell(self, message: object) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def messages(self, seconds: float) -> list[JsonObject]:
        """The messages that have come, after waiting for the first for so long."""
        if not select.select([self._socket], [], [], seconds)[0]:
            return []
        try:
            received = self._socket.recv(1 << 16)
        except ConnectionResetError:
            received = b""
        self.closed = not received or len(self._buffer) > _LINE_BYTES
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        return [_object(json.loads(line)) for line in lines]

    def resident_bytes(self) -> int:
        try:
            process = psutil.Process(self._process.pid)
            return sum(_resident(p) for p in (process, *process.children(recursive=True)))
        except psutil.NoSuchProcess:
            return 0

    def how_it_ended(self) -> Ending:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return Died(ProblemType.JOB_CRASHED.document("it sent something that is no message"))
        if code == -signal.SIGALRM:
            return Failed(too_slow(self._limits.seconds))
        if code < 0:
            name = signal.Signals(-code).name
            return Died(ProblemType.JOB_CRASHED.document(f"the process was ended by {name}"))
        return Failed(ProblemType.JOB_INTERNAL.document(f"the process ended with {code}; its log says more"))


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _has_descriptor() -> bool:
    try:
        sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return False
    return True


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
