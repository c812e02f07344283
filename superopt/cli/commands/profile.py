"""Command superopt profile: measures or imports costs of kernels, and of collectives of several devices."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.choices import ProviderName
from superopt.cli.output import DatabaseOption, JsonOption, Output, destination, several
from superopt.cli.profiling import profile_collectives, profile_estimator, refuse
from superopt.cli.progress import described
from superopt.files import require_writable
from superopt.options import require_threads

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
    collectives: Annotated[
        bool,
        typer.Option(
            "--collectives",
            help="Measure collectives of the devices that JAX sees instead, and write a description for "
            "--cluster (YAML) to --output.",
        ),
    ] = False,
    devices: Annotated[
        int | None,
        typer.Option(help="With --collectives: the first so many devices; on a CPU virtual ones (4)."),
    ] = None,
    largest: Annotated[
        str | None,
        typer.Option(help="With --collectives: size of the largest tensor sent (16 MiB)."),
    ] = None,
    estimator: Annotated[
        bool,
        typer.Option(
            "--estimator",
            help="Measure fused kernels of training steps under JAX instead, and learn to estimate others; "
            "--models are steps as NETWORK:SAMPLES:OPTIMIZER.",
        ),
    ] = False,
    kernels: Annotated[int | None, typer.Option(help="With --estimator: kernels to measure (3000).")] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure kernel costs on a device, so that models can be optimised for it elsewhere; or, with
    --collectives, times T = C bytes + D of collectives between devices; or, with --estimator, times of fused
    kernels, from which an estimator learns."""
    if estimator:
        unused = {"--collectives": collectives, "--threads": threads, "--import": import_}
        refuse([name for name, value in unused.items() if value], "without --estimator")
        profile_estimator(_listed(models or []), kernels, out, as_json=as_json)
        return
    refuse([] if kernels is None else ["--kernels"], "with --estimator only")
    if collectives:
        unused = {"--models": models, "--threads": threads, "--import": import_, "--explore": explore}
        refuse([name for name, value in unused.items() if value], "without --collectives")
        profile_collectives(devices, largest, out, as_json=as_json)
        return
    unused = {"--devices": devices, "--largest": largest}
    refuse([name for name, value in unused.items() if value is not None], "with --collectives only")
    from superopt.journeys import in_process as api
    from superopt.journeys.planning.targets import Profiling, import_profile, measure_profile
    from superopt.optimizer.cost import Provider, read_profile
    from superopt.substitution_db import open_database

    output = Output.beside(as_json, out)
    if out is not None:
        require_writable(out)
    require_threads(threads)
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
