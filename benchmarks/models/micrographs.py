"""Micrographs: original, hand-made version and what ``superopt optimize`` makes of it, in one table.

    python -m benchmarks micrographs [NAME ...] [--budget 10] [--seconds 3] [--threads 1]

Ratios are to the original's time at ONNX Runtime's full optimisation, above 1 is faster; the three models run
in turn, in random order. ``reached`` is the share of the hand-made ratio that ours has.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.models.interleaving import in_runtime, interleaved
from superopt.journeys import in_process as api
from superopt.onnx_io import lift, load_model
from superopt.optimizer import Options
from superopt.optimizer.check import compare_outputs, plan_inputs
from superopt.optimizer.check.interval import QUANTILE
from superopt.optimizer.cost.runtime.session import Array, LoadedModel
from superopt.zoo.micrographs import WITH_HEADROOM, WITHOUT_HEADROOM
from superopt.zoo.micrographs.sketch import Micrograph

ENOUGH = 0.95
LEAST_SAMPLES = 12
PLACEMENTS = 4
"""How often sessions are opened: where one lies in memory is worth some per cent."""


@dataclass(frozen=True)
class Row:
    """Microseconds of the three models. ``rules`` were applied for ours."""

    name: str
    headroom: str
    original: float
    by_hand: float
    ours: float
    rules: int

    @property
    def passed(self) -> bool:
        """Whether ours has nearly what a person gets, and has not become slower."""
        wanted = max(self.original / self.by_hand, 1.0)
        return self.original / self.ours >= ENOUGH * wanted

    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        by_hand, ours = self.original / self.by_hand, self.original / self.ours
        return (
            self.name, self.headroom, f"{self.original:.1f}", f"{by_hand:.3f}", f"{ours:.3f}",
            f"{ours / max(by_hand, 1.0):.3f}", str(self.rules), "yes" if self.passed else "NO",
        )  # fmt: skip


HEADER = ("micrograph", "head-room", "original us", "by hand", "ours", "reached", "rules", "passed")


def main() -> None:
    """Measures the micrographs that were named, or all."""
    parser = argparse.ArgumentParser(prog="benchmarks micrographs", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    names: list[str] = options.names
    sys.stdout.write(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}\n")
    for headroom, table in (("yes", WITH_HEADROOM), ("no", WITHOUT_HEADROOM)):
        for name, micrograph in table.items():
            if not names or name in names:
                row = measure(name, headroom, micrograph, options.budget, options.seconds, options.threads)
                sys.stdout.write(f"| {' | '.join(row.cells())} |\n")
                sys.stdout.flush()


def measure(
    name: str, headroom: str, micrograph: Micrograph, budget: float, seconds: float, threads: int
) -> Row:
    """Optimises the original within ``budget`` seconds, then runs all three for ``seconds``."""
    original = micrograph.original()
    result = api.optimize_with(original, Options(budget=budget, threads=threads))
    ours = result.to_bytes()
    files = (original.SerializeToString(), micrograph.by_hand().SerializeToString(), ours)
    loaded = [LoadedModel(model, threads) for model in files[:2]]
    feeds = plan_inputs(lift(load_model(original)), loaded[0].inputs, {}).draw(
        np.random.default_rng(0), {}, "normal"
    )
    _require_equal(name, loaded[0], loaded[1], feeds)
    opened = [in_runtime(file) for file in files]
    times = interleaved(
        opened, feeds, threads=threads, seconds=seconds, rounds=PLACEMENTS, least=LEAST_SAMPLES
    )
    original_us, by_hand_us, ours_us = (float(time_) for time_ in np.quantile(times, QUANTILE, axis=(0, 1)))
    rules = len({step.rule for step in result.report.trace})
    return Row(name, headroom, original_us, by_hand_us, ours_us, rules)


def _require_equal(
    name: str, original: LoadedModel, by_hand: LoadedModel, feeds: Mapping[str, Array]
) -> None:
    names = [port.name for port in original.outputs]
    agreement = compare_outputs(names, original.run(feeds), by_hand.run(feeds), None)
    if not agreement.agrees:
        sys.exit(f"{name}: the hand-made version is not equal: {agreement.why}")


if __name__ == "__main__":
    main()
