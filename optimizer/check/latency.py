"""Compare the latency of two models: interleaved runs in rounds of fresh sessions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from superopt.optimizer.check.interval import DOUBT, Comparison, compared, pair_deviation
from superopt.optimizer.cost.runtime.session import Array, BoundRun, LoadedModel, ModelFile, Provider, RunTime

_LOOKS = (3, 6, 12, 24)
"""Numbers of rounds after which timing may stop if the result is clear."""

_MOST_LOOKS = len(_LOOKS) + 2
"""Total number of interim analyses, including those at the ends of the time and the extended time."""

_MIN_ROUNDS = _LOOKS[0]
_USUAL_ROUNDS = _LOOKS[-1]
_MAX_ROUNDS = 2 * _USUAL_ROUNDS
_WANTED_ROUNDS = 8
_GRACE = 1.0
"""Seconds by which the time limit may be exceeded to reach the minimum number of rounds."""

_PILOT_PAIRS = 4
_MIN_PAIRS = 3
_MAX_PAIRS = 24
_SESSION_NOISE = 0.01
"""Usual standard deviation of the ratio between fresh sessions: more pairs do not make a round more
precise."""

_SHORTEST_SAMPLE = 500.0
"""Microseconds of one sample: as many shorter runs as fit, of which the fastest counts."""

_WARM_UP = 50_000.0
"""Microseconds; a model with longer runs is warm after one run."""

Pair: TypeAlias = "tuple[RunTime, RunTime]"
Pairs: TypeAlias = "list[Pair]"


@dataclass(frozen=True, slots=True)
class ModelPair:
    """Two models, how to run them, and the random generator."""

    before: ModelFile
    after: ModelFile
    feeds: Mapping[str, Array]
    threads: int
    random: np.random.Generator
    provider: Provider

    def run(self, which: int) -> BoundRun:
        """A fresh session of the first or the second model."""
        model = self.after if which else self.before
        return LoadedModel(model, self.threads, provider=self.provider).bind(self.feeds)


Round: TypeAlias = "Callable[[ModelPair, Sequence[int], int | None, float], Pairs]"
"""One round: times of both models, loaded in random order; the number of pairs (None: as many as suit) and
the target duration in seconds."""


def _side_by_side(models: ModelPair, order: Sequence[int], pairs: int | None, seconds: float) -> Pairs:
    opened = time.monotonic()
    runs = {which: models.run(which) for which in order}
    often = repeats(min(warmed_up(run) for run in runs.values()))
    opening = time.monotonic() - opened
    timed: Pairs = []
    began = time.monotonic()
    while pairs is None or len(timed) < pairs:
        first = int(models.random.integers(2))
        times = {which: fastest(runs[which], often) for which in (first, 1 - first)}
        timed.append((times[0], times[1]))
        if pairs is None:
            one = (time.monotonic() - began) / len(timed)
            most = _affordable(opening, one, seconds)
            if len(timed) >= min(_PILOT_PAIRS, most):
                pairs = max(len(timed), min(most, _worthwhile(opening, one, timed)))
    return timed


def _one_by_one(models: ModelPair, order: Sequence[int], pairs: int | None, seconds: float) -> Pairs:
    times: dict[int, list[RunTime]] = {}
    for which in order:
        opened = time.monotonic()
        run = models.run(which)
        shortest = warmed_up(run)
        opening = time.monotonic() - opened
        often = repeats(shortest)
        one = 2e-6 * shortest * often
        most = _affordable(2 * opening, one, seconds)
        pairs = pairs or min(most, max(_PILOT_PAIRS, int(2 * opening / max(one, 1e-6))))
        times[which] = [fastest(run, often) for _ in range(pairs)]
        del run
    return list(zip(times[0], times[1], strict=True))


def compare_latency(
    before: ModelFile,
    after: ModelFile,
    feeds: Mapping[str, Array],
    *,
    threads: int,
    seconds: float,
    longest: float = 0.0,
    doubt: float = DOUBT,
    seed: int = 0,
    provider: Provider = Provider.CPU,
    round_of: Round = _side_by_side,
    is_cut_short: Callable[[], bool] = lambda: False,
) -> Comparison:
    """Times both models at the runtime's full optimisation, alternating and in random order within each pair.
    Stops when more rounds would hardly change the answer, or after ``seconds``; if undecided then, after
    ``longest``; after the minimum number of rounds once ``is_cut_short`` is true. ``doubt`` is the
    probability of either tail outside the interval. Times are processor times; with several threads, the
    interval also contains the ratio by wall time. Raises RuntimeRefusedError when a model does not run."""
    models = ModelPair(before, after, feeds, threads, np.random.default_rng(seed), provider)
    return _compare(models, round_of, seconds, max(seconds, longest), doubt, is_cut_short)


compare_latency_apart = partial(compare_latency, round_of=_one_by_one)
"""Like ``compare_latency``, but never holds both models in memory: for models that fill it."""


def _compare(
    models: ModelPair,
    round_of: Round,
    seconds: float,
    longest: float,
    doubt: float,
    is_cut_short: Callable[[], bool],
) -> Comparison:
    """Runs rounds until the answer is clear or time is over. The stopping rule depends on how clear the
    answer is, not on which it is, and the number of interim analyses is limited: testing until the result is
    significant would be biased. Each analysis spends its own part of ``doubt``; the last one spends the
    rest."""
    start = time.monotonic()
    rounds: list[Pairs] = []
    is_prolonged, left = False, doubt
    for order in _orders(models.random):
        began = time.monotonic()
        pairs = len(rounds[0]) if rounds else None
        rounds.append(round_of(models, order, pairs, seconds / _WANTED_ROUNDS))
        now = time.monotonic()
        count, next_ends = len(rounds), 2 * now - began - start
        grace = _GRACE if count < _MIN_ROUNDS else 0.0
        is_last = count >= _MAX_ROUNDS or next_ends > longest + grace
        is_last = is_last or (count >= _MIN_ROUNDS and is_cut_short())
        is_over = next_ends > seconds + grace or count >= _USUAL_ROUNDS
        if not (is_last or count in _LOOKS or (is_over and not is_prolonged)):
            continue
        taken = left if is_last else left / 2 if is_over else doubt / _MOST_LOOKS
        left -= taken
        found = _found(rounds, taken, models.threads)
        if is_last or found.is_clear or (is_over and not found.is_undecided):
            return replace(found, confidence=1 - 2 * doubt)
        is_prolonged = is_over
    raise AssertionError("rounds end by their number at the latest")


def _orders(random: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Yield the order in which the two models are loaded in each round: random, each order equally often."""
    while True:
        first = int(random.integers(2))
        yield first, 1 - first
        yield 1 - first, first


def _found(rounds: Sequence[Pairs], doubt: float, threads: int) -> Comparison:
    """The comparison by processor time. With several threads the interval also contains the ratio by wall
    time: a model that waits longer for its threads does not compute less."""
    times = np.asarray([[[(t.processor, t.wall) for t in pair] for pair in pairs] for pairs in rounds])
    times = np.maximum(times, 1e-3)
    found = compared(times[..., 0], doubt)
    found = replace(found, share=min(1.0, float(np.median(times[..., 0] / times[..., 1]))))
    if threads == 1:
        return found
    wall = compared(times[..., 1], doubt).ratio
    return replace(found, low=min(found.low, wall), high=max(found.high, wall))


def _affordable(opening: float, pair: float, seconds: float) -> int:
    """Number of pairs that fit in a round of this many seconds, or in one and a half times the loading
    time."""
    return min(_MAX_PAIRS, max(_MIN_PAIRS, int(max(seconds - opening, opening / 2) / max(pair, 1e-6))))


def _worthwhile(opening: float, pair: float, timed: Pairs) -> int:
    """Number of pairs per round that minimises the variance of the mean over rounds per unit of time: larger
    for noisier pairs and for slower loading."""
    ratios = np.log([[max(b.processor, 1e-3) / max(a.processor, 1e-3) for b, a in timed]])
    noise = pair_deviation(ratios) / _SESSION_NOISE
    return max(_MIN_PAIRS, min(_MAX_PAIRS, math.ceil(noise * math.sqrt(opening / max(pair, 1e-6)))))


def warmed_up(run: BoundRun) -> float:
    """Runs until warm; returns the microseconds of the fastest run."""
    shortest = run.microseconds()
    if shortest < _WARM_UP:
        shortest = min(run.microseconds() for _ in range(3))
    return shortest


def repeats(shortest: float) -> int:
    """Number of runs of this many microseconds that make a sample long enough for the clock."""
    return max(1, int(_SHORTEST_SAMPLE / max(shortest, 1.0)))


def sample(run: BoundRun, often: int) -> float:
    """The microseconds of the fastest of several runs."""
    return min(run.microseconds() for _ in range(often))


def fastest(run: BoundRun, often: int) -> RunTime:
    """The fastest of several runs, by each clock separately."""
    runs = [run.timed() for _ in range(often)]
    return RunTime(min(run.wall for run in runs), min(run.processor for run in runs))
