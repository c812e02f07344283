"""Which of two models is faster: interleaved runs of both, and a confidence interval of the ratio."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optimizer.cost.runtime import Array, BoundRun, LoadedModel, ModelFile

_QUANTILE = 0.3
"""Runs are compared at this quantile: what else the machine does only ever adds time."""

_MIN_PAIRS = 6
_USUAL_PAIRS = 12
_MAX_PAIRS = 400
_SHORTEST_SAMPLE = 500.0
_RESAMPLES = 1000
_CONFIDENCE = 0.98


@dataclass(frozen=True, slots=True)
class Comparison:
    """Microseconds of one run before and after, their ratio (above 1 is faster) and its interval."""

    before: float
    after: float
    ratio: float
    low: float
    high: float
    runs: int

    @property
    def is_faster(self) -> bool:
        """Whether a slowdown, and no change, are excluded."""
        return self.low > 1.0

    @property
    def is_clear(self) -> bool:
        """Whether more runs would hardly change the answer."""
        return self.low > 1.0 or self.high < 1.0 or self.high - self.low < 0.004


def compare_latency(
    before: ModelFile,
    after: ModelFile,
    feeds: Mapping[str, Array],
    *,
    threads: int,
    seconds: float,
    seed: int = 0,
) -> Comparison:
    """Times both models at the runtime's full optimisation, in turn and in random order within each pair.

    Sessions are opened twice, in either order, because where a session lies in memory is worth a per cent.
    Raises RuntimeRefusedError when a model does not run.
    """
    end = time.monotonic() + seconds
    random = np.random.default_rng(seed)
    pairs: list[tuple[float, float]] = []
    for placement in range(2):
        opened = time.monotonic()
        models = (before, after) if placement == 0 else (after, before)
        loaded = [LoadedModel(model, threads) for model in models]
        runs = [model.bind(feeds) for model in loaded]
        if placement == 1:
            runs.reverse()
        repeats = _warm_up(runs)
        opening = time.monotonic() - opened
        share = (end - time.monotonic() - opening) / 2 if placement == 0 else end - time.monotonic()
        pairs.extend(_timed_pairs(runs, repeats, random, time.monotonic() + share))
        if placement == 0 and time.monotonic() + opening > end and len(pairs) >= _MIN_PAIRS:
            break
    return comparison_of(np.asarray(pairs), random)


def _warm_up(runs: list[BoundRun]) -> int:
    """Runs both a few times; how many runs make a sample long enough for the clock."""
    shortest = min(min(run.microseconds() for _ in range(3)) for run in runs)
    return max(1, int(_SHORTEST_SAMPLE / max(shortest, 1.0)))


def _timed_pairs(
    runs: list[BoundRun], repeats: int, random: np.random.Generator, end: float
) -> list[tuple[float, float]]:
    pairs: list[tuple[float, float]] = []
    while len(pairs) < _MAX_PAIRS and (len(pairs) < _MIN_PAIRS or time.monotonic() < end):
        times = [0.0, 0.0]
        for which in (0, 1) if random.random() < 0.5 else (1, 0):
            times[which] = min(runs[which].microseconds() for _ in range(repeats))
        pairs.append((times[0], times[1]))
        if len(pairs) >= 2 * _USUAL_PAIRS and len(pairs) % _USUAL_PAIRS == 0:
            so_far = comparison_of(np.asarray(pairs), np.random.default_rng(0))
            if so_far.high - so_far.low < 0.004:
                break
    return pairs


def comparison_of(pairs: Array, random: np.random.Generator) -> Comparison:
    """What pairs of times, shape [pairs, 2] in microseconds, say; the interval is bootstrapped."""
    before, after = (float(value) for value in np.quantile(pairs, _QUANTILE, axis=0))
    chosen = random.integers(0, len(pairs), (_RESAMPLES, len(pairs)))
    resampled = np.quantile(pairs[chosen], _QUANTILE, axis=1)
    ratios = resampled[:, 0] / resampled[:, 1]
    tail = (1 - _CONFIDENCE) / 2
    low, high = (float(value) for value in np.quantile(ratios, (tail, 1 - tail)))
    return Comparison(before, after, before / after, low, high, len(pairs))
