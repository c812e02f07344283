"""superopt optimize, replay and report: the main job.

Options are read here and the answer is printed here, with little loaded: the work is done in another process
(``superopt.cli.optimizing``).
"""

from __future__ import annotations

import math
import re
import signal
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from superopt.choices import OBJECTIVES, require_report_path, require_runtime
from superopt.cli.output import (
    DatabaseOption,
    JsonOption,
    NoDatabaseOption,
    Output,
    OutputOption,
    destination,
)
from superopt.cli.progress import described
from superopt.errors import InvalidOptionError
from superopt.files import is_stream, require_writable
from superopt.supervision import Job, Outcome, run_job

FUNCTION = "superopt.cli.optimizing:optimize"
"""What is done in the other process."""

INTERNAL_ERROR = 5
"""The exit code where the original was written because of an error of ours."""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("optimize")(optimize)
    app.command("replay")(replay)
    app.command("report")(report_page)


def optimize(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="The ONNX model.")],
    out: OutputOption,
    objective: Annotated[
        str,
        typer.Option(help=f"What to minimise: {', '.join(OBJECTIVES)}; with --cluster also training."),
    ] = "latency",
    target: Annotated[
        str,
        typer.Option(
            help="The device to optimise for: cpu, cuda, a cost profile's file, or an imported one."
        ),
    ] = "cpu",
    search: Annotated[
        str, typer.Option(help="The search strategy: auto, backtracking, regions or beam.")
    ] = "auto",
    budget: Annotated[
        float, typer.Option(help="Seconds of wall time for everything, from start to written file.")
    ] = 60.0,
    max_candidates: Annotated[
        int | None, typer.Option(help="End the search after so many candidates.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Explore graphs up to this many times the best cost.")] = 1.05,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    threads: Annotated[
        int | None, typer.Option(help="Threads of the runtime; default: all physical cores.")
    ] = None,
    dim: Annotated[
        list[str] | None,
        typer.Option(
            help="Price, check and time at this size of an open dimension, as in batch=8; `superopt inspect` "
            "lists them."
        ),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            help="An .npz file with inputs to check and time with; open dimensions get their sizes."
        ),
    ] = None,
    tolerance: Annotated[float | None, typer.Option(help="Allowed beyond the original's own error.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="Leave the node of this name as it is.")] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            help="Most memory for weights and tensors (with --cluster, of each device), as in '2 GiB'."
        ),
    ] = None,
    exclude_rule: Annotated[list[str] | None, typer.Option(help="Do not use the rule with this id.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="Plan for these devices: a description's file, or a known machine as dgx-h100:4."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="With --cluster: evaluate the plan of this report instead of searching one."),
    ] = None,
    portable: Annotated[
        bool, typer.Option("--portable", help="Write standard ONNX operators only (the default).")
    ] = True,
    runtime: Annotated[
        str, typer.Option(help="Whose operators may be written: portable, or onnxruntime for its own too.")
    ] = "portable",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do everything but write the model.")] = False,
    report: Annotated[
        list[Path] | None,
        typer.Option(help="Write a report: .json for machines, .html for people; may be given twice."),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write an equal model that is measurably faster, or the original, and say why."""
    del portable
    output = Output.beside(as_json, None if dry_run else out, *(report or ()))
    require_runtime(runtime)
    if plan is not None and cluster is None:
        raise InvalidOptionError("plan: say with --cluster for which devices it is")
    reports = report or []
    for path in reports:
        require_report_path(path)
    if not dry_run:
        require_writable(out)
    options = {
        "objective": objective,
        "target": target,
        "search": search,
        "budget": budget,
        "max_candidates": max_candidates,
        "alpha": alpha,
        "seed": seed,
        "threads": threads,
        "dim": parse_dimensions(dim or []),
        "inputs": None if inputs is None else str(inputs),
        "tolerance": tolerance,
        "keep": keep or [],
        "exclude_rule": exclude_rule or [],
        "memory_limit": None if memory_limit is None else _bytes(memory_limit),
    }
    job = Job(
        model=model,
        output=None if dry_run else out,
        options=options,
        budget=budget,
        started=context.find_object(float) or time.monotonic(),
        database=database,
        reports=tuple(reports),
        extras={
            "machine": cluster,
            "plan": None if plan is None else str(plan),
            "json": as_json,
            "terminal": output.file.isatty(),
        },
        function=FUNCTION,
        stdout=1,
        is_reading=as_json or bool(reports),
    )
    with _ended_when_told(), described() as show:
        outcome = run_job(job, lambda state: show(_phase(state)))
    if outcome.answer is not None:
        output.file.write(str(outcome.answer["text"]))
    else:
        _print_stand_in(job, outcome, output)
    if outcome.is_broken:
        raise typer.Exit(INTERNAL_ERROR)


@contextmanager
def _ended_when_told() -> Generator[None]:
    """SIGTERM ends the block as an error does, so that nothing of it is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _phase(state: Mapping[str, object]) -> str:
    until = "" if state.get("until") is None else f" until {state['until']:.0f} s"
    before, best = (math.nan if state[name] is None else state[name] for name in ("cost_before", "best_cost"))
    return (
        f"{state['phase']}{until}: {state['seconds']:.0f} s, {state['candidates']} candidates, cost "
        f"{before:,.0f} -> {best:,.0f}"
    )


def _print_stand_in(job: Job, outcome: Outcome, output: Output) -> None:
    """What is known of a job whose process gave no answer."""
    output.document(outcome.report)
    output.pairs({"model": job.model.name, "returned": f"original: {outcome.report['why']}"})
    if job.output is not None:
        output.line(written(job.output, job.reports))


def written(out: Path, reports: Sequence[Path]) -> str:
    """The line about the files that were written."""
    return f"\nwritten: {out}" + "".join(f", report: {path}" for path in reports)


def replay(
    model: Annotated[Path, typer.Argument(help="The model that was optimised.")],
    report: Annotated[Path, typer.Argument(metavar="REPORT.json", help="The report of the optimization.")],
    out: OutputOption,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare outputs with those of the model first.")
    ] = True,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply a recorded trace again, refusing any rule that is not verified and a model that is not equal."""
    from superopt import api
    from superopt import recorded as recording
    from superopt.onnx_io import require_destination

    output = Output.beside(as_json, out)
    require_destination(out, model)
    recorded = api.read_report(report)
    lowered = recording.replay(model, recorded, database=database)
    if check:
        recording.require_equal(model, lowered, recorded, database=database)
    lowered.save(out)
    output.document({"path": str(out), "nodes": lowered.node_count})
    output.line(f"{out}: {lowered.node_count} nodes")


def report_page(
    report: Annotated[Path, typer.Argument(metavar="REPORT.json", help="The report of an optimization.")],
    out: Annotated[
        Path,
        typer.Option(
            *("--output", "-o"),
            help="The page to write, ending in .html; - is standard output.",
            parser=destination,
            metavar="FILE",
        ),
    ],
    database: NoDatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the page of a report: what was gained, by which rules, and why others were not used."""
    from superopt import api

    del database
    output = Output.beside(as_json, out)
    write = api.write_page if is_stream(out) else api.write_report
    size = write(api.read_report(report), out)
    output.document({"path": str(out)})
    output.line(f"{out}: {size / 1e3:.0f} kB")


_UNITS = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}


def _bytes(text: str) -> int:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)", text.strip())
    if found is None or found[2] not in _UNITS:
        raise InvalidOptionError(f"memory-limit: expected bytes, as in '2 GiB' or 500000000, got {text!r}")
    return int(float(found[1]) * _UNITS[found[2]])


def parse_dimensions(texts: list[str]) -> dict[str, int]:
    """The sizes of dynamic dimensions; raises InvalidOptionError for what is not NAME=SIZE."""
    sizes: dict[str, int] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        if not name or re.fullmatch(r"0*[1-9][0-9]{0,17}", size) is None:
            raise InvalidOptionError(f"dim: expected NAME=SIZE, as in batch=8, got {text!r}")
        sizes[name] = int(size)
    return sizes
