"""Functions that child processes run in tests of the worker (see ``server.worker.work.OptimizeFile``)."""

# ruff: noqa: ARG001

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from superopt.errors import INTERNAL_ERROR, InvalidOptionError, MissingServiceError
from superopt.processes.child import ResourceLimits, run_in_child
from superopt.processes.logs import only_about
from superopt.substitution_db.store.engine import DatabaseUnavailableError

Json = Mapping[str, object]
Progress = Callable[[Json], None]


def log_from_below(arguments: Json, progress: Progress) -> Json:
    """Logs in this process and in a child of it."""
    only_about(str(arguments["job"]))
    log_here(arguments, progress)
    run_in_child("tests.server.work_functions:log_here", {"line": "below"}, ResourceLimits(60.0))
    return {}


def log_here(arguments: Json, progress: Progress) -> Json:
    """Logs a line."""
    logging.getLogger("test").warning("%s", arguments["line"])
    return {}


def copy(model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress) -> Json:
    """Gives the model back, with three reports of progress."""
    for candidates in range(3):
        progress({"stage": "search", "candidates": candidates})
        time.sleep(0.3)
    sys.stdout.write("a library prints this\n")
    shutil.copyfile(model_path, output_path)
    cluster = options.get("cluster")
    report: dict[str, object] = {
        "schema": 1,
        "options": dict(options),
        "database": bool(database_url),
        "returned": "original",
    }
    report["model"] = {"name": model_path.name}
    return report | ({"cluster": Path(str(cluster)).read_text()} if cluster else {})


def external(
    model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress
) -> Json:
    """Gives the model back with its external data."""
    shutil.copytree(model_path.parent, output_path.parent, dirs_exist_ok=True)
    return {"schema": 1}


def break_down(
    model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress
) -> Json:
    """Gives the model back with a report of an internal error."""
    shutil.copyfile(model_path, output_path)
    return {"schema": 1, "returned": "original", "why": f"{INTERNAL_ERROR}: KeyError: 5"}


def wait_until_cancelled(
    model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress
) -> Json:
    """Never ends by itself, but asks whether it should."""
    while True:
        progress({"stage": "search"})
        time.sleep(0.02)


def complain_of_failures(
    model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress
) -> Json:
    """Waits until it is cancelled, and says so of what it takes for a failure."""
    try:
        return wait_until_cancelled(model_path, output_path, options, database_url, progress)
    except Exception:
        sys.stderr.write("it failed\n")
        raise


def hang(model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress) -> Json:
    """Never ends, and never asks."""
    progress({"pid": os.getpid()})
    while True:
        time.sleep(1)


def eat_memory(
    model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress
) -> Json:
    """Takes more and more memory."""
    taken: list[bytes] = []
    while True:
        taken.append(bytes(os.urandom(1 << 20)) * 16)
        time.sleep(0.02)


def crash(model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress) -> Json:
    """Dies as a native library does."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def crash_once(
    model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress
) -> Json:
    """Dies at the first attempt."""
    marker = Path(os.environ["CRASHED_ALREADY"])
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return copy(model_path, output_path, options, database_url, progress)


def refuse(model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress) -> Json:
    """Says that an option is wrong."""
    raise InvalidOptionError("target: expected cpu or cuda, got abacus")


def miss(model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress) -> Json:
    """Says that a device is missing."""
    raise MissingServiceError("there is no CUDA device")


def lose_the_database(
    model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress
) -> Json:
    """Finds that the database does not answer."""
    raise DatabaseUnavailableError("database postgresql://host/name cannot be used: it is shut down")


def have_a_bug(
    model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress
) -> Json:
    """Fails as no code should."""
    raise ZeroDivisionError


def to_and_fro(
    model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress
) -> Json:
    """Searches and times twice, as an optimization does whose first result is rejected."""
    for number, phase in enumerate(("pricing", "search", "timing", "search", "check")):
        progress({"phase": phase, "seconds": 1.0 + number, "candidates": 10 - 4 * (number > 2)})
        time.sleep(0.3)
    return copy(model_path, output_path, options, database_url, lambda _: None)
