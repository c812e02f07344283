"""Reports of jobs: model name and JSON encoding."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, TypeGuard, cast

if TYPE_CHECKING:
    from superopt.substitution_db.store.records import JsonObject


def named_report(report: JsonObject, model_name: str) -> JsonObject:
    """The report with the model's display name instead of the name of its file here, also where the model is
    that of which a training step was built.
    """
    training = report.get("training")
    if isinstance(training, dict):
        report = {**report, "training": named_report(cast("JsonObject", training), model_name)}
    about = report.get("model")
    if not isinstance(about, dict):
        return report
    return {**report, "model": {**cast("JsonObject", about), "name": model_name}}


def outcome_of(report: JsonObject) -> JsonObject:
    """A report in short: which model was ``returned``, its ``ratio`` to the original (above 1 is better), and
    whether that was ``measured`` or predicted. The ratio is null where the report has none.
    """
    measured, cost = (report.get(name) for name in ("measured", "cost"))
    if isinstance(measured, dict):
        ratio = cast("JsonObject", measured).get("ratio")
    else:
        before, after = (cast("JsonObject", cost or {}).get(name) for name in ("before", "after"))
        ratio = before / after if _is_positive(before) and _is_positive(after) else None
    return {
        "returned": report.get("returned"),
        "ratio": ratio if _is_positive(ratio) else None,
        "measured": measured is not None,
    }


def _is_positive(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and 0 < value < math.inf


def report_text(report: JsonObject) -> str:
    """The report as JSON; raises ValueError for an infinite number."""
    return json.dumps(report, indent=1, allow_nan=False)
