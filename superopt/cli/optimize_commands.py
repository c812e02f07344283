"""superopt optimize and replay: the main job."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from optimizer import Options, Progress
from optimizer.report import Report
from superopt import api
from superopt.cli.output import DatabaseOption, JsonOption, Output
from superopt.cli.progress import described
from superopt.errors import InvalidOptionError


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("optimize")(optimize)
    app.command("replay")(replay)


def optimize(
    model: Annotated[Path, typer.Argument(help="The ONNX model.")],
    out: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    objective: Annotated[str, typer.Option(help="What to minimise: latency, flops or memory.")] = "latency",
    target: Annotated[str, typer.Option(help="The device to optimise for.")] = "cpu",
    search: Annotated[str, typer.Option(help="The search strategy.")] = "backtracking",
    budget: Annotated[
        float, typer.Option(help="Seconds of wall time for everything: measuring, search, checks.")
    ] = 60.0,
    max_candidates: Annotated[
        int | None, typer.Option(help="End the search after so many candidates.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Explore graphs up to this many times the best cost.")] = 1.05,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    threads: Annotated[int | None, typer.Option(help="Threads of the runtime; default: all cores.")] = None,
    dim: Annotated[
        list[str] | None, typer.Option(help="Price a dynamic dimension at a size, as in batch=8.")
    ] = None,
    inputs: Annotated[Path | None, typer.Option(help="An .npz file with inputs for the check.")] = None,
    tolerance: Annotated[float | None, typer.Option(help="Relative tolerance of the check.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="Leave the node of this name as it is.")] = None,
    exclude_rule: Annotated[list[str] | None, typer.Option(help="Do not use the rule with this id.")] = None,
    portable: Annotated[
        bool, typer.Option("--portable", help="Write standard ONNX operators only (the default).")
    ] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do everything but write the model.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write a report as JSON.")] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write an equal model that is measurably faster, or the original, and say why."""
    del portable
    output = Output(as_json)
    options = Options(
        objective=objective,
        search=search,
        budget=budget,
        max_candidates=max_candidates,
        alpha=alpha,
        seed=seed,
        threads=threads,
        dims=_dimensions(dim or []),
        inputs=inputs,
        tolerance=tolerance,
        keep=tuple(keep or ()),
        exclude_rules=tuple(exclude_rule or ()),
    )
    if report is not None and report.suffix.lower() != ".json":
        raise InvalidOptionError(f"report: expected a file ending in .json, got {report}")
    with described() as show:

        def tell(state: Progress) -> None:
            show(
                f"{state.phase}: {state.seconds:.0f} s, {state.candidates} candidates, cost "
                f"{state.cost_before:,.0f} -> {state.best_cost:,.0f}"
            )

        result = api.optimize_with(model, options, target=target, database=database, progress=tell)
    if not dry_run:
        result.save(out)
    if report is not None:
        api.write_report(result.report, report)
    output.document(result.report.to_json())
    _print_summary(result.report, output)
    if not dry_run:
        output.line(f"\nwritten: {out}" + (f", report: {report}" if report else ""))


def replay(
    model: Annotated[Path, typer.Argument(help="The model that was optimised.")],
    report: Annotated[Path, typer.Argument(metavar="REPORT.json", help="The report of the optimization.")],
    out: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply a recorded trace again, refusing any rule that is not verified."""
    output = Output(as_json)
    recorded = api.read_report(report)
    lowered = api.replay(model, recorded, database=database)
    lowered.save(out)
    output.document({"path": str(out), "nodes": lowered.node_count})
    output.line(f"{out}: {lowered.node_count} nodes")


def _dimensions(texts: list[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        if not name or not size.isdecimal() or int(size) < 1:
            raise InvalidOptionError(f"dim: expected NAME=SIZE, as in batch=8, got {text!r}")
        sizes[name] = int(size)
    return sizes


def _print_summary(report: Report, output: Output) -> None:
    model, cost, search = report.model, report.cost, report.search
    pairs: dict[str, object] = {
        "model": f"{model.name}: {model.nodes_before} nodes, {len(model.opaque)} not understood",
        "rules": f"{report.rules.loaded} loaded, {report.rules.matched} matched, "
        f"{report.rules.applied} applied",
        "search": f"{search.strategy}, {search.candidates} candidates in {search.seconds:.1f} s, "
        f"best after {search.best_at_seconds:.1f} s, stopped by: {search.stopped_by}",
        "cost": f"{cost.before:,.0f} -> {cost.after:,.0f} {cost.unit} ({cost.source})",
    }
    if report.measured is not None:
        m = report.measured
        pairs["measured"] = (
            f"{m.before:,.0f} -> {m.after:,.0f} {m.unit}: {m.ratio:.3f}x "
            f"[{m.interval[0]:.3f}, {m.interval[1]:.3f}], {m.runs} runs, {m.runtime}, {m.threads} threads"
        )
    e = report.equivalence
    if e.samples:
        error = "no number" if e.max_rel_error is None else f"{e.max_rel_error:.2g}"
        pairs["equivalence"] = (
            f"{'passed' if e.passed else 'FAILED'}: {e.samples} samples, largest relative error {error}"
        )
    pairs["returned"] = f"{report.returned}: {report.why}"
    output.pairs(pairs)
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
