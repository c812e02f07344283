"""Text output of the outcome: the returned model with the reason, and rejected variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast


def outcome_pairs(report: Mapping[str, object]) -> dict[str, object]:
    """Summary lines from a report; rejected variants are listed if they add to ``why``."""
    pairs: dict[str, object] = {"returned": f"{report.get('returned')}: {report.get('why')}"}
    rejected = cast("Sequence[Mapping[str, object]]", report.get("rejected") or ())
    if len(rejected) > 1 or (rejected and report.get("returned") == "optimized"):
        pairs["rejected"] = [f"{_variant(one)}: {one['why']}" for one in rejected]
    return pairs


def _variant(rejected: Mapping[str, object]) -> str:
    match cast("Sequence[str]", rejected["rules"]):
        case ():
            return "without rules"
        case (rule,):
            return f"with rule {rule}"
        case rules:
            return f"with {len(rules)} rules"
