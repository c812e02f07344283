"""Batches with which errors of a step are predicted and observed: from an archive of samples, or random."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np

from superopt.errors import InvalidModelError, UnsupportedError
from superopt.onnx_io import LoweredModel, lift, load_model
from superopt.optimizer.check import declared_ports, plan_inputs
from superopt.optimizer.training.dataset import Batching, Dataset, Position
from superopt.optimizer.training.precision.subject import Feeds
from superopt.optimizer.training.running import Step

BATCHES, SAMPLES = 8, 4
"""Distinct batches, and the number of them with which errors of gradients are predicted and observed."""

_SEED = 0


def batches_of(model: LoweredModel, samples: Path | None) -> tuple[Feeds, ...]:
    """Contents of the data inputs of a step: ``BATCHES`` random batches, or up to as many of an archive of
    samples. Raises InvalidFileError for an archive that does not fit, InvalidModelError for inputs for which
    nothing can be drawn."""
    return _drawn(model) if samples is None else _read(model, samples)


def _read(model: LoweredModel, samples: Path) -> tuple[Feeds, ...]:
    step = Step(model.to_bytes(), threads=1)
    dataset = Dataset.of(samples, step.data)
    batching = Batching.of(step, dataset, None, _SEED)
    count = min(BATCHES, max(1, dataset.count // batching.size))
    return tuple(
        {name: array.take(chosen, axis=0) for name, array in dataset.arrays.items()}
        for chosen, _ in islice(batching.batches(Position()), count)
    )


def _drawn(model: LoweredModel) -> tuple[Feeds, ...]:
    lifted = lift(load_model(model.to_bytes()))
    plan = plan_inputs(lifted, declared_ports(lifted), {})
    sizes = next(iter(plan.usual_sizes()))
    random = np.random.default_rng(_SEED)
    try:
        return tuple(plan.draw(random, sizes, "normal") for _ in range(BATCHES))
    except UnsupportedError as error:
        raise InvalidModelError(
            f"error budget: {error}; give samples with --precision-data SAMPLES.npz"
        ) from error


__all__ = ["BATCHES", "SAMPLES", "batches_of"]
