"""Priority of processes: what computes lets what answers go first."""

from __future__ import annotations

import os
import time
from pathlib import Path

_SESSION = Path("/proc/self/autogroup")
_ATTEMPTS = 5
_PAUSE_SECONDS = 0.12
"""Linux lets those who are not privileged change one session of the machine in 0.1 seconds."""


def lower_priority(niceness: int) -> None:
    """Makes this process, and what it starts, nicer to all others; it is the first of its session.

    Linux may weigh sessions against each other first, and the processes of one only among themselves
    (``sched(7)``, autogroups): the session becomes as nice as its process.
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
