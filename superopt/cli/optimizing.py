"""Child process part of the command ``optimize``: runs the job, formats its summary."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import cast

from superopt.cli.body_views import bodies_in_brief, print_bodies
from superopt.cli.equivalence_views import errors_against
from superopt.cli.outcome_views import outcome_pairs
from superopt.cli.output import Output, several
from superopt.cli.plan_views import print_plan
from superopt.cli.size_views import frozen_pairs, size_pairs
from superopt.journeys import in_process as api
from superopt.journeys.optimize_job import optimized
from superopt.onnx_io import require_destination
from superopt.optimizer.pipeline.report import EquivalenceSummary, Report
from superopt.processes.child import JsonObject


class _Text(io.StringIO):
    """Buffer of the text to print, for the width of the terminal if there is one."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def optimize(arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
    """Writes model and reports; returns the report and the ``text`` to print."""
    out = None if arguments["output"] is None else Path(str(arguments["output"]))
    reports = [Path(path) for path in cast("list[str]", arguments["reports"])]
    if out is not None:
        require_destination(out, Path(str(arguments["model"])))
    result = optimized(arguments, progress)
    if out is not None:
        result.save(out)
    document = result.to_json()
    text = _Text(is_terminal=bool(arguments["terminal"]))
    output = Output(bool(arguments["json"]), text)
    output.document(document)
    _print_summary(result.report, document, output)
    answer: JsonObject = {"text": text.getvalue(), "report": document}
    if reports:
        progress({"finished": answer})
    for path in reports:
        api.write_report(document, path)
        progress({"reported": str(path)})
    return answer


def _kept(seconds: float) -> str:
    return f", {seconds:.0f} s reserved for comparing models" if seconds >= 1 else ""


def _equivalence(equivalence: EquivalenceSummary) -> str:
    if not equivalence.samples:
        return equivalence.why if equivalence.passed else f"FAILED: {equivalence.why}"
    error = "no number" if equivalence.max_rel_error is None else f"{equivalence.max_rel_error:.2g}"
    weak = ", weak evidence: the outputs hardly depend on the inputs" if equivalence.weak else ""
    verdict = "passed" if equivalence.passed else "FAILED"
    return (
        f"{verdict}: {several(equivalence.samples, 'sample')}, largest relative error {error}"
        f"{errors_against(equivalence)}{weak}"
    )


def _print_summary(report: Report, document: JsonObject, output: Output) -> None:
    if output.as_json:
        return
    model, cost, search = report.model, report.cost, report.search
    replaceable = (
        f"; weights that are also inputs, hence not constant: {model.overridable}"
        if model.overridable
        else ""
    )
    computing = f", {model.computing_sizes} computing sizes" if model.computing_sizes else ""
    pairs: dict[str, object] = {
        "model": f"{model.name}: {several(model.nodes_before, 'node')}, "
        f"{len(model.opaque)} opaque{computing}{replaceable}",
        **frozen_pairs(asdict(model)),
        "rules": f"{report.rules.loaded} loaded, {report.rules.matched} matched, "
        f"{report.rules.applied} applied",
        **size_pairs(report.sizes.to_json()),
        "search": f"{search.strategy}, {several(search.candidates, 'candidate')} in {search.seconds:.1f} s, "
        f"best after {search.best_at_seconds:.1f} s, stopped by: {search.stopped_by}"
        f"{_kept(search.reserved_seconds)}",
    }
    if report.bodies:
        pairs["bodies"] = bodies_in_brief(report.bodies)
    if report.suspects:
        pairs["suspect"] = "; ".join(f"{s.rule} {s.equation}: {s.difference}" for s in report.suspects)
    if model.warnings:
        pairs["warning"] = "; ".join(model.warnings)
    if report.memory is not None:
        pairs["cost"] = f"{cost.before:,.0f} -> {cost.after:,.0f} {cost.unit} ({cost.source})"
    if report.measured is not None:
        m = report.measured
        pairs["measured"] = (
            f"{m.before:,.0f} -> {m.after:,.0f} {m.unit}: {m.ratio:.3f}x "
            f"[{m.interval[0]:.3f}, {m.interval[1]:.3f}], {several(m.runs, 'run')}, {m.runtime}, "
            f"{several(m.threads, 'thread')}"
        )
    pairs["equivalence"] = _equivalence(report.equivalence)
    pairs.update(outcome_pairs(document))
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
    print_bodies(report.bodies, output)
