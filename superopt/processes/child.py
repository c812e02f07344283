"""Child processes for work that may crash, hang or exhaust memory, with limits enforced by the parent.

Parent and child exchange JSON lines over a socket. To the child: the task, then optionally ``"cancel"``. From
the child: any number of ``{"progress": ...}``, then one answer (see ``child_main``). When the parent dies,
the socket closes and the child ends at once, with all of its descendants.

Time and memory are limited twice. The child has system limits, which hold even if the parent is stuck: an
alarm, and its private memory (``RLIMIT_DATA``, without mapped files). The parent monitors the resident memory
of the child and its descendants.

Only small modules are imported here, so that a parent that only waits starts fast.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TypeAlias, cast

import psutil

from superopt.errors import SuperoptError

JsonObject: TypeAlias = "dict[str, object]"

_START = (
    "import os, sys; sys.path[:] = dict.fromkeys([*sys.argv[1].split(os.pathsep), *sys.path]); "
    "from superopt.processes.child_main import main; main(int(sys.argv[2]))"
)
"""The child's import path is the parent's, without its current directory."""

_LOOK_SECONDS = 0.25
_LINE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Limits of a child: seconds, bytes of memory (None: unlimited), ``grace_seconds`` to end after being
    told to, ``niceness`` added.
    """

    seconds: float
    bytes: int | None = None
    grace_seconds: float = 0.0
    niceness: int = 0


@dataclass(frozen=True, slots=True)
class Returned:
    """The function returned."""

    result: JsonObject


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised a SuperoptError; ``kind`` is its class as ``module:name``."""

    kind: str
    message: str

    def error(self) -> SuperoptError:
        """The error as an exception, to be raised here."""
        module, _, name = self.kind.partition(":")
        kind = cast("type[SuperoptError]", getattr(import_module(module), name))
        error = kind.__new__(kind)
        Exception.__init__(error, self.message)
        return error


@dataclass(frozen=True, slots=True)
class Broken:
    """The function raised another exception, or the process ended without an answer; see its log."""

    reason: str


@dataclass(frozen=True, slots=True)
class Killed:
    """The process was killed by a signal, for example by a crash of native code or lack of memory."""

    signal: str


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """The time limit passed; ``files`` are those known to have been open for writing then."""

    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """The memory limit was exceeded."""


@dataclass(frozen=True, slots=True)
class OutOfDisk:
    """The disk was full."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The process ended at the request of its parent."""


Ending: TypeAlias = "Returned | Raised | Broken | Killed | OutOfTime | OutOfMemory | OutOfDisk | Stopped"


def run_in_child(
    function: str,
    arguments: Mapping[str, object],
    limits: ResourceLimits,
    *,
    on_progress: Callable[[JsonObject], None] = lambda _: None,
    wanted: Callable[[], bool] = lambda: True,
    stdout: int | None = None,
    descriptors: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> Ending:
    """Calls ``function`` (``module:name``, see ``superopt.processes.child_main``) in a new process.

    ``wanted`` is polled every quarter second; once it returns False the child is told to end, and killed
    after the grace time. An exception from either callback kills the child. The child's standard output goes
    to the descriptor ``stdout``, by default to standard error; it inherits ``descriptors``. ``environment``
    is added to that of the parent.
    """
    with Child(function, arguments, limits, stdout, descriptors, environment or {}) as child:
        return _watch(child, limits, on_progress, wanted)


def _watch(
    child: Child,
    limits: ResourceLimits,
    on_progress: Callable[[JsonObject], None],
    wanted: Callable[[], bool],
) -> Ending:
    ends = child.started + limits.seconds
    told: float | None = None
    while True:
        for message in child.messages(min(_LOOK_SECONDS, max(0.0, ends - time.monotonic()))):
            if "progress" in message:
                on_progress(_object(message["progress"]))
            else:
                return Stopped() if told is not None else _answer(message)
        if child.closed:
            return Stopped() if told is not None else child.how_it_ended()
        now = time.monotonic()
        if told is None and not wanted():
            child.tell("cancel")
            told = now
        if told is not None and now - told > limits.grace_seconds:
            return Stopped()
        if now >= ends:
            return OutOfTime(child.written_files())
        if limits.bytes is not None and child.resident_bytes() > limits.bytes:
            return OutOfMemory()


def _answer(message: JsonObject) -> Ending:
    if "result" in message:
        return Returned(_object(message["result"]))
    if "error" in message:
        error = _object(message["error"])
        return Raised(str(error["kind"]), str(error["message"]))
    if message.get("without") == "disk":
        return OutOfDisk()
    return OutOfMemory() if "without" in message else Broken(str(message.get("broken")))


class Child:
    """A child process, killed with all of its descendants at the end of the block."""

    def __init__(
        self,
        function: str,
        arguments: Mapping[str, object],
        limits: ResourceLimits,
        stdout: int | None,
        descriptors: Sequence[int],
        environment: Mapping[str, str],
    ) -> None:
        self.started = time.monotonic()
        self._socket, theirs = socket.socketpair()
        paths = os.pathsep.join(sys.path)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, paths, str(theirs.fileno()), function],
                stdin=subprocess.DEVNULL,
                stdout=_printed() if stdout is None else stdout,
                pass_fds=[theirs.fileno(), *descriptors],
                env={**os.environ, **environment},
                start_new_session=True,
            )
        self._buffer = b""
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

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._socket.close()

    def tell(self, message: object) -> None:
        """Sends a message."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def messages(self, seconds: float) -> list[JsonObject]:
        """The messages received, after waiting up to ``seconds`` for the first."""
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
        """Resident memory of the child and its descendants in bytes."""
        try:
            process = psutil.Process(self._process.pid)
            return sum(_resident(p) for p in (process, *process.children(recursive=True)))
        except psutil.NoSuchProcess:
            return 0

    def written_files(self) -> tuple[str, ...]:
        """The files that the child and its descendants have open for writing."""
        try:
            files = psutil.Process(self._process.pid).open_files()
        except (psutil.Error, OSError):
            return ()
        return tuple(file.path for file in files if getattr(file, "mode", "w") != "r")

    def how_it_ended(self) -> Ending:
        """The outcome after the socket closed without an answer."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return Killed("its parent: it sent an invalid message")
        if code == -signal.SIGALRM:
            return OutOfTime()
        return Killed(signal.Signals(-code).name) if code < 0 else Broken(f"the process ended with {code}")


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _printed() -> int:
    """Standard error's descriptor, if it is a file."""
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return subprocess.DEVNULL


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
