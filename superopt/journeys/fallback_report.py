"""Report of a job whose process died before it wrote one: the original is returned, with the reason."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import cast

from superopt.options import DEFAULTS

_SCHEMA = 1

_CHANGING = ("inline_functions", "opset", "cut_input", "cut_output", "freeze", "external_data")
"""Options that change how the model is written whether or not it is optimised."""


def fallback_report(
    model: Path,
    sha256: str | None,
    options: Mapping[str, object],
    state: Mapping[str, object],
    why: str,
    seconds: float,
    *,
    crashed: bool,
) -> dict[str, object]:
    """The report as JSON values, of the schema that ``optimizer.pipeline.reporting.report`` writes.

    ``state`` is the last message of the process: progress, and the model's ``nodes`` and ``opaque``; missing
    values are None or 0.
    """
    unchanged = [f"--{name.replace('_', '-')}" for name in _CHANGING if options.get(name)]
    if unchanged:
        why = f"{why}; the model is written as it was given, without {', '.join(unchanged)}"
    cost = _number(state.get("cost_before"))
    nodes = state.get("nodes")
    return {
        "schema": _SCHEMA,
        "model": {
            "name": model.name,
            "sha256": sha256,
            "nodes_before": nodes,
            "nodes_after": nodes,
            "opaque": state.get("opaque", []),
            "overridable": state.get("overridable", 0),
            "warnings": [],
            "frozen": {},
            "computing_sizes": state.get("computing_sizes", 0),
            "adapted": [],
        },
        "options": state.get("options", dict(options)),
        "rules": {
            "loaded": state.get("rules", 0),
            "matched": 0,
            "applied": 0,
            "stale": state.get("stale", 0),
        },
        "suspects": [
            {name: suspect[name] for name in ("rule", "equation", "difference")}
            for suspect in cast("list[Mapping[str, object]]", state.get("suspects", []))
        ],
        "cost": {"unit": "us", "source": "analytic", "before": cost, "after": cost},
        "sizes": {
            "priced": {},
            "checked": [],
            "timed": None,
            "guessed": [],
            "request": "",
            "apart": [],
            "smaller": None,
            "given": None,
        },
        "measured": None,
        "equivalence": {
            "passed": True,
            "samples": 0,
            "max_abs_error": None,
            "max_rel_error": None,
            "branches_missed": [],
            "tolerance": options.get("tolerance"),
            "weak": False,
            "why": "nothing was compared: the original is returned",
            "reference": None,
            "error": None,
            "own_error": None,
            "multiple": None,
        },
        "search": {
            "strategy": options.get("search", DEFAULTS.search),
            "seconds": round(seconds, 3),
            "candidates": state.get("candidates", 0),
            "best_at_seconds": 0.0,
            "stopped_by": "crashed" if crashed else "budget",
            "curve": [],
            "reserved_seconds": 0.0,
        },
        "trace": [],
        "parallel": None,
        "fusion": [],
        "conversions": None,
        "inventory": None,
        "memory": None,
        "returned": "original",
        "why": why,
        "training": state.get("training"),
        "bodies": [],
        "rejected": [],
        "explanation": None,
        "versions": {"superopt": version("superopt"), "python": platform.python_version()},
        "library": state.get("library"),
    }


def _number(value: object) -> float:
    return value if isinstance(value, float) else 0.0
