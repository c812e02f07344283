"""Command superopt submit: optimises a model on a service."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from superopt.cli.job_options import (
    GivenOptions,
    OptionalOutputOption,
    ReportOption,
    takes_submitted_options,
)
from superopt.cli.output import JsonOption, NoDatabaseOption, Output, several, shown
from superopt.cli.progress import described
from superopt.cli.views.outcome import memory_pairs, outcome_pairs, training_pairs
from superopt.cli.views.size import frozen_pairs, size_pairs
from superopt.errors import InvalidInputError, InvalidOptionError, MissingServiceError
from superopt.files import is_stream, require_destinations

if TYPE_CHECKING:
    from superopt.client import Client, Event, Optimization

API_KEY = "SUPEROPT_API_KEY"
SERVER = "SUPEROPT_SERVER"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("submit")(submit)


@takes_submitted_options
def submit(
    model: Annotated[Path, typer.Argument(help="The ONNX model; external data is read from beside it.")],
    server: Annotated[
        str, typer.Option(envvar=SERVER, help="URL of the service, such as http://127.0.0.1:8080.")
    ],
    given: GivenOptions,
    out: OptionalOutputOption = None,
    report: ReportOption = None,
    key: Annotated[
        str | None, typer.Option(help=f"The API key; prefer ${API_KEY}, which process lists do not show.")
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Submit and print the id without waiting.")
    ] = False,
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Optimize a model on a service: upload, follow, download the result. Ctrl-C cancels the job.

    Omitted options have the service's defaults.
    """
    from superopt.client import Client
    from superopt.journeys.planning.clusters import description_of
    from superopt.journeys.report_files import write_report
    from superopt.onnx_io import external_locations

    del database
    reports = report or []
    output = Output.beside(as_json, out, *reports)
    if no_wait and (out is not None or reports):
        raise InvalidOptionError("--no-wait excludes --output and --report")
    require_destinations(out, reports, {"cluster": str(given.get("cluster", ""))})
    if out is not None and is_stream(out) and external_locations(model):
        raise InvalidOptionError(
            f"output: {model} has external data and so will the result: expected a file path, got {out}"
        )
    options = {name: value for name, value in given.items() if name != "cluster"}
    with Client(server, key=key or os.environ.get(API_KEY)) as client:
        devices = description_of(str(given["cluster"])) if "cluster" in given else None
        job = client.submit(model, cluster=devices, options=options)
        if no_wait:
            _say(job)
            output.document({"id": job.id, "state": job.state, "report": None})
            output.line(job.id)
            return
        ended = _followed(client, job)
        result = client.report(ended.id)
        if out is not None:
            client.save_model(ended.id, out)
        for path in reports:
            write_report(result, path)
    output.document({"id": ended.id, "state": ended.state, "report": result})
    _summarise(ended, result, output)
    written = [*([out] if out else []), *reports]
    if written:
        output.line(f"\nwritten: {', '.join(map(shown, written))}")


def _followed(client: Client, job: Optimization) -> Optimization:
    """Follows an optimization until it succeeds; raises for any other end. An interrupt cancels it."""
    try:
        _say(job)
        with described("optimizing") as show:
            ended = client.wait(job.id, on_event=_shown(show))
    except KeyboardInterrupt:
        _say(client.cancel(job.id))
        raise
    if ended.succeeded:
        return ended
    raise _failure(ended)


def _say(job: Optimization) -> None:
    sys.stderr.write(f"optimization {job.id}: {job.state}\n")


def _shown(show: Callable[[str], None]) -> Callable[[Event], None]:
    def on_event(event: Event) -> None:
        content = event.content
        if event.kind == "state":
            show(str(content.get("state")))
            return
        costs = [content.get(name) for name in ("cost_before", "best_cost")]
        known = [cost for cost in costs if isinstance(cost, int | float)]
        text = f"{content.get('phase', 'running')}: {several(content.get('candidates', 0), 'candidate')}"
        show(text + (f", cost {known[0]:,.0f} -> {known[1]:,.0f}" if len(known) == len(costs) else ""))

    return on_event


def _failure(ended: Optimization) -> Exception:
    """The error for an optimization without a result; bad input and missing devices get their exit codes."""
    from superopt.client import OptimizationEndedError
    from superopt.client.errors import error_of

    failure = OptimizationEndedError(ended.state, ended.problem)
    exit_code = 1 if ended.problem is None else error_of(ended.problem).exit_code
    kinds = {
        InvalidInputError.exit_code: InvalidInputError,
        MissingServiceError.exit_code: MissingServiceError,
    }
    return kinds[exit_code](str(failure)) if exit_code in kinds else failure


def _summarise(ended: Optimization, report: Mapping[str, object], output: Output) -> None:
    from superopt.cli.views.inventory import print_changes

    measured = report.get("measured")
    pairs: dict[str, object] = {
        "optimization": ended.id,
        **frozen_pairs(report.get("model"), report.get("sizes")),
        **training_pairs(report.get("training")),
        **size_pairs(report.get("sizes")),
    }
    if ended.reused_from is not None:
        pairs["reused"] = f"reused from {ended.reused_from}: same model, options, library and device"
    if isinstance(measured, dict):
        m = cast("Mapping[str, float]", measured)
        pairs["measured"] = f"{m['before']:,.0f} -> {m['after']:,.0f} {m['unit']}: {m['ratio']:.3f}x"
    pairs.update(memory_pairs(report.get("memory")))
    pairs.update(outcome_pairs(report))
    output.pairs(pairs)
    print_changes(report, output)
