"""What ``server.device`` asks a process of its own, which loads the runtime and little else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.cost import Latency, MemoryCostStore, Provider
from optimizer.cost.devices import accelerator_name, processor_name
from optimizer.cost.runtime import physical_cores, runtime_version
from superopt.errors import MissingServiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from substitution_db.records import JsonObject


def describe(arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
    """``Device`` as JSON."""
    del arguments, progress
    name = [processor_name(), str(physical_cores()), accelerator_name(), runtime_version()]
    targets = [Provider.CPU.value, *([Provider.CUDA.value] if _runs(Provider.CUDA) else [])]
    return {"name": name, "targets": targets}


def _runs(provider: Provider) -> bool:
    """Whether the runtime really runs models on the device."""
    try:
        Latency(MemoryCostStore(), threads=1, provider=provider)
    except MissingServiceError:
        return False
    return True
