"""Compare the losses of a step with those of one that is not equal to it, over consecutive calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from superopt.optimizer.training.running import Step
from superopt.optimizer.training.trial_batches import Feeds

STEPS = 50
"""Steps that are compared."""

RATE = 1e-3
"""The learning rate of steps that have it as an input."""


@dataclass(frozen=True, slots=True)
class LossComparison:
    """Losses of the same batches in the ``exact`` step and in the ``other`` one, each from its own states.
    ``error`` is the root mean square of the differences, as a share of the mean of the exact losses."""

    exact: tuple[float, ...]
    other: tuple[float, ...]

    @property
    def error(self) -> float:
        """The share; infinite where a loss is not finite."""
        squares = sum((a - b) ** 2 for a, b in zip(self.exact, self.other, strict=True))
        mean = sum(map(abs, self.exact)) / len(self.exact)
        error = math.sqrt(squares / len(self.exact)) / (mean or 1.0)
        return error if math.isfinite(error) else math.inf


def compare_losses(exact: Step, other: Step, batches: Sequence[Feeds]) -> LossComparison:
    """The losses of ``STEPS`` calls of both steps from their present states, on the batches in turn."""
    return LossComparison(_losses(exact, batches), _losses(other, batches))


def _losses(step: Step, batches: Sequence[Feeds]) -> tuple[float, ...]:
    rate = None if step.description.rate_input is None else RATE
    return tuple(step.run(batch, learning_rate=rate) for batch in islice(cycle(batches), STEPS))


__all__ = ["RATE", "LossComparison", "compare_losses"]
