"""Which of two models is faster: interleaved runs of both in rounds of fresh sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from optimizer.check.interval import DOUBT, Comparison, compared
from optimizer.cost.runtime import Array, BoundRun, LoadedModel, ModelFile, Provider

_MAX_ROUNDS = 24
_MIN_ROUNDS = 3
_WANTED_ROUNDS = 6
_GRACE = 1.0
"""Seconds by which the time may be exceeded for the sake of the least number of rounds."""

_MAX_PAIRS = 12
_MIN_PAIRS = 3
_SHORTEST_SAMPLE = 500.0
"""Microseconds; of shorter runs as many as fit make one sample, which is the fastest of them."""

_WARM_UP = 50_000.0
"""Microseconds; a model that runs longer is warm after one run."""

Pairs: TypeAlias = "list[tuple[float, float]]"


@dataclass(frozen=True, slots=True)
class _Contest:
    """Both models, how to run them, and chance."""

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


Round: TypeAlias = "Callable[[_Contest, Sequence[int], int | None, float], Pairs]"
"""Times in one round, of models opened in an order: so many pairs, or as many as suit; the seconds that it
should take."""


def _side_by_side(contest: _Contest, order: Sequence[int], pairs: int | None, seconds: float) -> Pairs:
    opened = time.monotonic()
    runs = {which: contest.run(which) for which in order}
    often = repeats(min(warmed_up(run) for run in runs.values()))
    opening = time.monotonic() - opened
    timed: Pairs = []
    while pairs is None or len(timed) < pairs:
        began = time.monotonic()
        times = [0.0, 0.0]
        for which in (0, 1) if contest.random.random() < 0.5 else (1, 0):
            times[which] = sample(runs[which], often)
        timed.append((times[0], times[1]))
        if pairs is None:
            pairs = _pairs(opening, time.monotonic() - began, seconds)
    return timed


def _one_by_one(contest: _Contest, order: Sequence[int], pairs: int | None, seconds: float) -> Pairs:
    times: dict[int, list[float]] = {}
    for which in order:
        opened = time.monotonic()
        run = contest.run(which)
        shortest = warmed_up(run)
        opening = time.monotonic() - opened
        often = repeats(shortest)
        pairs = pairs or _pairs(2 * opening, 2e-6 * shortest * often, seconds)
        times[which] = [sample(run, often) for _ in range(pairs)]
        del run
    return list(zip(times[0], times[1], strict=True))


def compare_latency(
    before: ModelFile,
    after: ModelFile,
    feeds: Mapping[str, Array],
    *,
    threads: int,
    seconds: float,
    doubt: float = DOUBT,
    seed: int = 0,
    provider: Provider = Provider.CPU,
    round_of: Round = _side_by_side,
) -> Comparison:
    """Times both models at the runtime's full optimisation, in turn and in random order within each pair.

    Stops when more rounds would hardly change the answer. ``doubt`` is the probability of either
    tail beyond the interval. Raises RuntimeRefusedError when a model does not run.
    """
    contest = _Contest(before, after, feeds, threads, np.random.default_rng(seed), provider)
    return _compare(contest, round_of, seconds, doubt)


compare_latency_apart = partial(compare_latency, round_of=_one_by_one)
"""Like ``compare_latency``, but never with both models in memory: for those that fill it."""


def _compare(contest: _Contest, round_of: Round, seconds: float, doubt: float) -> Comparison:
    """Rounds until the answer is clear or the time is over.

    What stops the rounds early is how clear the answer is, not which: a test that goes on until it likes the
    answer would find one.
    """
    end = time.monotonic() + seconds
    rounds: list[Pairs] = []
    while len(rounds) < _MAX_ROUNDS:
        began = time.monotonic()
        order = (0, 1) if len(rounds) % 2 == 0 else (1, 0)
        pairs = len(rounds[0]) if rounds else None
        rounds.append(round_of(contest, order, pairs, seconds / _WANTED_ROUNDS))
        now = time.monotonic()
        next_ends = now + (now - began)
        if len(rounds) < _MIN_ROUNDS:
            if next_ends > end + _GRACE:
                break
        elif next_ends > end or compared(np.asarray(rounds), doubt).is_clear:
            break
    return compared(np.asarray(rounds), doubt)


def _pairs(opening: float, pair: float, seconds: float) -> int:
    """How many pairs a round has: timing takes as long as opening does, or longer where there is time."""
    as_opening, affordable = (int(span / max(pair, 1e-6)) for span in (opening, seconds - opening))
    return min(_MAX_PAIRS, max(1, as_opening, min(_MIN_PAIRS, affordable)))


def warmed_up(run: BoundRun) -> float:
    """Runs until the slow first runs are over; the microseconds of the fastest one."""
    shortest = run.microseconds()
    if shortest < _WARM_UP:
        shortest = min(run.microseconds() for _ in range(3))
    return shortest


def repeats(shortest: float) -> int:
    """How many runs of so many microseconds make a sample long enough for the clock."""
    return max(1, int(_SHORTEST_SAMPLE / max(shortest, 1.0)))


def sample(run: BoundRun, often: int) -> float:
    """The microseconds of the fastest of several runs."""
    return min(run.microseconds() for _ in range(often))
