"""Command superopt profile: measures or imports kernel costs of a device."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.choices import ProviderName
from superopt.cli.output import DatabaseOption, JsonOption, Output, destination, several
from superopt.cli.progress import described
from superopt.errors import InvalidOptionError
from superopt.files import require_writable

if TYPE_CHECKING:
    from superopt.optimizer.cost import CostProfile

_MOST_PARAMETERS = 150e6


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("profile")(profile)


def profile(
    target: Annotated[ProviderName, typer.Option(help="The device to measure.")] = "cpu",
    models: Annotated[
        list[str] | None,
        typer.Option(help="Model files and zoo networks, comma-separated; default: the zoo but its largest."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            *("--output", "-o"),
            help="The profile to write, JSON lines; - is standard output.",
            parser=destination,
            metavar="FILE",
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of the runtime; default: all cores.")] = None,
    explore: Annotated[
        float, typer.Option(help="Seconds per model for measuring kernels of its rewritten variants, too.")
    ] = 0.0,
    import_: Annotated[
        Path | None, typer.Option("--import", help="Import this profile as a target instead of measuring.")
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure kernel costs on a device, so that models can be optimised for it elsewhere."""
    from superopt.journeys import in_process as api
    from superopt.journeys.targets import Profiling, import_profile, measure_profile
    from superopt.optimizer.cost import Provider, read_profile
    from superopt.substitution_db import open_database

    output = Output.beside(as_json, out)
    if out is not None:
        require_writable(out)
    if threads is not None and threads < 1:
        raise InvalidOptionError(f"threads: expected at least 1, got {threads}")
    with open_database(database) as opened:
        if import_ is not None:
            made = read_profile(import_)
            import_profile(made, opened)
        else:
            rules = api.verified_substitutions(opened) if explore > 0 else ()
            with described("profiling") as show:
                profiling = Profiling(Provider(target), threads, explore)
                made = measure_profile(_listed(models or []) or _usual(), rules, profiling, show)
            import_profile(made, opened)
    if out is not None:
        made.write(out)
    _print(made, out, output)


def _listed(texts: list[str]) -> list[str]:
    return [name for text in texts for name in text.split(",") if name]


def _usual() -> list[str]:
    from superopt import zoo

    return [name for name in zoo.names() if (zoo.describe(name).parameters or 0) <= _MOST_PARAMETERS]


def _print(made: CostProfile, out: Path | None, output: Output) -> None:
    head = {name: value for name, value in asdict(made).items() if name != "entries"}
    output.document(
        {"name": made.name, **head, "kernels": len(made.entries), "path": None if out is None else str(out)}
    )
    output.pairs(
        {
            "profile": f"{made.name}, {len(made.entries)} kernels",
            "device": f"{made.device}, {several(made.threads, 'thread')}"
            + (f", {made.driver}" if made.driver else ""),
            "runtime": made.runtime,
            "use it": f"superopt optimize MODEL -o OUT --target {made.name}",
        }
    )
