"""What runs in the child process of ``server.child``: one function, with progress, cancelling and named
errors.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from server.problem_types import ProblemType, type_of
from superopt.errors import SuperoptError

if TYPE_CHECKING:
    from substitution_db.records import JsonObject

_FIRST_TO_GO = 900


class CancelledError(Exception):
    """Raised by the progress callback when the parent wants the work to end."""


class ChildFunction(Protocol):
    """What can be called in a child process; arguments, progress and result are JSON objects."""

    def __call__(self, arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
        """Does the work; raises SuperoptError for what the user did wrong, lets CancelledError pass."""
        ...


def main(descriptor: int) -> None:
    """Serves the parent at the other end of the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    _volunteer_when_memory_is_short()
    with socket.socket(fileno=descriptor) as connection:
        stream = connection.makefile("rwb")
        task = cast("JsonObject", json.loads(stream.readline()))
        cancelled = threading.Event()
        threading.Thread(target=_listen, args=(stream.readline, cancelled), daemon=True).start()

        def send(message: JsonObject) -> None:
            connection.sendall(json.dumps(message).encode() + b"\n")

        def progress(content: JsonObject) -> None:
            if cancelled.is_set():
                raise CancelledError
            send({"progress": content})

        send(_answer(resolve(str(task["function"])), cast("JsonObject", task["arguments"]), progress))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # without waiting for threads that the work left behind


def resolve(name: str) -> ChildFunction:
    """The function that ``module:name`` names."""
    module, _, attribute = name.partition(":")
    return cast("ChildFunction", getattr(importlib.import_module(module), attribute))


def _answer(
    function: ChildFunction, arguments: JsonObject, progress: Callable[[JsonObject], None]
) -> JsonObject:
    try:
        return {"result": function(arguments, progress)}
    except CancelledError:
        return {"result": {}}
    except SuperoptError as error:
        return {"problem": type_of(error).document(str(error))}
    except MemoryError:
        return {"problem": ProblemType.JOB_MEMORY.document("the machine has no more memory")}


def _listen(readline: Callable[[], bytes], cancelled: threading.Event) -> None:
    while line := readline():
        if json.loads(line) == "cancel":
            cancelled.set()
    os.killpg(0, signal.SIGKILL)  # the parent is gone


def _volunteer_when_memory_is_short() -> None:
    """Linux ends this process before the worker when memory runs out."""
    path = Path("/proc/self/oom_score_adj")
    if path.exists():
        path.write_text(str(_FIRST_TO_GO))


if __name__ == "__main__":
    main(int(sys.argv[1]))
