"""What interleaved timings of two models say: their ratio, and an interval that holds it for certain enough.

Where a session lies in memory is worth up to a few per cent and stays with it for life, so that runs of one
pair of sessions are not independent of each other. A *round* is a fresh pair of sessions; rounds are
independent, and the interval is Student's over rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from optimizer.cost.runtime import Array

QUANTILE = 0.3
"""Runs are compared at this quantile: what else the machine does only ever adds time."""

DOUBT = 0.01
"""The probability that the interval lies wholly above, or wholly below, the true ratio."""

_USUAL_DEVIATION = 0.01
"""Standard deviation of the ratio between rounds of one model against itself, as seen on shared machines;
it counts as much as one round more."""

_SINGLE_ROUND_DEVIATION = 0.03
"""Taken for a single round, which says nothing about others."""

_SINGLE_ROUND_FREEDOM = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """Microseconds of one run before and after, their ratio (above 1 is faster) and its interval, which holds
    the true ratio with probability ``confidence``."""

    before: float
    after: float
    ratio: float
    low: float
    high: float
    runs: int
    confidence: float = 1 - 2 * DOUBT

    @property
    def is_faster(self) -> bool:
        """Whether a slowdown, and no change, are excluded."""
        return self.low > 1.0

    @property
    def is_clear(self) -> bool:
        """Whether more rounds would hardly change the answer: it is precise, or far from no change."""
        width = math.log(self.high / self.low)
        return width < 0.004 or abs(math.log(self.ratio)) > 2 * width


def compared(rounds: Array, doubt: float = DOUBT) -> Comparison:
    """The comparison from times in microseconds, shape [rounds, pairs, 2].

    The interval is that of the mean logarithm of the ratio over rounds, ``doubt`` in each tail. Its variance
    is moderated by what is usual, as in Smyth (2004), so that two lucky rounds are no proof.
    """
    typical = np.log(np.quantile(rounds, QUANTILE, axis=1))
    ratios = typical[:, 0] - typical[:, 1]
    count = len(ratios)
    if count > 1:
        squares = float(np.sum((ratios - ratios.mean()) ** 2))
        variance, freedom = (squares + _USUAL_DEVIATION**2) / count, count
    else:
        variance, freedom = _SINGLE_ROUND_DEVIATION**2, _SINGLE_ROUND_FREEDOM
    half = student_quantile(1 - doubt, freedom) * math.sqrt(variance / count)
    middle = float(ratios.mean())
    before, after = (float(value) for value in np.exp(typical.mean(axis=0)))
    return Comparison(
        before=before,
        after=after,
        ratio=math.exp(middle),
        low=math.exp(middle - half),
        high=math.exp(middle + half),
        runs=rounds[..., 0].size,
        confidence=1 - 2 * doubt,
    )


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
