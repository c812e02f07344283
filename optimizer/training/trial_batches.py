"""Batches on which a step is tried: from an archive of samples, or random."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np

from superopt.domains import Array
from superopt.errors import InvalidModelError, UnsupportedError
from superopt.onnx_io import ModelSource, lift, load_model
from superopt.optimizer.check import declared_ports, plan_inputs
from superopt.optimizer.training.dataset import Batching, Dataset, Position
from superopt.optimizer.training.running import Step

Feeds: TypeAlias = Mapping[str, Array]
"""The contents of data inputs by name."""

BATCHES, SAMPLES = 8, 4
"""Distinct batches, and the number of them with which errors of gradients are predicted and observed."""

_SEED = 0


def batches_of(model: ModelSource, samples: Path | None, what: str, advice: str) -> tuple[Feeds, ...]:
    """Contents of the data inputs of a step: ``BATCHES`` random batches, or up to as many of an archive of
    samples. Raises InvalidFileError for an archive that does not fit, InvalidModelError, which
    begins with ``what`` it is for and ends with the ``advice``, for inputs for which nothing can be drawn."""
    return _drawn(model, what, advice) if samples is None else _read(model, samples)


def _read(model: ModelSource, samples: Path) -> tuple[Feeds, ...]:
    step = Step(model, threads=1)
    dataset = Dataset.of(samples, step.data)
    batching = Batching.of(step, dataset, None, _SEED)
    count = min(BATCHES, max(1, dataset.count // batching.size))
    return tuple(
        {name: array.take(chosen, axis=0) for name, array in dataset.arrays.items()}
        for chosen, _ in islice(batching.batches(Position()), count)
    )


def _drawn(model: ModelSource, what: str, advice: str) -> tuple[Feeds, ...]:
    lifted = lift(load_model(model))
    plan = plan_inputs(lifted, declared_ports(lifted), {})
    sizes = next(iter(plan.usual_sizes()))
    random = np.random.default_rng(_SEED)
    try:
        return tuple(plan.draw(random, sizes, "normal") for _ in range(BATCHES))
    except UnsupportedError as error:
        raise InvalidModelError(f"{what}: {error}; {advice}") from error


__all__ = ["BATCHES", "SAMPLES", "Feeds", "batches_of"]
