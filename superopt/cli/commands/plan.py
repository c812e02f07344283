"""Commands superopt shards and timeline: export the plan of a cluster by device."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from superopt.cli.output import DatabaseOption, JsonOption, Output, PlannedForOption, destination
from superopt.errors import InvalidOptionError
from superopt.files import is_stream, require_output

ModelArgument = Annotated[Path, typer.Argument(help="The model that was optimised with --cluster.")]
ReportArgument = Annotated[
    Path, typer.Argument(metavar="REPORT.json", help="The report of that optimization.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("shards")(shards)
    app.command("timeline")(timeline)


def shards(
    model: ModelArgument,
    report: ReportArgument,
    out: Annotated[Path, typer.Option("--output", "-o", help="The directory to create.")],
    cluster: PlannedForOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the ONNX models for each device of a plan, and a manifest of the transfers between them."""
    from superopt.journeys import replay as recorded
    from superopt.journeys.planning.clusters import cluster_if_named
    from superopt.journeys.report_files import read_report
    from superopt.journeys.training_job import recorded_step

    output = Output(as_json)
    if out == Path("-") or is_stream(out):
        raise InvalidOptionError(f"output: expected the path of a new directory, got {out}")
    content, machine = read_report(report), cluster_if_named(cluster)
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        planned = recorded_step(model, content, Path(directory))
        devices, models = recorded.write_shards(planned, content, out, database=database, cluster=machine)
    output.document({"path": str(out), "devices": devices, "models": models})
    output.line(f"{out}: {models} models for {devices} devices, manifest.json")


def timeline(
    model: ModelArgument,
    report: ReportArgument,
    cluster: Annotated[str, typer.Option(help="The cluster description, or the name of a known machine.")],
    out: Annotated[
        Path,
        typer.Option(
            *("--output", "-o"),
            help="The trace to write, for ui.perfetto.dev; - is standard output.",
            parser=destination,
            metavar="FILE",
        ),
    ],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate a plan again and write its whole timeline as a Chrome trace."""
    from superopt.journeys import replay as recorded
    from superopt.journeys.planning.clusters import find_cluster
    from superopt.journeys.report_files import read_report
    from superopt.journeys.training_job import recorded_step
    from superopt.optimizer.parallel.simulator import write_trace

    output = Output.beside(as_json, out)
    require_output(out, {"model": model, "report": report, "cluster": cluster})
    content = read_report(report)
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        planned = recorded_step(model, content, Path(directory))
        found = recorded.simulation_of(planned, content, find_cluster(cluster), database=database)
        write_trace(found, out)
    output.document({"path": str(out), "microseconds": found.microseconds})
    output.line(f"{out}: {found.microseconds:,.0f} us; open it in https://ui.perfetto.dev")
