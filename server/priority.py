"""Priority of processes: what computes lets what answers go first."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_SESSION = Path("/proc/self/autogroup")


def lower_priority(niceness: int) -> None:
    """Makes this process, and what it starts, nicer to all others; it is the first of its session.

    Linux may weigh sessions against each other first, and the processes of one only among themselves
    (``sched(7)``, autogroups): the session becomes as nice as its process.
    """
    os.nice(niceness)
    if niceness and _SESSION.exists():
        with contextlib.suppress(OSError):
            _SESSION.write_text(str(niceness))
