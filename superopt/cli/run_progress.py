"""How far an optimization is, for the display: phases, seconds left, best gain; and how loud a command is."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from superopt.cli.logs import warn
from superopt.cli.progress import Status, clock
from superopt.errors import InvalidOptionError
from superopt.journeys.supervision import Job

INTERRUPTED = (
    "interrupted: the search ends, the best model so far is checked (Ctrl-C again: stop, write nothing)"
)

_ACTIVITIES: Mapping[object, str] = {
    "step": "building the step",
    "pricing": "measuring",
    "search": "searching",
    "check": "checking",
    "timing": "timing",
}
"""What is shown for the phases of an optimization."""

_SHOWN_CHARACTERS = 300
"""Longer warnings are shown in full only on request."""


class Loudness(Enum):
    """How much a command prints besides its result: errors only; progress; phases and full warnings, too."""

    QUIET = auto()
    NORMAL = auto()
    VERBOSE = auto()

    @staticmethod
    def of(*, quiet: bool, verbose: bool) -> Loudness:
        """The loudness that the options ask for."""
        if quiet and verbose:
            raise InvalidOptionError("--quiet and --verbose exclude each other")
        return Loudness.QUIET if quiet else Loudness.VERBOSE if verbose else Loudness.NORMAL

    def shortened(self, text: str) -> str:
        """A warning as it is shown."""
        if self is Loudness.VERBOSE or len(text) <= _SHOWN_CHARACTERS:
            return text
        return f"{text[:_SHOWN_CHARACTERS].rstrip()}… (--verbose shows all)"


@dataclass
class RunProgress:
    """How far an optimization is, from the messages of its process."""

    job: Job
    loudness: Loudness
    interrupted: threading.Event
    _activity: str = "loading"
    _since: float = field(init=False)
    _state: Mapping[str, object] = field(default_factory=dict[str, object])
    _is_told: bool = False

    def __post_init__(self) -> None:
        self._since = self.job.started

    def hear(self, message: Mapping[str, object]) -> None:
        """Takes a message of the process: its progress, or a warning."""
        if "warning" in message:
            if self.loudness is not Loudness.QUIET:
                warn(self.loudness.shortened(str(message["warning"])))
            return
        self._state = message
        activity = _ACTIVITIES.get(message.get("phase"), self._activity)
        if activity != self._activity:
            self._end_phase()
            self._activity = activity

    def finishes(self) -> bool:
        """Whether the user wants the best model found so far; the first time this is confirmed."""
        if self.interrupted.is_set() and not self._is_told:
            self._is_told = True
            if self.loudness is not Loudness.QUIET:
                say(INTERRUPTED)
        return self._is_told

    def end(self) -> None:
        """Ends the last phase."""
        self._end_phase()

    def status(self) -> Status:
        """What is shown now."""
        spent, budget = time.monotonic() - self.job.started, self.job.budget
        activity = f"interrupted, {self._activity}" if self._is_told else self._activity
        parts = [f"{clock(max(0.0, budget - spent))} left", _gain(self._state)]
        candidates = self._state.get("candidates")
        if self._activity == "searching" and isinstance(candidates, int):
            parts.append(f"{candidates:,} candidates")
        return Status(activity, spent, budget, ", ".join(part for part in parts if part))

    def _end_phase(self) -> None:
        now = time.monotonic()
        if self.loudness is Loudness.VERBOSE:
            say(f"{self._activity} took {now - self._since:.1f} s")
        self._since = now


def _gain(state: Mapping[str, object]) -> str:
    """The best predicted gain so far; empty before one is known."""
    before, best = state.get("cost_before"), state.get("best_cost")
    if not (isinstance(before, float) and isinstance(best, float) and best > 0 and math.isfinite(before)):
        return ""
    return f"best {before / best:.2f}x"


def say(text: str) -> None:
    """Shows a line on standard error."""
    sys.stderr.write(f"superopt: {text}\n")
    sys.stderr.flush()
