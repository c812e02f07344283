"""Command superopt completion: prints the script that completes commands and options in a shell."""

from __future__ import annotations

import enum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # pyright: ignore[reportPrivateImportUsage]

from superopt.cli.output import JsonOption, NoDatabaseOption, Output
from superopt.cli.registry import COMPLETING


class Shell(enum.StrEnum):
    """A shell with a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("completion")(completion)


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell.")],
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the script that completes commands and options in a shell.

    For bash, put `eval "$(superopt completion bash)"` into ~/.bashrc.
    """
    del database
    output = Output(as_json)
    script = get_completion_script(
        prog_name="superopt",
        complete_var=COMPLETING,
        shell=shell,  # nosec B604: the name of the shell; nothing is run
    )
    output.document({"shell": shell, "script": script})
    output.line(script)
