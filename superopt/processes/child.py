"""Child processes for work that may crash, hang or exhaust memory, with limits enforced by the parent.

Time and memory are limited twice: by system limits of the child, which hold even if the parent is stuck
(``processes.confinement``), and by the parent, which monitors the resident memory of the child and its
descendants.

Only small modules are imported here, so that a parent that only waits starts fast.
"""

from __future__ import annotations

import json
import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

from superopt.errors import SuperoptError
from superopt.files import remove_unfinished
from superopt.processes.child_main import FINISH, task
from superopt.processes.confinement import Confinement
from superopt.processes.supervised import Supervised

JsonObject: TypeAlias = "dict[str, object]"

_PROGRAM = "superopt.processes.child_main"
_LOOK_SECONDS = 0.25
_GRACE_SECONDS = 5.0
_END_SECONDS = 5.0
_MESSAGE_BYTES = 64 << 20
_log = logging.getLogger(__name__)


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
    """The function raised a SuperoptError; ``kinds`` are its class and the bases, as ``module:name``."""

    kinds: tuple[str, ...]
    message: str

    def error(self) -> SuperoptError:
        """The error as an exception, to be raised here; of the first kind that this process knows."""
        known = {f"{kind.__module__}:{kind.__qualname__}": kind for kind in _with_subclasses(SuperoptError)}
        kind = next((known[name] for name in self.kinds if name in known), SuperoptError)
        error = kind.__new__(kind)
        Exception.__init__(error, self.message)
        return error


@dataclass(frozen=True, slots=True)
class Broken:
    """The function raised another exception, or the process ended without an answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class Killed:
    """The process was killed by a signal, for example by a crash of native code or lack of memory."""

    signal: str


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """The time limit passed."""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """The memory limit was exceeded."""


@dataclass(frozen=True, slots=True)
class OutOfDisk:
    """The disk was full."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The process ended at the request of its parent."""


_INVALID = Killed("its parent: it sent an invalid message")
_TRACE_CHARACTERS = 2000

Ending: TypeAlias = "Returned | Raised | Broken | Killed | OutOfTime | OutOfMemory | OutOfDisk | Stopped"


def run_in_child(
    function: str,
    arguments: Mapping[str, object],
    limits: ResourceLimits,
    *,
    on_progress: Callable[[JsonObject], None] = lambda _: None,
    wanted: Callable[[], bool] = lambda: True,
    finish: Callable[[], bool] = lambda: False,
    writes: Sequence[Path] = (),
    stdout: int | None = None,
    stderr: int | None = None,
    descriptors: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> Ending:
    """Calls ``function`` (``module:name``, see ``superopt.processes.child_main``) in a new process.

    ``wanted`` is polled every quarter second; once it returns False the child is told to end, and killed
    after the grace time. Once ``finish`` returns True the child is asked for the result found so far. An
    exception from a callback kills the child. ``writes`` are files that the function writes atomically: what
    it leaves unfinished is removed. ``stdout``, ``stderr``, ``descriptors`` and ``environment`` are those of
    ``Supervised``. The trace of an unexpected exception is logged.
    """
    confinement = Confinement(limits.seconds + _GRACE_SECONDS, bytes=limits.bytes, niceness=limits.niceness)
    with Supervised(
        _PROGRAM,
        function,
        stdout=stdout,
        stderr=stderr,
        descriptors=descriptors,
        environment=environment,
        most=_MESSAGE_BYTES,
    ) as child:
        try:
            child.channel.send(task(function, arguments, confinement))
            return _watch(child, limits, on_progress, wanted, finish)
        finally:
            child.end()
            for path in writes:
                remove_unfinished(path, child.pid)


def result_of(ending: Ending, otherwise: Callable[[], SuperoptError]) -> JsonObject:
    """What the function returned. Raises the error that it raised, that of ``otherwise`` after any other
    ending."""
    if isinstance(ending, Raised):
        raise ending.error()
    if not isinstance(ending, Returned):
        raise otherwise()
    return ending.result


def _watch(
    child: Supervised,
    limits: ResourceLimits,
    on_progress: Callable[[JsonObject], None],
    wanted: Callable[[], bool],
    finish: Callable[[], bool],
) -> Ending:
    ends = child.started + limits.seconds
    told: float | None = None
    looked, is_finishing = child.started, False
    while True:
        message = child.channel.next_message(min(_LOOK_SECONDS, ends - time.monotonic()))
        if message is not None:
            content = _decoded(message)
            progress = _object(content.get("progress"))
            if progress is None:
                return Stopped() if told is not None else ending_of(content)
            on_progress(progress)
        elif child.channel.closed:
            return Stopped() if told is not None else _ending_without_answer(child.exit_code(_END_SECONDS))
        now = time.monotonic()
        is_due = now - looked >= _LOOK_SECONDS
        looked = now if is_due else looked
        if is_due and told is None and not wanted():
            child.channel.send(b"cancel")
            told = now
        if is_due and not is_finishing and finish():
            child.channel.send(FINISH)
            is_finishing = True
        if told is not None and now - told > limits.grace_seconds:
            return Stopped()
        if now >= ends:
            return OutOfTime()
        if is_due and limits.bytes is not None and child.resident_bytes() > limits.bytes:
            return OutOfMemory()


def ending_of(answer: JsonObject) -> Ending:
    """The ending that the answer of a child says (see ``superopt.processes.child_main``), which may hold
    anything if the child was taken over by its input."""
    result, error, reason = _object(answer.get("result")), _object(answer.get("error")), answer.get("broken")
    if result is not None:
        return Returned(result)
    if error is not None and isinstance(error.get("kinds"), list):
        return Raised(tuple(map(str, cast("list[object]", error["kinds"]))), str(error.get("message")))
    if "without" in answer:
        return OutOfDisk() if answer["without"] == "disk" else OutOfMemory()
    if not isinstance(reason, str):
        return _INVALID
    _log.error("%s", str(answer.get("trace"))[-_TRACE_CHARACTERS:])
    return Broken(reason)


def _decoded(message: bytearray) -> JsonObject:
    try:
        return _object(json.loads(message)) or {}
    except (ValueError, RecursionError):
        return {}


def _object(value: object) -> JsonObject | None:
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _ending_without_answer(code: int | None) -> Ending:
    if code is None:
        return _INVALID
    if code == -signal.SIGALRM:
        return OutOfTime()
    return Killed(_signal_name(-code)) if code < 0 else Broken(f"the process ended with {code}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _with_subclasses(kind: type[SuperoptError]) -> Iterator[type[SuperoptError]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _with_subclasses(subclass)
