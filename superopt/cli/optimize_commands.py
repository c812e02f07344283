"""Commands superopt optimize, replay and report.

This process parses options and prints the result and imports little; the work runs in a child process
(``superopt.cli.optimizing``).
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from superopt.cli.job_options import GivenOptions, OptionalOutputOption, ReportOption, takes_options
from superopt.cli.output import (
    DatabaseOption,
    JsonOption,
    ModelArgument,
    NoDatabaseOption,
    Output,
    OutputOption,
    destination,
    several,
    shown,
)
from superopt.cli.progress import described
from superopt.errors import InvalidOptionError
from superopt.files import is_stream, require_destinations
from superopt.journeys.supervision import Job, Outcome, run_job
from superopt.options import Options

FUNCTION = "superopt.cli.optimizing:optimize"
"""The function that runs in the child process."""

INTERNAL_ERROR = 5
"""Exit code if the original was written because of an internal error."""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("optimize", short_help="Write a faster equivalent model, or the original.")(optimize)
    app.command("replay", short_help="Apply the trace of a report again.")(replay)
    app.command("report", short_help="Render a report as HTML.")(report_page)


@takes_options
def optimize(
    context: typer.Context,
    model: ModelArgument,
    given: GivenOptions,
    out: OptionalOutputOption = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="With --cluster: evaluate the plan of this report instead of searching for one."),
    ] = None,
    portable: Annotated[
        bool, typer.Option("--portable", help="Write standard ONNX operators only (the default).")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do not write the model; --output may be omitted.")
    ] = False,
    report: ReportOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write an equivalent model that is measurably faster, or the original with the reason."""
    del portable
    if out is None and not dry_run:
        raise InvalidOptionError("--output is required unless --dry-run is given")
    written = None if dry_run else out
    output = Output.beside(as_json, written, *(report or ()))
    if plan is not None and "cluster" not in given:
        raise InvalidOptionError("--plan requires --cluster")
    reports = report or []
    require_destinations(written, reports)
    options = Options.from_json(given)
    job = Job(
        model=model,
        output=written,
        options=options.to_request(),
        budget=options.budget,
        started=context.find_object(float) or time.monotonic(),
        database=database,
        reports=tuple(reports),
        extras={
            "machine": options.cluster,
            "plan": None if plan is None else str(plan),
            "json": as_json,
            "terminal": output.file.isatty(),
        },
        function=FUNCTION,
        stdout=1,
        is_reading=as_json or bool(reports),
    )
    with described() as show:
        outcome = run_job(job, lambda state: show(_phase(state)))
    if outcome.answer is not None:
        output.file.write(str(outcome.answer["text"]))
    else:
        _print_fallback(job, outcome, output)
    output.line(_written(job.output, [path for path in job.reports if path not in outcome.missing]))
    for path, why in outcome.missing.items():
        sys.stderr.write(f"superopt: warning: {path} was not written: {why}\n")
    if outcome.is_broken:
        raise typer.Exit(INTERNAL_ERROR)


def _phase(state: Mapping[str, object]) -> str:
    until = "" if state.get("until") is None else f" until {state['until']:.0f} s"
    before, best = (math.nan if state[name] is None else state[name] for name in ("cost_before", "best_cost"))
    return (
        f"{state['phase']}{until}: {state['seconds']:.0f} s, {state['candidates']} candidates, cost "
        f"{before:,.0f} -> {best:,.0f}"
    )


def _print_fallback(job: Job, outcome: Outcome, output: Output) -> None:
    """Prints the report of a job whose process gave no answer."""
    output.document(outcome.report)
    output.pairs({"model": job.model.name, "returned": f"original: {outcome.report['why']}"})


def _written(out: Path | None, reports: Sequence[Path]) -> str:
    """The line that lists written files; empty without any."""
    files = [*(() if out is None else (shown(out),)), *(f"report: {shown(path)}" for path in reports)]
    return f"\nwritten: {', '.join(files)}" if files else ""


def replay(
    model: Annotated[Path, typer.Argument(help="The model that was optimised.")],
    report: Annotated[Path, typer.Argument(metavar="REPORT.json", help="The report of the optimization.")],
    out: OutputOption,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare outputs with the model's before writing.")
    ] = True,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply a recorded trace again. Unverified rules and models that are not equivalent are rejected."""
    from superopt.journeys import in_process as api
    from superopt.journeys import replay as recording
    from superopt.onnx_io import require_destination

    output = Output.beside(as_json, out)
    require_destination(out, model)
    recorded = api.read_report(report)
    lowered = recording.replay(model, recorded, database=database)
    if check:
        recording.require_equal(model, lowered, recorded, database=database)
    lowered.save(out)
    output.document({"path": str(out), "nodes": lowered.node_count})
    output.line(f"{shown(out)}: {several(lowered.node_count, 'node')}")


def report_page(
    report: Annotated[Path, typer.Argument(metavar="REPORT.json", help="The report of an optimization.")],
    out: Annotated[
        Path,
        typer.Option(
            *("--output", "-o"),
            help="The HTML file to write; - is standard output.",
            parser=destination,
            metavar="FILE",
        ),
    ],
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Render a report as HTML: gains, rules applied, and why other rules were not used."""
    from superopt.journeys import in_process as api

    del database
    output = Output.beside(as_json, out)
    write = api.write_page if is_stream(out) else api.write_report
    size = write(api.read_report(report), out)
    output.document({"path": str(out)})
    output.line(f"{shown(out)}: {size / 1e3:.0f} kB")
