"""Compares predicted with measured latency, network by network, in the runtime at its highest optimisation.

    python -m benchmarks costs [NETWORK ...] [--most-megabytes 700] [--out docs]

Each network is priced in a process of its own, with nothing recorded before, by one thread. The whole model
is run before, between and after the two looks at its kernels, so that what the machine does meanwhile meets
both. The table goes to ``costs.md``, the plot to ``costs.svg``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.dots import Dot, Line, dot_plot
from optimizer.check import plan_inputs
from optimizer.cost import GraphCost, Latency, MemoryCostStore, Origin, Sizes, device_name, runtime_version
from optimizer.cost.runtime import BoundRun, LoadedModel
from superopt import zoo
from superopt.onnx_io import lift, load_model

TOLERANCE = 0.08
_SECONDS = 1.5
_RUNS = (3, 400)
_NEARLY_SMALLEST = 16


@dataclass(frozen=True)
class Row:
    """What was predicted of a network and what was measured, in microseconds."""

    network: str
    groups: int
    kernels: int
    predicted: float
    measured: float
    seconds: float

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured


def main() -> int:
    """Prints and writes the table and the plot; 1 if a network could not be priced."""
    parser = argparse.ArgumentParser(prog="benchmarks costs", description=__doc__)
    parser.add_argument("networks", nargs="*", help="names of the zoo; default: all that are small enough")
    parser.add_argument("--most-megabytes", type=float, default=700.0, help="of weights")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--row", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.row:
        (network,) = arguments.networks
        sys.stdout.write(json.dumps(asdict(priced(network))) + "\n")
        return 0
    rows: list[Row] = []
    failed = 0
    for network in arguments.networks or _small_enough(arguments.most_megabytes):
        command = [sys.executable, "-m", "benchmarks", "costs", network, "--row"]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            failed = 1
            continue
        rows.append(Row(**json.loads(done.stdout)))
        sys.stdout.write(_line(rows[-1]) + "\n")
        sys.stdout.flush()
    if rows:
        _write(rows, arguments.out)
    return failed


def priced(network: str) -> Row:
    """One network: its cost by the cost model, and what it takes."""
    content = zoo.build(network).SerializeToString()
    lifted = lift(load_model(content))
    loaded = LoadedModel(content, 1)
    inputs = plan_inputs(lifted, loaded.inputs, {})
    run = loaded.bind(inputs.draw(np.random.default_rng(0), next(inputs.size_choices()), "normal"))
    times = _timed(run)
    began = time.process_time()
    objective = Latency(MemoryCostStore(), threads=1)
    cost = GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {}, Origin(lifted)))
    spent = time.process_time() - began
    times += _timed(run)
    began = time.process_time()
    objective.measure_again()
    cost = cost.refreshed()
    spent += time.process_time() - began
    times += _timed(run)
    times.sort()
    measured = times[len(times) // _NEARLY_SMALLEST]
    return Row(network, len(cost.groups), objective.measured, cost.total, measured, spent)


def _timed(run: BoundRun) -> list[float]:
    run.microseconds()
    once = run.microseconds()
    low, high = _RUNS
    return [run.microseconds() for _ in range(min(high, max(low, int(_SECONDS * 1e6 / once))))]


def _small_enough(megabytes: float) -> list[str]:
    return [name for name in zoo.names() if (zoo.describe(name).parameters or 0) * 4 <= megabytes * 1e6]


def _write(rows: Sequence[Row], out: Path) -> None:
    errors = [abs(row.ratio - 1) for row in rows]
    within = sum(error <= TOLERANCE for error in errors)
    summary = (
        f"Over {len(rows)} networks the median error is {statistics.median(errors):.1%}, the mean "
        f"{statistics.mean(errors):.1%}, the largest {max(errors):.1%}; {within} lie within {TOLERANCE:.0%}."
    )
    sys.stdout.write(summary + "\n")
    head = (
        "# Predicted and measured latency",
        "",
        "Written by `python -m benchmarks costs`. A network's prediction is the sum of the prices of its",
        "kernels, each measured apart as the runtime fuses it; measured is the whole model in the runtime at",
        "its highest optimisation. One thread, nothing recorded before.",
        "",
        f"{device_name()}, {runtime_version()}.",
        "",
        summary,
        "",
        "![predicted over measured](costs.svg)",
        "",
        "| network | groups | kernels | predicted us | measured us | predicted / measured | CPU s to price |",
        "|---|---|---|---|---|---|---|",
    )
    (out / "costs.md").write_text("\n".join((*head, *map(_line, rows))) + "\n", encoding="utf-8")
    lines = [Line(row.network, (_dot(row.ratio),), f"{row.ratio:.2f}") for row in rows]
    title = "Predicted over measured latency, one thread"
    (out / "costs.svg").write_text(dot_plot(title, lines, TOLERANCE), encoding="utf-8")


def _dot(ratio: float) -> Dot:
    return Dot(ratio, "main" if abs(ratio - 1) <= TOLERANCE else "far", f"{ratio:.3f}")


def _line(row: Row) -> str:
    cells = (
        row.network,
        row.groups,
        row.kernels,
        f"{row.predicted:,.0f}",
        f"{row.measured:,.0f}",
        f"{row.ratio:.3f}",
        f"{row.seconds:.1f}",
    )
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main())
