"""Confidence interval for the latency ratio of two models, from interleaved timings.

Memory placement of a session changes its latency by up to a few per cent for its lifetime, so runs of one
pair of sessions are not independent. A *round* is a fresh pair of sessions, opened and run in random order;
rounds are independent. Each pair of runs contributes the logarithm of its latency ratio, since background
load affects both runs alike; each round contributes the median over its pairs.

With enough rounds for the requested confidence level, the interval is that of Wilcoxon's signed-rank test,
which assumes only that noise affects both models alike. With fewer rounds it is Student's t interval with a
moderated variance, as in Smyth (2004), with a prior from the expected variation between sessions and between
pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np

from superopt.optimizer.cost.runtime import Array

QUANTILE = 0.3
"""Of the times of a round that quantile counts as the time of a run: what else there is only adds to it."""

DOUBT = 0.01
"""The probability that the interval lies wholly above, or wholly below, the true ratio."""

_SESSION_DEVIATION = 0.03
"""Standard deviation of the ratio between fresh sessions of one model, without the noise of single runs; seen
are 0.003 to 0.02. Where rounds are too few to prove anything, it is supposed to be large."""

_LONE_DEVIATION = 0.06
_FEW_ROUNDS = 3
"""The same for fewer rounds than these, on a loaded machine: no other session shows what one suffers."""

_PAIR_DEVIATION = 0.1
"""Standard deviation of the ratio of two runs, where few pairs say little of it."""

_PRIOR_ROUNDS = 6
_PRIOR_PAIRS = 2
"""As many rounds, and as many pairs, what is expected counts."""

_OF_MEDIAN = math.sqrt(math.pi / 2)
"""Standard deviation of a median over that of a mean; and standard deviation over mean deviation."""

_WIDE = 0.08
"""An interval of logarithms that is wider says too little of whether there is a gain."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Microseconds of one run before and after, their ratio (above 1 is faster) and its interval, which holds
    the true ratio with probability ``confidence``.

    ``share`` is the part of the time of a run in which the machine ran it, 1 on a quiet one.
    """

    before: float
    after: float
    ratio: float
    low: float
    high: float
    runs: int
    confidence: float = 1 - 2 * DOUBT
    rounds: int = 1
    share: float = 1.0

    @property
    def is_faster(self) -> bool:
        """Whether a slowdown, and no change, are excluded."""
        return self.low > 1.0

    @property
    def is_clear(self) -> bool:
        """Whether more rounds would hardly change the answer: it is precise, or far from no change."""
        width = self._width
        return width < 0.004 or abs(math.log(self.ratio)) > 2 * width

    @property
    def is_undecided(self) -> bool:
        """Whether neither a gain nor a loss is excluded that would matter."""
        return self.low <= 1.0 <= self.high and self._width > _WIDE

    @property
    def _width(self) -> float:
        return math.log(self.high / self.low)


def compared(rounds: Array, doubt: float = DOUBT) -> Comparison:
    """The comparison from times in microseconds, shape [rounds, pairs, 2], with ``doubt`` in each tail."""
    logarithms = np.log(rounds)
    pairs = logarithms[..., 0] - logarithms[..., 1]
    ratios = np.median(pairs, axis=1)
    sums = _walsh_averages(ratios)
    middle = float(np.median(sums))
    least = signed_rank_quantile(len(ratios), doubt)
    if least is None:
        half = student_quantile(1 - doubt, _PRIOR_ROUNDS + len(ratios) - 1) * _expected_error(pairs, ratios)
        low, high = middle - half, middle + half
    else:
        low, high = float(sums[least]), float(sums[-1 - least])
    before, after = np.exp(np.quantile(logarithms, QUANTILE, axis=1).mean(axis=0))
    return Comparison(
        before=float(before),
        after=float(after),
        ratio=math.exp(middle),
        low=math.exp(low),
        high=math.exp(high),
        runs=rounds[..., 0].size,
        confidence=1 - 2 * doubt,
        rounds=len(ratios),
    )


def pair_deviation(pairs: Array) -> float:
    """Standard deviation of the logarithms of ratios within rounds, shape [rounds, pairs]."""
    count = pairs.shape[1]
    if count < 2:
        return _PAIR_DEVIATION
    apart = np.abs(pairs - np.median(pairs, axis=1, keepdims=True))
    return float(apart.mean()) * _OF_MEDIAN * math.sqrt(count / (count - 1))


def _expected_error(pairs: Array, ratios: Array) -> float:
    """Standard error of the mean of few rounds."""
    of_median = _OF_MEDIAN**2 if pairs.shape[1] > 2 else 1.0
    noise = (_PRIOR_PAIRS * _PAIR_DEVIATION**2 + pairs.size * pair_deviation(pairs) ** 2) / (
        _PRIOR_PAIRS + pairs.size
    )
    count = len(ratios)
    sessions = _LONE_DEVIATION if count < _FEW_ROUNDS else _SESSION_DEVIATION
    expected = sessions**2 + of_median * noise / pairs.shape[1]
    squares = float(np.sum((ratios - ratios.mean()) ** 2))
    return math.sqrt((_PRIOR_ROUNDS * expected + squares) / (_PRIOR_ROUNDS + count - 1) / count)


def _walsh_averages(ratios: Array) -> Array:
    """The means of all two of them, and each itself, sorted."""
    first, second = np.triu_indices(len(ratios))
    return np.sort((ratios[first] + ratios[second]) / 2)


@cache
def signed_rank_quantile(count: int, doubt: float) -> int | None:
    """How many of the sorted Walsh averages may be left out at either end; None where ``count`` is too small.

    The distribution of the sum of positive ranks, by adding one rank after another.
    """
    if 2.0**-count > doubt:
        return None
    ways = np.ones(1)
    for rank in range(1, count + 1):
        ways = np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))
    tail = np.cumsum(ways) / 2.0**count
    return int(np.searchsorted(tail, doubt, side="right")) - 1


def student_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t: exact for one and two degrees of freedom, else Hill's expansion (1970)."""
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom == 2:
        return (2 * probability - 1) * math.sqrt(2 / (4 * probability * (1 - probability)))
    z = NormalDist().inv_cdf(probability)
    a = 1 / (freedom - 0.5)
    b = 48 / a**2
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * freedom
    y = (d * 2 * (1 - probability)) ** (2 / freedom)
    if y > 0.05 + a:
        y = z**2
        if freedom < 5:
            c += 0.3 * (freedom - 4.5) * (z + 0.6)
        c = (((0.05 * d * z - 5) * z - 7) * z - 2) * z + b + c
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * z
        y = math.expm1(a * y**2)
    else:
        e = 1 / (((freedom + 6) / (freedom * y) - 0.089 * d - 0.822) * (freedom + 2) * 3)
        y = ((e + 0.5 / (freedom + 4)) * y - 1) * (freedom + 1) / (freedom + 2) + 1 / y
    return math.sqrt(freedom * y)
