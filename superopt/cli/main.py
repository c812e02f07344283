"""The command-line application: assembles commands, turns failures into messages and exit codes.

Exit codes (docs/exit-codes.md): 0 success, 1 negative answer, 2 bad usage or input, 3 undecided, 4 missing
device or service, 5 internal error (the original model is still written), 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

from superopt.cli.registry import COMMANDS, COMPLETING, fill, new_group
from superopt.cli.usage import usage_message
from superopt.errors import INTERNAL_ERROR, SuperoptError

BAD_USAGE = 2
INTERNAL = 5
INTERRUPTED = 130
READER_GONE = 141


def build_group() -> TyperGroup:
    """The command line."""
    app = new_group("Optimise ONNX models with proved graph rewrites and measured costs.")
    app.callback()(_program)
    if COMPLETING in os.environ:
        from typer.completion import completion_init  # pyright: ignore[reportPrivateImportUsage]

        completion_init()
    return fill(get_group(app), COMMANDS)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        sys.stdout.write(f"superopt {version('superopt')}\n")
        raise typer.Exit


def _program(
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Optimise ONNX models with proved graph rewrites and measured costs."""
    del show_version


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits the process with its exit code."""
    started = time.monotonic() - _age()
    code = run(list(sys.argv[1:] if arguments is None else arguments), started)
    gc.freeze()  # skip the final garbage collection, which takes a second
    sys.exit(code)


def _age() -> float:
    """Seconds since the process started, from the system if available, else its processor time."""
    try:
        ticks = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")
    except (AttributeError, IndexError, OSError, ValueError):
        return time.process_time()
    return max(age, time.process_time())


def run(arguments: list[str], started: float | None = None) -> int:
    """Runs one command; returns its exit code. User errors are reported, not raised.

    ``started`` is when the process started (monotonic clock, default now); commands get it as the context's
    object.
    """
    as_json = "--json" in arguments
    began = time.monotonic() if started is None else started
    try:
        with _ended_when_told():
            result = build_group().main(arguments, prog_name="superopt", standalone_mode=False, obj=began)
        sys.stdout.flush()
    except TyperException as error:
        message = usage_message(error, arguments)
        if message.startswith("Usage: "):
            sys.stderr.write(message + "\n")
            return BAD_USAGE
        return _fail(message, "usage", BAD_USAGE, as_json=as_json)
    except SuperoptError as error:
        return _fail(str(error), type(error).__name__, error.exit_code, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", "interrupted", INTERRUPTED, as_json=as_json)
    except BrokenPipeError:
        return _without_reader()
    except SystemExit as ended:  # typer catches the broken pipe and exits
        if isinstance(ended.__context__, BrokenPipeError):
            return _without_reader()
        raise
    except Exception as error:  # noqa: BLE001 - reported, with a traceback in a file
        return _fail_internally(error, as_json=as_json)
    if result == INTERRUPTED:  # typer catches the interrupt and returns its exit code
        return _fail("interrupted", "interrupted", INTERRUPTED, as_json=as_json)
    return result if isinstance(result, int) else 0


def _without_reader() -> int:
    """Whoever read the output has stopped: nothing more is written, also when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_GONE


@contextmanager
def _ended_when_told() -> Generator[None]:
    """Turns SIGTERM into an exception, so that a command cleans up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _fail_internally(error: Exception, *, as_json: bool) -> int:
    import traceback  # needed only here

    from superopt.cli.logs import kept

    details = "".join(traceback.format_exception(error))
    message = f"{INTERNAL_ERROR}: {type(error).__name__}: {error}; {kept(details)}"
    return _fail(message, "internal", INTERNAL, as_json=as_json)


def _fail(message: str, kind: str, code: int, *, as_json: bool) -> int:
    from superopt.cli.output import brief

    if as_json:
        document = {"error": {"type": kind, "message": message, "exit_code": code}}
        sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    sys.stderr.write(f"superopt: {brief(' '.join(message.split()))}\n")
    return code
