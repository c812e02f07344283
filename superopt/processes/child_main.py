"""Main module of the child process of ``processes.child``: calls one function, reports progress and errors.

The parent sends the task (see ``task``), then optionally ``FINISH``, which sets ``finishing``, or any other
message, which cancels it. The child sends any number of ``{"progress": ...}``, then one answer:
``{"result": ...}``; ``{"error": {"kinds", "message"}}`` for a SuperoptError; ``{"without": "memory"}`` or
``"disk"``; ``{"broken": why, "trace": ...}`` for any other exception. These messages are JSON.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from superopt.errors import SuperoptError
from superopt.processes.channel import Channel
from superopt.processes.confinement import Confinement, depend_on_parent
from superopt.processes.garbage import not_collecting
from superopt.processes.logs import inherit

if TYPE_CHECKING:
    from superopt.processes.child import JsonObject


FINISH = b"finish"

finishing = threading.Event()
"""Set once the parent wants the result found so far; a task that can give one looks at it."""


class CancelledError(BaseException):
    """Raised by the progress callback when the parent requests the end. Not an Exception, so that work which
    handles its failures ends, too.
    """


class ChildFunction(Protocol):
    """A function that can be called in a child process; arguments, progress and result are JSON objects."""

    def __call__(self, arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
        """Does the work. Raises SuperoptError for user errors; must propagate CancelledError."""
        ...


class Parent:
    """The parent of this process: its messages are read in a thread. This process is killed when the parent
    has gone, on Linux even if it hangs in native code.
    """

    def __init__(self, channel: Channel) -> None:
        depend_on_parent()
        self.send = channel.send
        self.messages: SimpleQueue[bytearray] = SimpleQueue()
        threading.Thread(target=self._listen, args=(channel,), daemon=True).start()

    def _listen(self, channel: Channel) -> None:
        while (message := channel.next_message()) is not None:
            if bytes(message) == FINISH:
                finishing.set()
            else:
                self.messages.put(message)
        os.killpg(0, signal.SIGKILL)


def main(descriptor: int) -> NoReturn:
    """Runs the task received over the socket from the parent."""
    run_task(Channel(socket.socket(fileno=descriptor)))


def task(function: str, arguments: Mapping[str, object], confinement: Confinement) -> bytes:
    """The first message to a child: calls ``function`` (``module:name``) under the limits."""
    message = {"function": function, "arguments": arguments, "confinement": asdict(confinement)}
    return json.dumps(message).encode()


def run_task(channel: Channel) -> NoReturn:
    """Runs the task received over the channel in this process, a session leader, and ends it."""
    parent = Parent(channel)
    received = json.loads(parent.messages.get())
    Confinement(**received["confinement"]).enter()
    inherit()

    def progress(content: JsonObject) -> None:
        if not parent.messages.empty():
            raise CancelledError
        parent.send(json.dumps({"progress": content}).encode())

    parent.send(_answer(received["function"], received["arguments"], progress))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # without joining threads that the work left running


def resolve(name: str) -> Any:
    """The function that ``module:name`` names."""
    module, _, attribute = name.partition(":")
    with not_collecting():
        return getattr(importlib.import_module(module), attribute)


def _answer(function: str, arguments: JsonObject, progress: Callable[[JsonObject], None]) -> bytes:
    try:
        called = cast("ChildFunction", resolve(function))
        return json.dumps({"result": called(arguments, progress)}).encode()
    except CancelledError:
        answer: JsonObject = {"result": {}}
    except SuperoptError as error:
        kinds = [kind for kind in type(error).__mro__ if issubclass(kind, SuperoptError)]
        names = [f"{kind.__module__}:{kind.__qualname__}" for kind in kinds]
        answer = {"error": {"kinds": names, "message": str(error)}}
    except MemoryError:
        answer = {"without": "memory"}
    except Exception as error:  # noqa: BLE001 - told to the parent
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            answer = {"without": "disk"}
        else:
            answer = {"broken": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    return json.dumps(answer).encode()
