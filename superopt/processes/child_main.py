"""Main module of the child process of ``processes.child``: calls one function, reports progress and errors.

The last message is the answer: ``{"result": ...}``; ``{"error": {"kind", "message"}}`` for a SuperoptError;
``{"without": "memory"}`` or ``"disk"``; ``{"broken": why}`` for any other exception.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib
import json
import os
import resource
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from superopt.errors import SuperoptError
from superopt.processes.garbage import not_collecting
from superopt.processes.priority import lower_priority

if TYPE_CHECKING:
    from superopt.processes.child import JsonObject

_FIRST_TO_GO = 900
_GRACE_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1


class CancelledError(BaseException):
    """Raised by the progress callback when the parent requests the end. Not an Exception, so that work which
    handles its failures ends, too.
    """


class ChildFunction(Protocol):
    """A function that can be called in a child process; arguments, progress and result are JSON objects."""

    def __call__(self, arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
        """Does the work. Raises SuperoptError for user errors; must propagate CancelledError."""
        ...


def main(descriptor: int) -> None:
    """Runs the task received over the socket from the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent, which ends this process
    _volunteer_when_memory_is_short()
    with socket.socket(fileno=descriptor) as connection:
        stream = connection.makefile("rwb")
        line = stream.readline()
        if not line:
            return  # the parent died before it sent the task
        task = cast("JsonObject", json.loads(line))
        lower_priority(int(str(task["niceness"])))
        _confine(float(str(task["seconds"])), cast("int | None", task["bytes"]))
        cancelled = threading.Event()
        threading.Thread(target=_listen, args=(stream.readline, cancelled), daemon=True).start()

        def send(message: JsonObject) -> None:
            with contextlib.suppress(BrokenPipeError):  # the parent has died: end
                connection.sendall(json.dumps(message).encode() + b"\n")

        def progress(content: JsonObject) -> None:
            if cancelled.is_set():
                raise CancelledError
            send({"progress": content})

        send(_answer(str(task["function"]), cast("JsonObject", task["arguments"]), progress))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # without joining threads that the work left running


def resolve(name: str) -> ChildFunction:
    """The function that ``module:name`` names."""
    module, _, attribute = name.partition(":")
    with not_collecting():
        importlib.import_module(module)
    return cast("ChildFunction", getattr(importlib.import_module(module), attribute))


def _answer(function: str, arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
    try:
        return {"result": resolve(function)(arguments, progress)}
    except CancelledError:
        return {"result": {}}
    except SuperoptError as error:
        kind = type(error)
        return {"error": {"kind": f"{kind.__module__}:{kind.__qualname__}", "message": str(error)}}
    except MemoryError:
        return {"without": "memory"}
    except Exception as error:  # noqa: BLE001 - logged, and told to the parent
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return {"without": "disk"}
        traceback.print_exc()
        return {"broken": f"{type(error).__name__}: {error}"}


def _listen(readline: Callable[[], bytes], cancelled: threading.Event) -> None:
    while line := readline():
        if json.loads(line) == "cancel":
            cancelled.set()
    os.killpg(0, signal.SIGKILL)  # the parent has died


def _confine(seconds: float, limit: int | None) -> None:
    """Sets system limits: the process is killed after its time or when its parent dies, cannot allocate
    beyond its memory limit, and writes no core file.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_SECONDS)
    if limit is not None:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _volunteer_when_memory_is_short() -> None:
    """Makes Linux kill this process before the worker when memory runs out."""
    path = Path("/proc/self/oom_score_adj")
    if path.exists():
        path.write_text(str(_FIRST_TO_GO))
