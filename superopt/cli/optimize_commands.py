"""superopt optimize, replay and report: the main job."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from optimizer import Options, Progress
from optimizer.cost import OBJECTIVES
from optimizer.report import EquivalenceSummary, Report
from superopt import api
from superopt.cli.collecting import seldom_collecting
from superopt.cli.output import (
    DatabaseOption,
    JsonOption,
    NoDatabaseOption,
    Output,
    OutputOption,
    destination,
)
from superopt.cli.plan_views import print_plan
from superopt.cli.progress import described
from superopt.cli.size_views import size_pairs
from superopt.errors import InvalidOptionError
from superopt.files import is_stream
from superopt.machines import find_cluster
from superopt.onnx_io import require_destination
from superopt.recorded import replay as replay_report


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("optimize")(optimize)
    app.command("replay")(replay)
    app.command("report")(report_page)


@seldom_collecting()
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
    api.require_runtime(runtime)
    machine = None if cluster is None else find_cluster(cluster)
    if plan is not None and machine is None:
        raise InvalidOptionError("plan: say with --cluster for which devices it is")
    reports = report or []
    for path in reports:
        api.require_report_path(path)
    if not dry_run:
        require_destination(out, model)
    options = Options(
        objective=objective,
        search=search,
        budget=budget,
        max_candidates=max_candidates,
        alpha=alpha,
        seed=seed,
        threads=threads,
        dims=parse_dimensions(dim or []),
        inputs=inputs,
        tolerance=tolerance,
        keep=tuple(keep or ()),
        exclude_rules=tuple(exclude_rule or ()),
        memory_limit=None if memory_limit is None else _bytes(memory_limit),
        cluster=None if machine is None else machine.name,
    )
    with described() as show:

        def tell(state: Progress) -> None:
            show(
                f"{state.phase}: {state.seconds:.0f} s, {state.candidates} candidates, cost "
                f"{state.cost_before:,.0f} -> {state.best_cost:,.0f}"
            )

        result = api.optimize_with(
            model,
            options,
            target=target,
            database=database,
            progress=tell,
            started=context.find_object(float),
            cluster=machine,
            plan=None if plan is None else api.read_report(plan),
        )
    if not dry_run:
        result.save(out)
    document = result.to_json()
    for path in reports:
        api.write_report(document, path)
    output.document(document)
    _print_summary(result.report, output)
    if not dry_run:
        output.line(f"\nwritten: {out}" + "".join(f", report: {path}" for path in reports))


def replay(
    model: Annotated[Path, typer.Argument(help="The model that was optimised.")],
    report: Annotated[Path, typer.Argument(metavar="REPORT.json", help="The report of the optimization.")],
    out: OutputOption,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply a recorded trace again, refusing any rule that is not verified."""
    output = Output.beside(as_json, out)
    require_destination(out, model)
    recorded = api.read_report(report)
    lowered = replay_report(model, recorded, database=database)
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


def errors_against(equivalence: EquivalenceSummary) -> str:
    """The errors of both models against the reference, as a part of a sentence; empty where none is known."""
    error, own, reference = equivalence.error, equivalence.own_error, equivalence.reference
    if error is None or own is None or reference is None or error.rms is None or own.rms is None:
        return ""
    if reference.kind == "double precision":
        return f"; {reference.output}: {error.rms:.1e} off {reference.kind}, the original {own.rms:.1e}"
    return f"; {reference.output}: {error.rms:.1e} off the original, rounding moves that by {own.rms:.1e}"


def _equivalence(equivalence: EquivalenceSummary) -> str:
    if not equivalence.samples:
        return equivalence.why if equivalence.passed else f"FAILED: {equivalence.why}"
    error = "no number" if equivalence.max_rel_error is None else f"{equivalence.max_rel_error:.2g}"
    weak = ", weak evidence: the outputs hardly depend on the inputs" if equivalence.weak else ""
    verdict = "passed" if equivalence.passed else "FAILED"
    return (
        f"{verdict}: {equivalence.samples} samples, largest relative error {error}"
        f"{errors_against(equivalence)}{weak}"
    )


def _print_summary(report: Report, output: Output) -> None:
    if output.as_json:
        return
    model, cost, search = report.model, report.cost, report.search
    replaceable = (
        f"; weights that are inputs, too, and so no constants: {model.overridable}"
        if model.overridable
        else ""
    )
    pairs: dict[str, object] = {
        "model": f"{model.name}: {model.nodes_before} nodes, {len(model.opaque)} not understood{replaceable}",
        "rules": f"{report.rules.loaded} loaded, {report.rules.matched} matched, "
        f"{report.rules.applied} applied",
        **size_pairs(report.sizes.to_json()),
        "search": f"{search.strategy}, {search.candidates} candidates in {search.seconds:.1f} s, "
        f"best after {search.best_at_seconds:.1f} s, stopped by: {search.stopped_by}",
    }
    if model.warnings:
        pairs["warning"] = "; ".join(model.warnings)
    if report.memory is not None:
        pairs["cost"] = f"{cost.before:,.0f} -> {cost.after:,.0f} {cost.unit} ({cost.source})"
    if report.measured is not None:
        m = report.measured
        pairs["measured"] = (
            f"{m.before:,.0f} -> {m.after:,.0f} {m.unit}: {m.ratio:.3f}x "
            f"[{m.interval[0]:.3f}, {m.interval[1]:.3f}], {m.runs} runs, {m.runtime}, {m.threads} threads"
        )
    pairs["equivalence"] = _equivalence(report.equivalence)
    pairs["returned"] = f"{report.returned}: {report.why}"
    output.pairs(pairs)
    if report.parallel is not None:
        print_plan(report.parallel, output)
    applied = Counter((step.rule, step.equation) for step in report.trace)
    gained = dict.fromkeys(applied, 0.0)
    for step in report.trace:
        gained[step.rule, step.equation] += step.cost_before - step.cost_after
    if applied:
        output.line()
        output.table(
            ("times", f"gain ({cost.unit})", "rule"),
            [(times, round(gained[key], 1), key[1]) for key, times in applied.most_common()],
        )
