"""Any number of models timed in turn, as the optimizer times two; whatever runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from superopt.optimizer.check.latency import repeats, sample, warmed_up
from superopt.optimizer.cost.runtime.session import Array, LoadedModel, ModelFile

_SEED = 0


class Timed(Protocol):
    """A model with its inputs in place."""

    def microseconds(self) -> float:
        """Runs it once; how long that took."""
        ...


Opened: TypeAlias = "Callable[[Mapping[str, Array], int], Timed]"
"""Opens a fresh session of a model, for inputs and a number of threads."""


def in_runtime(model: ModelFile) -> Opened:
    """A model in ONNX Runtime at its highest own optimisation level."""
    return lambda feeds, threads: LoadedModel(model, threads).bind(feeds)


def interleaved(
    models: Sequence[Opened],
    feeds: Mapping[str, Array],
    *,
    threads: int,
    seconds: float,
    rounds: int,
    least: int,
) -> Array:
    """Times of all models in microseconds, shape [rounds, samples, models], at least ``least`` samples each.

    A round has fresh sessions, opened in random order: where one lies in memory is worth some per cent. A
    sample runs all models, in random order. Raises RuntimeRefusedError when a model does not run.
    """
    random = np.random.default_rng(_SEED)
    found: list[Array] = []
    for _ in range(rounds):
        end = time.monotonic() + seconds / rounds
        order = [int(place) for place in random.permutation(len(models))]
        runs = {place: models[place](feeds, threads) for place in order}
        often = repeats(min(warmed_up(run) for run in runs.values()))
        samples: list[Array] = []
        while len(samples) < (len(found[0]) if found else least) or (not found and time.monotonic() < end):
            taken = np.empty(len(models))
            for place in map(int, random.permutation(len(models))):
                taken[place] = sample(runs[place], often)
            samples.append(taken)
        found.append(np.stack(samples))
    return np.stack(found)
