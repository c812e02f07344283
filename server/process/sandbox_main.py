"""Main module of the fork server of ``server.process.sandbox``; forks once per task, under limits."""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from superopt.errors import SuperoptError
from superopt.processes.child_main import resolve
from superopt.processes.priority import lower_priority
from superopt.server.problem_types import ProblemType, type_of
from superopt.server.process.sandbox import WALL_PER_CPU
from superopt.server.worker import inspection

if TYPE_CHECKING:
    from superopt.substitution_db.store.records import JsonObject

PREPARED = (inspection,)
"""Modules imported before the first fork."""

_TASK_BYTES = 1 << 16
_SENTENCE = 2000
_OPEN_FILES = 64


def main(descriptor: int) -> None:
    """Forks for each task until the other end of the socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended forks are reaped by the kernel
    gc.freeze()  # a garbage collection in a fork would touch, and so copy, all imported objects
    with socket.socket(fileno=descriptor) as tasks:
        while True:
            task, descriptors, _, _ = socket.recv_fds(tasks, _TASK_BYTES, 1)
            if not task:
                return
            answers = socket.socket(fileno=descriptors[0])
            if os.fork() == 0:
                tasks.close()
                _do(cast("JsonObject", json.loads(task)), answers)
            answers.close()


def _do(task: JsonObject, answers: socket.socket) -> None:
    try:
        os.setsid()
        lower_priority(int(str(task["niceness"])))
        _confine(float(str(task["seconds"])), int(str(task["bytes"])))
        function = cast("Callable[[JsonObject], JsonObject]", resolve(str(task["function"])))
        answers.sendall(json.dumps(_answer(function, cast("JsonObject", task["arguments"]))).encode())
    finally:
        os._exit(0)


def _answer(function: Callable[[JsonObject], JsonObject], arguments: JsonObject) -> JsonObject:
    try:
        return {"result": function(arguments)}
    except SuperoptError as error:
        return {"problem": type_of(error).document(str(error)[:_SENTENCE])}
    except (MemoryError, RecursionError) as error:
        return {
            "problem": ProblemType.COSTLY.document(f"reading it exceeded a limit: {type(error).__name__}")
        }
    except Exception as error:  # noqa: BLE001 - a model that breaks its reader is refused, not a failure here
        problem = ProblemType.JOB_MODEL.document(f"reading it failed: {type(error).__name__}")
        return {"problem": problem, "trace": traceback.format_exc()[-_SENTENCE:]}


def _confine(seconds: float, own_bytes: int) -> None:
    """Sets the resource limits of this process; exceeding the time limit kills it."""
    limit = max(1, round(seconds))
    signal.setitimer(signal.ITIMER_REAL, seconds * WALL_PER_CPU)
    for kind, value in (
        (resource.RLIMIT_CPU, limit),
        (resource.RLIMIT_DATA, own_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    ):
        resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    main(int(sys.argv[1]))
