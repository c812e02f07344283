"""When a search ends, so that what it has found can be judged.

How many rounds of timing show that a model is faster depends on the gain: the width of an interval falls with
the root of the number of rounds, so half the gain needs four times as many. A search that goes on without
finding more ends earlier the less it has found.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

FEWEST_ROUNDS, _MOST_ROUNDS = 8, 24
_LARGE_GAIN = math.log(1.16)
"""Natural logarithm of a predicted speed-up for which the fewest rounds suffice."""


@dataclass
class SearchTime:
    """Time for a search that begins now and whose result must be judged by ``deadline`` (monotonic clock, as
    all times). Judging takes ``checking`` seconds and ``round_seconds`` for each round of timing; it is given
    from ``least`` to ``most`` seconds. The search ends at ``limit`` at the latest. The ``look`` share of its
    time is left for a second look at its result."""

    deadline: float
    checking: float
    round_seconds: float
    least: float
    most: float
    look: float = 0.0
    limit: float = math.inf
    started: float = field(default_factory=time.monotonic)
    _improved: float = field(init=False)
    _best: float = field(default=math.inf, init=False)
    _ratio: float = field(default=math.inf, init=False)

    def __post_init__(self) -> None:
        self._improved = self.started

    @property
    def latest(self) -> float:
        """The end for a large gain, or none yet."""
        return self._end(FEWEST_ROUNDS)

    @property
    def ends(self) -> float:
        """The end for what was found so far, second look included."""
        since_improved = 2 * self._improved - self.started
        return min(self.latest, max(self._end(_rounds(self._ratio)), since_improved))

    @property
    def is_over(self) -> bool:
        """Whether the search must end now."""
        ends = self.ends
        return time.monotonic() >= ends - self.look * max(ends - self.started, 0.0)

    def found(self, cost_before: float, best_cost: float) -> None:
        """Records what the search has found so far, both costs in the same unit."""
        if best_cost < min(self._best, cost_before):
            self._best, self._improved = best_cost, time.monotonic()
            self._ratio = cost_before / best_cost if best_cost > 0 else math.inf

    def _end(self, rounds: int) -> float:
        wanted = self.checking + rounds * self.round_seconds
        return min(self.deadline - min(self.most, max(self.least, wanted)), self.limit)


def _rounds(ratio: float) -> int:
    """Number of rounds of timing that a predicted speed-up needs."""
    gain = min(math.log(ratio), _LARGE_GAIN)
    if gain**2 * _MOST_ROUNDS <= FEWEST_ROUNDS * _LARGE_GAIN**2:
        return _MOST_ROUNDS
    return math.ceil(FEWEST_ROUNDS * (_LARGE_GAIN / gain) ** 2)
