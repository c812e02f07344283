"""What the process of a job does in tests of ``superopt.journeys.supervision``: hang, crash, fail, answer."""

# ruff: noqa: ARG001

from __future__ import annotations

import ctypes
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

from superopt.errors import InvalidOptionError
from superopt.files import atomic_path
from superopt.processes.child_main import finishing

Json = dict[str, object]
Progress = Callable[[Json], None]


def loop(arguments: Json, progress: Progress) -> Json:
    """Computes for ever, and reports only once."""
    progress({"phase": "search", "candidates": 7, "cost_before": 2.5, "best_cost": 2.5, "seconds": 0.5})
    number = 0
    while True:
        number += 1


def hang_with_the_lock(arguments: Json, progress: Progress) -> Json:
    """Never comes back from a native call that holds the interpreter's lock."""
    ctypes.PyDLL(None).pause()
    return {}


def crash(arguments: Json, progress: Progress) -> Json:
    """Dies as a native library does."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def have_a_bug(arguments: Json, progress: Progress) -> Json:
    """Fails as no code should."""
    raise ZeroDivisionError("a bug")


def refuse(arguments: Json, progress: Progress) -> Json:
    """Says that an option is wrong."""
    raise InvalidOptionError("target: expected cpu or cuda, got abacus")


def leave_files(arguments: Json, progress: Progress) -> Json:
    """Says where its temporary files are, and dies with them there."""
    handle, name = tempfile.mkstemp()
    os.close(handle)
    progress({"file": name})
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def read(arguments: Json, progress: Progress) -> Json:
    """Says how many bytes the model has, and who it is."""
    size = Path(str(arguments["model"])).stat().st_size
    progress({"bytes": size, "pid": os.getpid()})
    return {"report": {"why": f"{size} bytes"}}


def hang_while_writing(arguments: Json, progress: Progress) -> Json:
    """Never finishes the file that it writes beside the model."""
    with atomic_path(Path(str(arguments["output"]))) as part, part.open("wb") as file:
        file.write(b"half of it")
        file.flush()
        signal.pause()
    return {}


def say_and_hang_while_writing(arguments: Json, progress: Progress) -> Json:
    """Says where the file is that it writes beside the model, and never finishes it."""
    with atomic_path(Path(str(arguments["output"]))) as part:
        progress({"part": str(part)})
        signal.pause()
    return {}


def wait_for_the_end(arguments: Json, progress: Progress) -> Json:
    """Works until it is asked for what it has."""
    progress({})
    finishing.wait()
    return {"report": {"why": "asked for what there is"}}


def fail_in_a_body(arguments: Json, progress: Progress) -> Json:
    """Has a bug in the body of a loop, and returns the rest."""
    body = {"path": "Loop_1/body", "why": "internal error, please report it: ZeroDivisionError: a bug"}
    return {"report": {"why": "faster", "bodies": [body]}}


def write(arguments: Json, progress: Progress) -> Json:
    """Writes into the output, whatever that is."""
    Path(str(arguments["output"])).write_bytes(b"written")
    return {"report": {"why": ""}}


def hang_at_a_page(arguments: Json, progress: Progress) -> Json:
    """Writes the model and the first report, and never comes back from the second."""
    _write_the_model_and_a_report(arguments, progress)
    signal.pause()
    return {}


def crash_at_a_page(arguments: Json, progress: Progress) -> Json:
    """Writes the model and the first report, and dies at the second."""
    _write_the_model_and_a_report(arguments, progress)
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def fail_at_a_page(arguments: Json, progress: Progress) -> Json:
    """Writes the model and the first report, and finds no room for the second."""
    _write_the_model_and_a_report(arguments, progress)
    raise InvalidOptionError("report.html: cannot be written: no room")


def _write_the_model_and_a_report(arguments: Json, progress: Progress) -> None:
    Path(str(arguments["output"])).write_bytes(b"optimised")
    progress({"finished": {"report": {"why": "faster"}, "text": "returned  optimized: faster\n"}})
    reports = arguments["reports"]
    assert isinstance(reports, list)
    Path(str(reports[0])).write_bytes(b"{}")
    progress({"reported": reports[0]})


def accuse_and_crash(arguments: Json, progress: Progress) -> Json:
    """Says that a rule changed outputs, and dies."""
    rule, equation = str(arguments["rule"]), "relu(relu(x)) => relu(x)"
    accused = {"rule": rule, "equation": equation, "difference": "output y: NaN", "report": {"trace": []}}
    progress({"known": {"suspects": [accused]}})
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def build_step_and_die(arguments: Json, progress: Progress) -> Json:
    """Dies after the training step is built."""
    from superopt.journeys import optimize_job  # takes long, and the others have little time

    def tell(message: Json) -> None:
        progress(message)
        if "original" in cast("Json", message.get("known", {})):
            os.kill(os.getpid(), signal.SIGSEGV)

    optimize_job.optimized(arguments, tell)
    return {}
