"""Why a supervised job ended without an answer, in one sentence."""

from __future__ import annotations

import math

from superopt.errors import INTERNAL_ERROR
from superopt.processes import child

_LOADING, _STEP = 2.0, 5
"""Budget to recommend for a model that was not loaded in time: this multiple of the seconds that it had, as a
multiple of so many seconds."""


def reason_of(ending: child.Ending, phase: str | None, budget: float, taken: float) -> tuple[str, bool]:
    """The reason why the original is returned, and whether it is an internal error. ``phase`` is None until
    the model is loaded; ``budget`` and ``taken`` are in seconds."""
    where = "when the model was being read and loaded" if phase is None else f"in the phase {phase!r}"
    match ending:
        case child.OutOfTime():
            return f"the budget of {budget:g} s was overrun: {_out_of_time(phase, where, taken)}", False
        case child.Killed(name):
            memory = ", perhaps for want of memory" if name == "SIGKILL" else ""
            return f"{INTERNAL_ERROR}: the process was ended by {name}{memory}, {where}", True
        case child.Broken(reason):
            return f"{INTERNAL_ERROR}: {reason}", True
        case child.OutOfMemory():
            return f"not enough memory, {where}", True
        case child.OutOfDisk():
            return "not enough disk for temporary files", True
        case _:
            return f"{INTERNAL_ERROR}: it ended without an answer", True


def _out_of_time(phase: str | None, where: str, taken: float) -> str:
    stopped = f"stopped after {taken:.1f} s, {where}"
    if phase is not None:
        return stopped
    needed = _STEP * math.ceil(_LOADING * taken / _STEP)
    return f"{stopped}; that needs a budget of at least {needed} s, perhaps more"


__all__ = ["reason_of"]
