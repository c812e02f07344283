"""The machine, as far as the result of a job depends on it."""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, cast

from server.child import Limits, run_in_child
from server.endings import Done
from superopt.errors import MissingServiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from substitution_db.records import JsonObject

_LIMITS = Limits(seconds=300.0, bytes=8 << 30, grace_seconds=0.0)


_asking = threading.Lock()


def this_device() -> tuple[str, ...]:
    """Processor, cores, accelerator and runtime; asked once, of a process that has the runtime loaded.

    Raises MissingServiceError when that process does not answer.
    """
    with _asking:
        return _asked()


@cache
def _asked() -> tuple[str, ...]:
    ending = run_in_child("server.device:describe", {}, _LIMITS)
    if isinstance(ending, Done):
        return tuple(cast("list[str]", ending.result["device"]))
    raise MissingServiceError(f"this machine cannot be described: {ending}")


def describe(arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
    """``this_device`` in the child process."""
    del arguments, progress
    from optimizer.cost.devices import accelerator_name, processor_name
    from optimizer.cost.runtime import physical_cores, runtime_version

    return {"device": [processor_name(), str(physical_cores()), accelerator_name(), runtime_version()]}
