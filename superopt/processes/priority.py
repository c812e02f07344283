"""Process priorities, so that computing does not delay responses."""

from __future__ import annotations

import os
import time
from pathlib import Path

_SESSION = Path("/proc/self/autogroup")
_ATTEMPTS = 5
_PAUSE_SECONDS = 0.12
"""Linux lets unprivileged users change the niceness of one session per 0.1 s."""


def lower_priority(niceness: int) -> None:
    """Raises the niceness of this process, a session leader, and of its descendants.

    With autogroups (``sched(7)``), Linux schedules sessions against each other and niceness applies only
    within one; therefore the niceness of the session is set, too.
    """
    os.nice(niceness)
    if niceness and _SESSION.exists():
        _lower_session(niceness)


def _lower_session(niceness: int) -> None:
    for _ in range(_ATTEMPTS):
        try:
            _SESSION.write_text(str(niceness))
        except BlockingIOError:
            time.sleep(_PAUSE_SECONDS)
        except OSError:
            return
        else:
            return
