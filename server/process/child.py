"""Child processes of the service (``processes.child``) with failures as problem documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from superopt.processes import child
from superopt.processes.child import ResourceLimits, Returned, Stopped
from superopt.server.problem_types import ProblemType, type_of
from superopt.substitution_db.store.engine import DatabaseUnavailableError
from superopt.substitution_db.store.records import JsonObject


@dataclass(frozen=True, slots=True)
class Failed:
    """The function failed reproducibly or exceeded a limit; ``problem`` is the problem document."""

    problem: JsonObject


@dataclass(frozen=True, slots=True)
class Died:
    """The process ended without an answer, or without its database."""

    problem: JsonObject


Ending: TypeAlias = "Returned | Failed | Died | Stopped"


def run_in_child(
    function: str,
    arguments: JsonObject,
    limits: ResourceLimits,
    *,
    on_progress: Callable[[JsonObject], None] = lambda _: None,
    wanted: Callable[[], bool] = lambda: True,
) -> Ending:
    """As ``superopt.processes.child.run_in_child``."""
    ending = child.run_in_child(function, arguments, limits, on_progress=on_progress, wanted=wanted)
    match ending:
        case Returned() | Stopped():
            return ending
        case child.Raised():
            error = ending.error()
            if isinstance(error, DatabaseUnavailableError):
                return Died(ProblemType.DATABASE.document("the job could not use the database"))
            return Failed(type_of(error).document(str(error)))
        case child.OutOfTime():
            return Failed(ProblemType.JOB_TIME.document(f"the time limit is {limits.seconds:g} s"))
        case child.OutOfMemory():
            return Failed(
                ProblemType.JOB_MEMORY.document(f"the memory limit is {(limits.bytes or 0) >> 20} MiB")
            )
        case child.OutOfDisk():
            return Died(ProblemType.DISK_FULL.document("the worker's disk is full"))
        case child.Killed(signal):
            return Died(ProblemType.JOB_CRASHED.document(f"the process was killed by {signal}"))
        case child.Broken():
            return Failed(ProblemType.JOB_INTERNAL.document("the process failed; see its log"))
