"""Real functions that child processes run in tests of the page (see ``server.worker.work.OptimizeFile``)."""

# ruff: noqa: ARG001

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from superopt.equations import format_attribute
from superopt.errors import InvalidModelError
from superopt.ir.terms import AttributeTerm
from superopt.journeys.supervision import optimize_file
from superopt.ops.bilinear.filter_algorithms import KARATSUBA

_EQUATION = "add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))"
Json = Mapping[str, object]
Progress = Callable[[Json], None]


def wait_until_cancelled(
    model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress
) -> Json:
    """Never ends by itself; its cost falls, but asks whether it should."""
    best, began = 1000.0, time.monotonic()
    while True:
        best = max(100.0, best * 0.999)
        seconds = time.monotonic() - began
        costs = {"cost_before": 1000.0, "best_cost": best}
        progress({"phase": "search", "seconds": seconds, "candidates": 7, **costs})
        time.sleep(0.02)


def refuse(model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress) -> Json:
    """Finds fault with the model."""
    raise InvalidModelError("node /layer7/Conv: expected rank 4, got 2 <b>bold</b>")


def large(model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress) -> Json:
    """The real work, with a report as of 5,000 nodes and of a plan for 16 devices."""
    return {**optimize_file(model_path, output_path, options, database_url, progress), **_many()}


def by_algorithm(
    model_path: Path, output_path: Path, options: Json, database_url: str, progress: Progress
) -> Json:
    """The real work with counted costs; the report names a rule by bilinear algorithms as the one that was
    applied."""
    counted = {**options, "objective": "flops"}
    done = optimize_file(model_path, output_path, counted, database_url, progress)
    return json.loads(json.dumps(done).replace(_EQUATION, by_algorithms()))


def by_algorithms() -> str:
    """A rule by bilinear algorithms."""
    both = ", ".join(format_attribute(axis, cast("AttributeTerm", KARATSUBA)) for axis in ("rows", "columns"))
    return f"conv[padding=p](x, y) => bilinear_conv[{both}, padding=p](x, filter_transform[{both}](y))"


def _many() -> dict[str, object]:
    rule = "f" * 16
    steps = [
        {
            "kind": "rule",
            "rule": rule,
            "equation": _EQUATION,
            "site": [number, number + 1, number + 2],
            "cost_before": 9e5 - number,
            "cost_after": 9e5 - number - 1,
        }
        for number in range(5000)
    ]
    opaque = [{"node": f"/block{n}/Op", "op_type": "Custom", "why": "unknown"} for n in range(5000)]
    events = [
        {"device": n % 16, "name": f"matmul_{n}", "kind": "compute", "start": n * 1.0, "duration": 9.0}
        for n in range(5000)
    ]
    kinds = ["sample", "attribute", "reduction"]
    operators = [
        {"operator": "matmul", "degrees": [2, 1, 4], "kinds": kinds, "devices": list(range(8)), "rule": rule}
        for _ in range(5000)
    ]
    operators[1] |= {"rule": "axiom:partition-of-matmul"}
    counts = {"nodes_before": 5000, "nodes_after": 4000}
    return {
        "trace": steps,
        "sizes": {
            "priced": {"batch": 1, "seq": 128},
            "checked": [{"batch": 1, "seq": 128}, {"batch": 2, "seq": 48}],
            "timed": {"batch": 1, "seq": 128},
            "guessed": ["seq"],
            "request": "--dim seq=128",
            "apart": [],
            "smaller": {"sizes": {"batch": 1, "seq": 32}, "ratio": 0.9, "low": 0.8, "high": 0.95},
            "given": None,
        },
        "model": {"name": "large", "sha256": "0" * 64, "opaque": opaque, **counts},
        "parallel": {
            "cluster": {"name": "two-nodes", "devices": 16},
            "predicted": {"unit": "us", "total": 5009.0, "compute": 4500.0, "communication": 300.0},
            "baselines": [{"name": "data_parallel", "total": 7000.0}],
            "memory": [{"device": n, "bytes": 10**9 * n, "limit": 80 * 10**9} for n in range(16)],
            "operators": operators,
            "timeline": events,
        },
    }
