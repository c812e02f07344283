"""Reports of jobs: model name and JSON encoding."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from superopt.substitution_db.store.records import JsonObject


def named_report(report: JsonObject, model_name: str) -> JsonObject:
    """The report with the model's display name instead of the name of its file here."""
    about = report.get("model")
    if not isinstance(about, dict):
        return report
    return {**report, "model": {**cast("JsonObject", about), "name": model_name}}


def report_text(report: JsonObject) -> str:
    """The report as JSON; raises ValueError for an infinite number."""
    return json.dumps(report, indent=1, allow_nan=False)
