"""Compare the losses of a step in mixed precision with those in float32 over consecutive steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from superopt.onnx_io import LoweredModel
from superopt.optimizer.training.precision.subject import Feeds
from superopt.optimizer.training.running import Step

STEPS = 50
"""Steps that are compared."""

RATE = 1e-3
"""The learning rate of steps that have it as an input."""


@dataclass(frozen=True, slots=True)
class LossComparison:
    """Losses of the same batches in float32 and in mixed precision, each from its own states. ``error`` is
    the root mean square of the differences, as a share of the mean loss in float32."""

    exact: tuple[float, ...]
    mixed: tuple[float, ...]

    @property
    def error(self) -> float:
        """The share; infinite where a loss is not finite."""
        squares = sum((a - b) ** 2 for a, b in zip(self.exact, self.mixed, strict=True))
        mean = sum(map(abs, self.exact)) / len(self.exact)
        error = math.sqrt(squares / len(self.exact)) / (mean or 1.0)
        return error if math.isfinite(error) else math.inf


def compare_losses(exact: LoweredModel, mixed: LoweredModel, batches: Sequence[Feeds]) -> LossComparison:
    """The losses of ``STEPS`` calls of both steps from their initial states, on the batches in turn. Raises
    RuntimeRefusedError where one does not run."""
    return LossComparison(_losses(exact, batches), _losses(mixed, batches))


def _losses(model: LoweredModel, batches: Sequence[Feeds]) -> tuple[float, ...]:
    step = Step(model.to_bytes(), threads=1)
    rate = None if step.description.rate_input is None else RATE
    return tuple(step.run(batch, learning_rate=rate) for batch in islice(cycle(batches), STEPS))


__all__ = ["RATE", "LossComparison", "compare_losses"]
