"""A child process for work that may crash, hang or eat memory: started, watched, limited, ended by the
parent.

Parent and child talk over a socket in lines of JSON. To the child: the task, then perhaps ``"cancel"``. From
the child: ``{"progress": ...}`` any number of times, then one answer (see ``child_main``). When the
parent dies the socket closes and the child ends itself at once, with everything it has started.

Time and memory are limited twice. The child is under limits of the system, which hold whatever it does and
whoever watches: an alarm, and its own memory (``RLIMIT_DATA``, without mapped files). The parent looks at the
resident memory of the child with all that it has started.

Only what starts fast is imported here: the parent may have nothing else to do than to wait.
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
"""A child finds its modules where the parent does, and none in the directory where it happens to be."""

_LOOK_SECONDS = 0.25
_LINE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """What a child may use; ``grace_seconds`` is how long it may take to end after being told, ``niceness``
    how far its priority is lowered. Without ``bytes`` its memory is not limited.
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
    """The function raised an error of superopt; ``kind`` is its class, as ``module:name``."""

    kind: str
    message: str

    def error(self) -> SuperoptError:
        """The error, to be raised here."""
        module, _, name = self.kind.partition(":")
        kind = cast("type[SuperoptError]", getattr(import_module(module), name))
        error = kind.__new__(kind)
        Exception.__init__(error, self.message)
        return error


@dataclass(frozen=True, slots=True)
class Broken:
    """The function raised what no function should, or the process ended without an answer; its log says
    more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Killed:
    """A signal ended the process, as a native library that crashes or a system without memory does."""

    signal: str


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """It did not end within its seconds; ``files`` were open for writing then, as far as that is known."""

    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """It asked for more than its bytes."""


@dataclass(frozen=True, slots=True)
class OutOfDisk:
    """There was no disk left for what it writes."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The parent wanted it to end, and it has."""


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

    ``wanted`` is asked every quarter second; once it says no the child is told, and killed after the grace
    time. An exception from either callback kills the child. What the child prints goes to the descriptor
    ``stdout``, without one where errors go; it has the ``descriptors``, too. ``environment`` is added to that
    of the parent.
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
    """A child process, killed with all that it has started when the block ends."""

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
        """Of the child with all that it has started."""
        try:
            process = psutil.Process(self._process.pid)
            return sum(_resident(p) for p in (process, *process.children(recursive=True)))
        except psutil.NoSuchProcess:
            return 0

    def written_files(self) -> tuple[str, ...]:
        """The files that the child has open for writing."""
        try:
            files = psutil.Process(self._process.pid).open_files()
        except (psutil.Error, OSError):
            return ()
        return tuple(file.path for file in files if getattr(file, "mode", "w") != "r")

    def how_it_ended(self) -> Ending:
        """Why the socket was closed without an answer."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return Killed("its parent: it sent something that is no message")
        if code == -signal.SIGALRM:
            return OutOfTime()
        return Killed(signal.Signals(-code).name) if code < 0 else Broken(f"the process ended with {code}")


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _printed() -> int:
    """Where errors go, if that is a file."""
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return subprocess.DEVNULL


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
