"""Any number of models timed in turn, as the optimizer times two."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from optimizer.check.latency import repeats, sample, warmed_up
from optimizer.cost.runtime import Array, LoadedModel, ModelFile

_SEED = 0


def interleaved(
    models: Sequence[ModelFile],
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
        runs = {place: LoadedModel(models[place], threads).bind(feeds) for place in order}
        often = repeats(min(warmed_up(run) for run in runs.values()))
        samples: list[Array] = []
        while len(samples) < (len(found[0]) if found else least) or (not found and time.monotonic() < end):
            taken = np.empty(len(models))
            for place in map(int, random.permutation(len(models))):
                taken[place] = sample(runs[place], often)
            samples.append(taken)
        found.append(np.stack(samples))
    return np.stack(found)
