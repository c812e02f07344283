"""Mixed precision of training steps: predicted and observed errors, nodes in low precision, by budget.

    python -m benchmarks precision [NETWORK ...]

Steps of small networks with AdamW on random samples. Nodes are chosen by the peaks of an A100 without the
time to start kernels, which is most of the time of networks this small; times are those of that description.
Errors are observed in ONNX Runtime, as shares of the loss, of the norm of all gradients, and of the mean loss
of 50 steps. Every format is planned within each of its budgets, with casts of their own for readers that can
fuse them (``exclusive``), and within the largest one with shared casts. A budget that cannot be held has its
message in place of the errors.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from superopt import zoo
from superopt.axioms.loader import load_axioms
from superopt.errors import InvalidOptionError
from superopt.optimizer.parallel.documents.cluster import known_device
from superopt.optimizer.training.precision.outcome import PrecisionOutcome
from superopt.optimizer.training.step import build_step
from superopt.step_options import LossSettings, PrecisionSettings, StepSettings

COLUMNS = (
    *("network", "format", "casts", "budget", "gradients predicted", "observed"),
    *("loss predicted", "observed", "losses of 50 steps", "low nodes", "multiplications", "time", "CPU s"),
)
NETWORKS = {"light-mlp": 64, "light-bert": 8, "light-resnet18": 8}
"""Batch sizes."""

BUDGETS = {"bf16": (1e-1, 5e-2, 5e-3), "f16": (1e-2, 2e-3, 5e-4)}
DEVICE = "a100-sxm-80gb"


def main() -> None:
    """Prints the table row by row; other networks of the zoo have batches of 4."""
    parser = argparse.ArgumentParser(prog="benchmarks precision", description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    names = parser.parse_args().networks
    sys.stdout.write(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n")
    for name in names:
        for precision, casts, budget in _cases():
            sys.stdout.write(f"| {' | '.join(_row(name, precision, casts, budget))} |\n")
            sys.stdout.flush()


def _cases() -> Iterator[tuple[str, str, float]]:
    for precision, budgets in BUDGETS.items():
        for budget in budgets:
            yield precision, "exclusive", budget
        yield precision, "shared", budgets[0]


def _row(name: str, precision: str, casts: str, budget: float) -> tuple[str, ...]:
    start = time.process_time()
    given = name, precision, casts, f"{budget:g}"
    settings = StepSettings(
        loss=LossSettings("mse" if "bert" in name else "cross-entropy"),
        precision=PrecisionSettings(precision, budget, casts),
    )
    device = replace(known_device(DEVICE), launch=0.0)
    model = zoo.build(name, batch=NETWORKS.get(name, 4))
    try:
        outcome = build_step(model, settings, load_axioms().adjoints, device).precision
    except InvalidOptionError as error:
        return (*given, str(error), *[""] * (len(COLUMNS) - 6), f"{time.process_time() - start:.0f}")
    assert outcome is not None, "the settings ask for it"
    return (*given, *_cells(outcome), f"{time.process_time() - start:.0f}")


def _cells(outcome: PrecisionOutcome) -> tuple[str, ...]:
    planned, losses = outcome.planned, outcome.losses
    predicted, observed = planned.predicted, planned.observed
    assert predicted is not None, "there is a budget"
    assert observed is not None, "there is a budget"
    assert losses is not None, "there is a budget"
    numbers = (predicted.gradients, observed.gradients, predicted.loss, observed.loss, losses.error)
    return (
        *(f"{number:.1e}" for number in numbers),
        f"{planned.share:.0%}",
        f"{planned.multiplications:.0%}",
        f"{planned.before / planned.after:.2f}x",
    )


if __name__ == "__main__":
    main()
