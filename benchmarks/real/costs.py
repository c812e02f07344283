"""Compares predicted with measured latency, model by model, in the runtime at its highest optimisation.

    python -m benchmarks costs [NAME | FILE.onnx ...] [--real build/real] [--most-megabytes 700]
        [--out docs]

Models are networks of the zoo, those of ``python -m benchmarks real``, and files, at fixed sizes; without
names all networks that are small enough, and the exported ones where their folder is there. Each is priced in
a process of its own, with nothing recorded before, by one thread. The whole model is run before, between and
after the two looks at its kernels, so that what the machine does meanwhile meets both; both are processor
time of one thread, of runs that little disturbed. The table goes to ``costs.md``, the plot to ``costs.svg``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.models.dots import Dot, Line, dot_plot
from benchmarks.real.costs_models import cases
from benchmarks.real.costs_rows import Row, priced
from benchmarks.real.origins import NotInstalledError
from superopt.errors import SuperoptError
from superopt.optimizer.cost import device_name, runtime_version

TOLERANCE = 0.15
SHORT_MICROSECONDS = 1000.0


def main() -> int:
    """Prints and writes the table and the plot; 1 if a network could not be priced."""
    parser = argparse.ArgumentParser(prog="benchmarks costs", description=__doc__)
    parser.add_argument("models", nargs="*", help="by name, or files; default: all there are")
    parser.add_argument("--real", type=Path, default=Path("build/real"), help="folder of exported models")
    parser.add_argument("--most-megabytes", type=float, default=700.0, help="of weights")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    failed = 0
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as executor:
        for case in cases(arguments.models, arguments.real, arguments.most_megabytes):
            try:
                rows.append(executor.submit(priced, case).result())
            except (SuperoptError, NotInstalledError) as error:
                failed = 1
                sys.stdout.write(f"{case.name}: {error}\n")
                continue
            sys.stdout.write(_line(rows[-1]) + "\n")
            sys.stdout.flush()
    if rows:
        _write(rows, arguments.out)
    return failed


def _write(rows: Sequence[Row], out: Path) -> None:
    summary = _summary("models", rows)
    short = [row for row in rows if row.measured < SHORT_MICROSECONDS]
    if short:
        summary += " " + _summary("models below 1 ms (marked with <)", short)
    sys.stdout.write(summary + "\n")
    head = (
        "# Predicted and measured latency",
        "",
        "Written by `python -m benchmarks costs`. The predicted latency of a model is the sum of the",
        "prices of its kernels, each measured separately in the form in which the runtime fuses it.",
        "The measured latency is that of the whole model in the runtime at its highest optimisation.",
        "Both are processor times with one thread; no recorded costs were used.",
        "",
        "A short kernel is measured as several copies side by side in one model, so that its price",
        "includes the runtime's cost per kernel but not its cost per run. Its weights are read from",
        "the same place as in the model: the cache of the core, the shared cache, or memory.",
        "Converting a tensor from the runtime's layout for images is counted once for all kernels",
        "that need it.",
        "",
        f"{device_name()}, {runtime_version()}, load {os.getloadavg()[2]:.0f} on {os.cpu_count()} cores.",
        "",
        summary,
        "",
        "![predicted over measured](costs.svg)",
        "",
        "| model | groups | kernels | predicted us | measured us | predicted / measured | CPU s to price |",
        "|---|---|---|---|---|---|---|",
    )
    (out / "costs.md").write_text("\n".join((*head, *map(_line, rows))) + "\n", encoding="utf-8")
    lines = [Line(row.model, (_dot(row.ratio),), f"{row.ratio:.2f}") for row in rows]
    title = "Predicted over measured latency, one thread"
    (out / "costs.svg").write_text(dot_plot(title, lines, TOLERANCE), encoding="utf-8")


def _summary(what: str, rows: Sequence[Row]) -> str:
    errors = [abs(row.ratio - 1) for row in rows]
    within = sum(error <= TOLERANCE for error in errors)
    return (
        f"Over {len(rows)} {what} the median error is {statistics.median(errors):.1%}, the mean "
        f"{statistics.mean(errors):.1%}, the largest {max(errors):.1%}; {within} lie within {TOLERANCE:.0%}."
    )


def _dot(ratio: float) -> Dot:
    return Dot(ratio, "main" if abs(ratio - 1) <= TOLERANCE else "far", f"{ratio:.3f}")


def _line(row: Row) -> str:
    cells = (
        f"{row.model} <" if row.measured < SHORT_MICROSECONDS else row.model,
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
