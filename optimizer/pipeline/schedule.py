"""Divide the time budget: deadlines for the search that leave time to judge its results."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

EXPLANATION_SHARE = 0.05
"""Share of the budget for explaining the outcome."""

_WRITING_SECONDS_PER_BYTE = 6e-9
_WRITING_SHARE = 0.2
"""At most this share of the budget is kept for writing the model."""

_OPENING_SECONDS_PER_BYTE = 2e-9
"""Before it was measured."""

_SHORT = 1.0
"""Seconds; what is judged faster is judged whatever the budget."""

_CHECK_RUNS, _CHECK_LOADS = 8, 1
"""A rewritten model is opened once, and run on samples, some of them larger."""

_ROUND_RUNS, _ROUND_LOADS = 8, 2
"""In a round both models are opened, run once to warm up, and some times to be timed."""

_LEAST_ROUNDS, _WANTED_ROUNDS = 3, 8

_LEAST_SEARCH_SHARE = 0.1
_SHARES = (0.25, 0.6)
"""Of the time left, for judging: at least, and at most unless the least number of rounds takes longer."""

_SPARE = 1.2
_STEP = 5
"""A budget is recommended in multiples of so many seconds."""

_SHORTEST = 0.01
"""Seconds; what takes less plays no part in what is said of a budget."""


@dataclass
class Schedule:
    """The budget of one optimization, which counts from ``started`` (monotonic clock).

    ``loading`` and ``running`` are the seconds that the original takes to be opened and to be run once at
    the sizes that it is timed at: estimated and 0 until they were measured.
    """

    started: float
    budget: float
    weight_bytes: int
    loading: float = field(init=False)
    running: float = 0.0

    def __post_init__(self) -> None:
        self.loading = self.weight_bytes * _OPENING_SECONDS_PER_BYTE

    @property
    def writing(self) -> float:
        """Seconds for writing a model."""
        return min(_WRITING_SECONDS_PER_BYTE * self.weight_bytes, _WRITING_SHARE * self.budget)

    @property
    def end(self) -> float:
        """When there must be a result to be written."""
        return self.started + self.budget - self.writing

    def until(self, share: float, reserved: float) -> float:
        """The end of a share of the budget, so that seconds are left of it that are ``reserved``."""
        return min(self.started + share * (self.budget - self.writing), self.end - reserved)

    @property
    def deadline(self) -> float:
        """When judging must be over."""
        return self.end - EXPLANATION_SHARE * self.budget

    @property
    def left(self) -> float:
        """Seconds until judging must be over."""
        return self.deadline - time.monotonic()

    def explaining(self) -> float:
        """Seconds for the explanation from now on."""
        return max(0.0, min(EXPLANATION_SHARE * self.budget, self.end - time.monotonic()))

    @property
    def timing(self) -> float:
        """Seconds of the least number of rounds of timing."""
        return _LEAST_ROUNDS * self._round

    @property
    def judging(self) -> float:
        """Seconds that judging one rewritten model takes at least: writing, opening, checking, timing."""
        return self._checking + self.timing

    def is_enough(self) -> bool:
        """Whether a rewritten model can be found and judged in the time that is left; one that takes little
        while any is left."""
        return self.left > 0 and self.judging < max(_SHORT, (1 - _LEAST_SEARCH_SHARE) * self.left)

    def allows_check(self) -> bool:
        """Whether a rewritten model can be written, opened and run in the time that is left."""
        return self._lasts(self.writing + self.loading + self.running)

    def allows_timing(self) -> bool:
        """Whether both models can be opened and run a few times in the time that is left."""
        return self._lasts(2 * self.loading + 4 * self.running)

    def _lasts(self, seconds: float) -> bool:
        return seconds <= self.left or seconds < _SHORT

    def search_ends(self) -> float:
        """When a search that begins now must be over (monotonic clock), so that what it finds is judged."""
        left = max(self.left, 0.0)
        low, high = (share * left for share in _SHARES)
        wanted = self._checking + _WANTED_ROUNDS * self._round
        high = max(high, min(self.judging, (1 - _LEAST_SEARCH_SHARE) * left))
        return self.deadline - min(high, max(low, wanted))

    def advice(self) -> str:
        """What the model takes, and the budget that would do."""
        spent = max(0.0, time.monotonic() - self.started)
        needed = spent + _SPARE * self.judging / (1 - _SHARES[0])
        share = 1 - EXPLANATION_SHARE - (_WRITING_SHARE if self.writing < self._writing_wanted else 0.0)
        enough = max((needed + self._writing_wanted) / (1 - EXPLANATION_SHARE), needed / share)
        budget = _STEP * math.ceil(max(enough, self.budget + _STEP) / _STEP)
        return (
            f"loading the model takes {_seconds(self.loading)} and a run {_seconds(self.running)}, so "
            f"judging a rewritten one takes {_seconds(self.judging)}; a budget of {budget} s is enough"
        )

    @property
    def _writing_wanted(self) -> float:
        return _WRITING_SECONDS_PER_BYTE * self.weight_bytes

    @property
    def _checking(self) -> float:
        return self._writing_wanted + _CHECK_LOADS * self.loading + _CHECK_RUNS * self.running

    @property
    def _round(self) -> float:
        return _ROUND_LOADS * self.loading + _ROUND_RUNS * self.running


def _seconds(value: float) -> str:
    if value < _SHORTEST:
        return f"less than {_SHORTEST} s"
    return f"{value:.2g} s" if value < 1 else f"{value:.1f} s"
