"""The application: commands put together, and every failure turned into one sentence and an exit code.

Exit codes: 0 done, 1 the answer is no, 2 bad usage or bad input, 3 undecided, 4 a needed device or service is
missing, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

import typer
from typer.exceptions import TyperException

from superopt.cli import (
    library_commands,
    model_commands,
    optimize_commands,
    rule_commands,
    service_commands,
    zoo_commands,
)
from superopt.errors import SuperoptError

BAD_USAGE = 2
INTERRUPTED = 130


def build_app() -> typer.Typer:
    """The whole command line."""
    app = typer.Typer(
        name="superopt",
        help="Optimise ONNX models with proved graph rewrites and measured costs.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    optimize_commands.register(app)
    model_commands.register(app)
    rule_commands.register(app)
    app.add_typer(zoo_commands.app, name="zoo")
    app.add_typer(library_commands.app, name="library")
    service_commands.register(app)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits the process with its exit code."""
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """Runs one command; returns its exit code, never raises for what a user did wrong."""
    as_json = "--json" in arguments
    try:
        result = build_app()(arguments, prog_name="superopt", standalone_mode=False)
        sys.stdout.flush()
    except TyperException as error:
        message = getattr(error, "format_message", error.__str__)()
        return _fail(message, "usage", BAD_USAGE, as_json=as_json)
    except SuperoptError as error:
        return _fail(str(error), type(error).__name__, error.exit_code, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", "interrupted", INTERRUPTED, as_json=as_json)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return result if isinstance(result, int) else 0


def _fail(message: str, kind: str, code: int, *, as_json: bool) -> int:
    if as_json:
        document = {"error": {"type": kind, "message": message, "exit_code": code}}
        sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    sys.stderr.write(f"superopt: {' '.join(message.split())}\n")
    return code
