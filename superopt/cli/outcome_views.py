"""What came back and why, and what was judged and did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast


def outcome_pairs(report: Mapping[str, object]) -> dict[str, object]:
    """Lines of a summary from a report; those of rejected variants where they say more than ``why``."""
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
