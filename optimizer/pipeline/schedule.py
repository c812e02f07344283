"""Divide the time budget: deadlines for the search that leave time to judge its results."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

EXPLANATION_SHARE = 0.05
"""Share of the budget for the explanation."""

_WRITING_SECONDS_PER_BYTE = 6e-9
_WRITING_SHARE = 0.2
"""Maximum share of the budget reserved for writing the model."""

_OPENING_SECONDS_PER_BYTE = 2e-9
"""Seconds to load a model per byte of its weights, assumed until measured."""

_SHORT = 1.0
"""Seconds; shorter judgements are made regardless of the budget."""

_CHECK_RUNS, _CHECK_LOADS = 8, 1
"""Number of runs and loads in a check: a rewritten model is loaded and run on samples, some of them larger. A
second load, for the list of its kernels, is made only of models that load quickly."""

_ROUND_RUNS, _ROUND_LOADS = 8, 2
"""Number of runs and loads in a round: both models are loaded, run once to warm up, and several times for
timing."""

_QUICK_ROUND_RUNS, _QUICK_ROUND = 20, 1.0
"""Number of runs in a round of a quick model, which has more of them, and their maximum seconds."""

_LEAST_ROUNDS, _WANTED_ROUNDS, _MOST_ROUNDS = 3, 8, 24
"""Number of rounds that are made in any case, and that large and small gains need: the width of an interval
falls with the root of their number, so half the gain needs four times as many."""

_LARGE_GAIN = math.log(1.16)
"""Natural logarithm of a predicted speed-up that counts as large."""


_LEAST_SEARCH_SHARE = 0.1
_SHARES = (0.25, 0.7)
"""Minimum and maximum share of the remaining time for judging; exceeded if the minimum number of rounds takes
longer."""

_SHORT_JUDGING = 5.0
"""Seconds for judging a model after the search was interrupted; more where it takes longer."""

_SPARE = 1.2
_STEP = 5
"""Recommended budgets are multiples of this many seconds."""

_SHORTEST = 0.01
"""Seconds; shorter durations are shown as less than this."""


@dataclass
class SearchTime:
    """Time for a search that begins now and whose result must be judged by ``deadline`` (monotonic clock, as
    all times). Judging takes ``checking`` seconds and ``round_seconds`` for each round of timing; it is given
    from ``least`` to ``most`` seconds. The search ends at ``limit`` at the latest. The ``look`` share of its
    time is left for a second look at its result. ``ends``: the end for what was found so far, second look
    included; ``latest``: that for a large gain, or none yet."""

    deadline: float
    checking: float
    round_seconds: float
    least: float
    most: float
    look: float = 0.0
    limit: float = math.inf
    started: float = field(default_factory=time.monotonic)
    latest: float = field(init=False)
    ends: float = field(init=False)
    _best: float = field(default=math.inf, init=False)

    def __post_init__(self) -> None:
        self.latest = self.ends = self._end(_WANTED_ROUNDS)

    @property
    def is_over(self) -> bool:
        """Whether the search must end now."""
        return time.monotonic() >= self.ends - self.look * max(self.ends - self.started, 0.0)

    def found(self, cost_before: float, best_cost: float) -> None:
        """Sets the end for what the search has found so far, both costs in the same unit: the less it has
        found, the earlier, but not before it has found nothing more for as long as that took."""
        if best_cost >= min(self._best, cost_before):
            return
        self._best = best_cost
        ratio = cost_before / best_cost if best_cost > 0 else math.inf
        nothing_more = 2 * time.monotonic() - self.started
        self.ends = min(self.latest, max(self._end(_rounds(ratio)), nothing_more))

    def _end(self, rounds: int) -> float:
        wanted = self.checking + rounds * self.round_seconds
        return min(self.deadline - min(self.most, max(self.least, wanted)), self.limit)


def _rounds(ratio: float) -> int:
    """Number of rounds of timing that a predicted speed-up needs."""
    gain = min(math.log(ratio), _LARGE_GAIN)
    if gain**2 * _MOST_ROUNDS <= _WANTED_ROUNDS * _LARGE_GAIN**2:
        return _MOST_ROUNDS
    return math.ceil(_WANTED_ROUNDS * (_LARGE_GAIN / gain) ** 2)


@dataclass
class Schedule:
    """Budget of one optimization, counted from ``started`` (monotonic clock). ``loading`` and ``running`` are
    the seconds to load the original and to run it once at the sizes used for timing: estimated and 0 until
    measured."""

    started: float
    budget: float
    weight_bytes: int
    loading: float = field(init=False)
    running: float = 0.0

    def __post_init__(self) -> None:
        self.loading = self.weight_bytes * _OPENING_SECONDS_PER_BYTE

    @property
    def writing(self) -> float:
        """Seconds reserved for writing a model."""
        return min(_WRITING_SECONDS_PER_BYTE * self.weight_bytes, _WRITING_SHARE * self.budget)

    @property
    def end(self) -> float:
        """Time at which the result must be ready for writing."""
        return self.started + self.budget - self.writing

    def until(self, share: float, reserved: float) -> float:
        """End of a share of the budget, leaving the ``reserved`` seconds."""
        return min(self.started + share * (self.budget - self.writing), self.end - reserved)

    @property
    def deadline(self) -> float:
        """Time at which judging must be finished."""
        return self.end - EXPLANATION_SHARE * self.budget

    @property
    def left(self) -> float:
        """Seconds until judging must be finished."""
        return self.deadline - time.monotonic()

    def shorten(self) -> None:
        """Reduces the budget to what has passed and what judging one model takes."""
        wanted = max(_SHORT_JUDGING, self._checking + _WANTED_ROUNDS * self._round)
        needed = time.monotonic() - self.started + wanted + self.writing
        self.budget = min(self.budget, needed / (1 - EXPLANATION_SHARE))

    def explaining(self) -> float:
        """Seconds available for the explanation from now on."""
        return max(0.0, min(EXPLANATION_SHARE * self.budget, self.end - time.monotonic()))

    @property
    def timing(self) -> float:
        """Seconds of the minimum number of timing rounds."""
        return _LEAST_ROUNDS * self._round

    @property
    def judging(self) -> float:
        """Minimum seconds for judging one rewritten model: writing, loading, checking, timing."""
        return self._checking + self.timing

    def is_enough(self) -> bool:
        """Whether a rewritten model can be found and judged in the remaining time; always for small ones
        while any is left."""
        return self.left > 0 and self.judging < max(_SHORT, (1 - _LEAST_SEARCH_SHARE) * self.left)

    def allows_check(self) -> bool:
        """Whether a rewritten model can be written, loaded and run in the remaining time."""
        return self._lasts(self.writing + self.loading + self.running)

    def allows_timing(self) -> bool:
        """Whether both models can be loaded and run a few times in the remaining time."""
        return self._lasts(2 * self.loading + 4 * self.running)

    def _lasts(self, seconds: float) -> bool:
        return seconds <= self.left or seconds < _SHORT

    def search_time(self, *, share: float = 1.0, look: float = 0.0) -> SearchTime:
        """Time for a search that starts now, so that its result can be judged, or for a share of the
        remaining time; a share ``look`` of it is for looking again at what was found."""
        left, now = max(self.left, 0.0), time.monotonic()
        low, high = (part * left for part in _SHARES)
        high = max(high, min(self.judging, (1 - _LEAST_SEARCH_SHARE) * left))
        return SearchTime(
            self.deadline, self._checking, self._round, low, high, look, now + share * left, now
        )

    def advice(self) -> str:
        """Description of the times that the model needs, with a sufficient budget."""
        spent = max(0.0, time.monotonic() - self.started)
        needed = spent + _SPARE * self.judging / (1 - _SHARES[0])
        share = 1 - EXPLANATION_SHARE - (_WRITING_SHARE if self.writing < self._writing_wanted else 0.0)
        enough = max((needed + self._writing_wanted) / (1 - EXPLANATION_SHARE), needed / share)
        budget = _STEP * math.ceil(max(enough, self.budget + _STEP) / _STEP)
        if not self.running:
            return (
                f"{_seconds(spent)} went by before, and the model could not be run once in the rest; that "
                f"needs a budget of at least {budget} s, perhaps more"
            )
        return (
            f"{_seconds(spent)} went by before, loading the model takes {_seconds(self.loading)} and a run "
            f"{_seconds(self.running)}, so "
            f"judging a rewritten one takes {_seconds(self.judging)}; that needs a budget of at least "
            f"{budget} s"
        )

    @property
    def _writing_wanted(self) -> float:
        return _WRITING_SECONDS_PER_BYTE * self.weight_bytes

    @property
    def _checking(self) -> float:
        return self._writing_wanted + _CHECK_LOADS * self.loading + _CHECK_RUNS * self.running

    @property
    def _round(self) -> float:
        running = max(_ROUND_RUNS * self.running, min(_QUICK_ROUND_RUNS * self.running, _QUICK_ROUND))
        return _ROUND_LOADS * self.loading + running


def _seconds(value: float) -> str:
    if value < _SHORTEST:
        return f"less than {_SHORTEST} s"
    return f"{value:.2g} s" if value < 1 else f"{value:.1f} s"
