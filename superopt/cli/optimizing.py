"""Child process part of the command ``optimize``: runs the job, formats its summary."""

from __future__ import annotations

import faulthandler
import io
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import cast

from superopt.cli.logs import recorded
from superopt.cli.output import Output, several
from superopt.cli.run_progress import Loudness
from superopt.cli.views.body import bodies_in_brief, print_bodies
from superopt.cli.views.inventory import print_changes, print_table
from superopt.cli.views.outcome import (
    memory_pairs,
    outcome_pairs,
    simplified_pairs,
    training_pairs,
    written_pairs,
)
from superopt.cli.views.plan import print_plan
from superopt.cli.views.size import frozen_pairs, size_pairs
from superopt.cli.views.staleness import stale_warning
from superopt.journeys.optimize_job import optimized
from superopt.journeys.report_files import write_report
from superopt.onnx_io import require_destination
from superopt.optimizer.pipeline.reporting.report import Report, SearchSummary
from superopt.processes.child import JsonObject


class _Text(io.StringIO):
    """Buffer of the text to print, for the width of the terminal if there is one."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def optimize(arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
    """Writes model and reports; returns the report and the ``text`` to print. If native code crashes, a
    traceback is printed."""
    faulthandler.enable()
    out = None if arguments["output"] is None else Path(str(arguments["output"]))
    reports = [Path(path) for path in cast("list[str]", arguments["reports"])]
    if out is not None:
        require_destination(out, Path(str(arguments["model"])))
    with recorded(lambda text: progress({"warning": text}), sys.stderr):
        result = optimized(arguments, progress)
    data: Path | None = None
    if out is not None:
        is_apart = cast("Mapping[str, object]", arguments["options"]).get("external_data")
        data = (result.save_with_data if is_apart else result.save)(out)
    document = result.to_json()
    text = _Text(is_terminal=bool(arguments["terminal"]))
    output = Output(bool(arguments["json"]), text)
    output.document(document)
    if not output.as_json:
        _print_summary(result.report, document, output, warnings_of(result.report, arguments))
        (print_table if arguments["table"] else print_changes)(document, output)
    answer: JsonObject = {
        "text": text.getvalue(),
        "report": document,
        "data": None if data is None else str(data),
    }
    if reports:
        progress({"finished": answer})
    for path in reports:
        write_report(document, path)
        progress({"reported": str(path)})
    return answer


def _kept(seconds: float) -> str:
    return f", {seconds:.0f} s reserved for comparing models" if seconds >= 1 else ""


def warnings_of(report: Report, arguments: JsonObject) -> list[str]:
    """The warnings about the model and the rules, each as long as the user wants it."""
    loudness = Loudness.VERBOSE if arguments.get("verbose") else Loudness.NORMAL
    texts = (*report.model.warnings, *stale_warning(report.rules.stale))
    return [loudness.shortened(text) for text in texts]


def _search(search: SearchSummary) -> str:
    if search.stopped_by == "not_run":
        return "none, because the original does not run"
    ended = f"stopped by: {search.stopped_by}{_kept(search.reserved_seconds)}"
    if search.stopped_by == "interrupted":
        ended = "interrupted: search ended early"
    return (
        f"{search.strategy}, {several(search.candidates, 'candidate')} in {search.seconds:.1f} s, "
        f"best after {search.best_at_seconds:.1f} s, {ended}"
    )


def _print_summary(report: Report, document: JsonObject, output: Output, warnings: list[str]) -> None:
    model, cost = report.model, report.cost
    replaceable = (
        f"; weights that are also inputs, hence not constant: {model.overridable}"
        if model.overridable
        else ""
    )
    computing = f", {model.computing_sizes} computing sizes" if model.computing_sizes else ""
    pairs: dict[str, object] = {
        "model": f"{model.name}: {several(model.nodes_before, 'node')}, "
        f"{len(model.opaque)} opaque{computing}{replaceable}",
        **frozen_pairs(asdict(model), report.sizes.to_json()),
        **training_pairs(report.training),
        "rules": f"{report.rules.loaded} loaded, {report.rules.matched} matched, "
        f"{report.rules.applied} applied",
        **simplified_pairs(report.returned, report.canonical),
        **size_pairs(report.sizes.to_json()),
        "search": _search(report.search),
    }
    if report.bodies:
        pairs["bodies"] = bodies_in_brief(report.bodies)
    if report.suspects:
        pairs["suspect"] = "; ".join(f"{s.rule} {s.equation}: {s.difference}" for s in report.suspects)
    if warnings:
        pairs["warning"] = warnings
    pairs.update(memory_pairs(document.get("memory")))
    pairs.update(written_pairs(report))
    pairs.update(outcome_pairs(document))
    output.pairs(pairs)
    if report.parallel is not None:
        print_plan({**report.parallel, "objective": report.options["objective"]}, output)
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
    print_bodies(report.bodies, output)
