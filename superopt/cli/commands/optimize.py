"""Commands superopt optimize, replay and report.

This process parses options and prints the result and imports little; the work runs in a child process
(``superopt.cli.optimizing``).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, cast

import typer

from superopt.cli.job_options import GivenOptions, OptionalOutputOption, ReportOption, takes_options
from superopt.cli.logs import warn, warned
from superopt.cli.output import (
    DatabaseOption,
    JsonOption,
    ModelArgument,
    NoDatabaseOption,
    Output,
    OutputOption,
    PlannedForOption,
    destination,
    several,
    shown,
)
from superopt.cli.run_progress import Loudness
from superopt.cli.supervised_run import run_supervised
from superopt.errors import InvalidOptionError
from superopt.files import is_stream, require_destinations, require_not_read
from superopt.journeys.supervision import Job, Outcome
from superopt.options import Options
from superopt.processes.child import JsonObject

FUNCTION = "superopt.cli.optimizing:optimize"
"""The function that runs in the child process."""

ORIGINAL_RETURNED = 1
"""Exit code with --require-gain if the original was returned, or a plan gains nothing."""

INTERNAL_ERROR = 5
"""Exit code after an internal error; the original was written."""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("optimize")(optimize)
    app.command("replay")(replay)
    app.command("report")(report_page)


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
    table: Annotated[
        bool, typer.Option("--table", help="List all operators, not only those whose number changed.")
    ] = False,
    report: ReportOption = None,
    require_gain: Annotated[
        bool,
        typer.Option(
            "--require-gain", help="Exit with 1 if the original is returned, or a plan gains nothing."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Print phases with their seconds, and warnings in full, too."),
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write an equivalent model that is measurably faster, or the original with the reason.

    Ctrl-C ends the search: the best model found so far is checked, timed and written. Ctrl-C again stops at
    once and writes nothing.
    """
    del portable
    loudness = Loudness.of(quiet=quiet, verbose=verbose)
    if out is None and not dry_run:
        raise InvalidOptionError("--output is required unless --dry-run is given")
    written = None if dry_run else out
    output = Output.beside(as_json, written, *(report or ()))
    if plan is not None and "cluster" not in given:
        raise InvalidOptionError("--plan requires --cluster")
    if plan is not None and "strategy" in given:
        raise InvalidOptionError("--plan and --strategy are two plans: expected one of them")
    reports = report or []
    if "external_data" in given and written is not None and is_stream(written):
        raise InvalidOptionError(
            f"external-data: weights go to a file beside the model: expected a path, got {shown(written)}"
        )
    options = Options.from_json(given)
    read = {
        "file of inputs": options.inputs,
        "cluster": options.cluster,
        "strategy": options.strategy,
        "report whose plan is evaluated": plan,
    }
    require_destinations(written, reports, read)
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
            "verbose": verbose,
            "table": table,
            "terminal": output.file.isatty(),
        },
        function=FUNCTION,
        stdout=1,
        is_reading=as_json or bool(reports),
    )
    outcome = run_supervised(job, loudness)
    if as_json or loudness is not Loudness.QUIET:
        _print(job, outcome, output)
    for path, why in outcome.missing.items():
        warn(f"{path} was not written: {why}")
    if outcome.is_broken:
        raise typer.Exit(INTERNAL_ERROR)
    if require_gain and not _has_gained(outcome.report):
        raise typer.Exit(ORIGINAL_RETURNED)


def _has_gained(report: JsonObject) -> bool:
    """Whether the original was not returned, and a plan is predicted to be faster than one device, if the
    model fits on one."""
    if report["returned"] == "original":
        return False
    plan = cast("JsonObject | None", report.get("parallel"))
    if plan is None:
        return True
    from superopt.optimizer.parallel.experts import ONE_DEVICE

    cost = cast("Mapping[str, float]", report["cost"])
    fits = any(each["name"] == ONE_DEVICE for each in cast("list[JsonObject]", plan["baselines"]))
    return not fits or round(cost["before"] / cost["after"], 2) > 1


def _print(job: Job, outcome: Outcome, output: Output) -> None:
    """Prints the summary, or the report as JSON."""
    if outcome.answer is not None:
        output.file.write(str(outcome.answer["text"]))
    else:
        output.document(outcome.report)
        output.pairs({"model": job.model.name, "returned": f"original: {outcome.report['why']}"})
    data = None if outcome.answer is None else cast("str | None", outcome.answer.get("data"))
    models = [*(() if job.output is None else (job.output,)), *(() if data is None else (Path(data),))]
    output.line(_written(models, [path for path in job.reports if path not in outcome.missing]))


def _written(models: Sequence[Path], reports: Sequence[Path]) -> str:
    """The line that lists written files; empty without any."""
    files = [*map(shown, models), *(f"report: {shown(path)}" for path in reports)]
    return f"\nwritten: {', '.join(files)}" if files else ""


def replay(
    model: Annotated[Path, typer.Argument(help="The model that was optimised.")],
    report: Annotated[Path, typer.Argument(metavar="REPORT.json", help="The report of the optimization.")],
    out: OutputOption,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare outputs with the model's before writing.")
    ] = True,
    inputs: Annotated[Path | None, typer.Option(help="An .npz file with inputs to compare on, too.")] = None,
    cluster: PlannedForOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply a recorded trace again. Unverified rules and models that are not equivalent are rejected."""
    from superopt.journeys import replay as recording
    from superopt.journeys.planning.clusters import cluster_if_named
    from superopt.journeys.report_files import read_report
    from superopt.journeys.training_job import recorded_step
    from superopt.onnx_io import require_destination

    output = Output.beside(as_json, out)
    require_destination(out, model)
    require_not_read({"output": out}, {"report": report, "cluster": cluster, "inputs": inputs})
    recorded = read_report(report)
    with warned(), tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        start = recorded_step(model, recorded, Path(directory))
        machine = cluster_if_named(cluster)
        lowered = recording.replay(start, recorded, database=database, cluster=machine)
        if check:
            recording.require_equal(start, lowered, recorded, database=database, inputs=inputs)
        is_apart = cast("Mapping[str, object]", recorded.get("options") or {}).get("external_data")
        (lowered.save_with_data if is_apart else lowered.save)(out)
    changed = lowered.source.adapted
    output.document({"path": str(out), "nodes": lowered.node_count, "adapted": list(changed)})
    output.line(f"{shown(out)}: {several(lowered.node_count, 'node')}")
    if changed:
        output.line(f"changed first, as the report says: {' and '.join(changed)}")


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
    from superopt.journeys.report_files import read_report, write_page, write_report

    del database
    output = Output.beside(as_json, out)
    require_not_read({"output": out}, {"report": report})
    write = write_page if is_stream(out) else write_report
    size = write(read_report(report), out)
    output.document({"path": str(out)})
    output.line(f"{shown(out)}: {size / 1e3:.0f} kB")
