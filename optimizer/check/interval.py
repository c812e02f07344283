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

from superopt.optimizer.cost.runtime.session import Array

QUANTILE = 0.3
"""Quantile of the times in a round that is used as the time of a run, because disturbances only increase
times."""

DOUBT = 0.01
"""Probability that the interval lies wholly above, or wholly below, the true ratio."""

_SESSION_DEVIATION = 0.03
"""Standard deviation of the ratio between fresh sessions of one model, excluding noise of single runs; 0.003
to 0.02 is observed. With too few rounds for a test, a large value is assumed."""

_LONE_DEVIATION = 0.06
_FEW_ROUNDS = 3
"""The same for fewer rounds than these, on a loaded machine, where other sessions are not representative."""

_PAIR_DEVIATION = 0.1
"""Standard deviation of the ratio of two runs, assumed where there are few pairs."""

_PRIOR_ROUNDS = 6
_PRIOR_PAIRS = 2
"""Weight of the prior variances, as a number of rounds and of pairs."""

_OF_MEDIAN = math.sqrt(math.pi / 2)
"""Ratio of the standard deviation of a median to that of a mean, and of standard deviation to mean absolute
deviation."""

_WIDE = 0.08
"""Width of an interval of logarithms above which it is inconclusive about a gain."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Microseconds of one run before and after, their ratio (above 1 is faster) and its interval, which
    contains the true ratio with probability ``confidence``. ``share`` is the share of wall time in which the
    machine executed the run, 1 on an idle machine."""

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
        """Whether the interval excludes a slowdown and no change."""
        return self.low > 1.0

    @property
    def is_clear(self) -> bool:
        """Whether more rounds would hardly change the answer: the interval is narrow, or far from no
        change."""
        width = self._width
        return width < 0.004 or abs(math.log(self.ratio)) > 2 * width

    @property
    def is_undecided(self) -> bool:
        """Whether the interval excludes neither a relevant gain nor a relevant loss."""
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
    """Standard error of the mean of few rounds, with prior variances."""
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
    """The pairwise means of all values, each with itself included, sorted."""
    first, second = np.triu_indices(len(ratios))
    return np.sort((ratios[first] + ratios[second]) / 2)


@cache
def signed_rank_quantile(count: int, doubt: float) -> int | None:
    """Number of sorted Walsh averages to leave out at either end; None where ``count`` is too small. Computes
    the distribution of the sum of positive ranks by adding one rank at a time."""
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
