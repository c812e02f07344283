"""Optimization targets by name, and cost profiles: measuring, writing, importing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from superopt.errors import InvalidOptionError, MissingServiceError
from superopt.onnx_io import lift, load_model
from superopt.optimizer.check import guess_sizes
from superopt.optimizer.cost import (
    HERE,
    CostProfile,
    GraphCost,
    Latency,
    MemoryCostStore,
    Origin,
    Provider,
    Sizes,
    Target,
    physical_cores,
    profile_of,
    read_profile,
)
from superopt.optimizer.pipeline.runnable import why_refused
from superopt.optimizer.search import Backtracking, CancelToken, RuleSet, SearchLimits, Watch
from superopt.rewriting import Substitution
from superopt.substitution_db.database import Database

_SUFFIX = ".jsonl"


def find_target(name: str, database: Database) -> Target:
    """The target of that name: ``cpu``, ``cuda``, a profile file, or an imported profile.

    Raises MissingServiceError for an unknown device, InvalidFileError for a damaged profile.
    """
    if name == HERE.name:
        return HERE
    if name == Provider.CUDA:
        require_device(Provider.CUDA)
        return Target(name, Provider.CUDA)
    if name.endswith(_SUFFIX):
        return Target.of_profile(read_profile(Path(name)))
    imported = {device: prefix for device, prefix, _ in database.costs.devices() if device}
    if name in imported:
        return Target(name, prefix=imported[name])
    known = ", ".join((HERE.name, Provider.CUDA, *imported))
    raise MissingServiceError(
        f"target {name}: there is no such device here and no cost profile of that name; known are {known}, "
        f"and files that end in {_SUFFIX}"
    )


def require_device(provider: Provider) -> None:
    """Raises MissingServiceError unless the runtime can run models on the device."""
    Latency(MemoryCostStore(), threads=1, provider=provider)


@dataclass(frozen=True, slots=True)
class Profiling:
    """Parameters of a profile: models to measure, and seconds per model for its rewritten variants."""

    provider: Provider = Provider.CPU
    threads: int | None = None
    explore: float = 0.0


def measure_profile(
    models: Sequence[str],
    rules: Sequence[Substitution],
    profiling: Profiling,
    progress: Callable[[str], None],
) -> CostProfile:
    """Measures the kernels of models (files or zoo networks), ignoring stored costs.

    Raises InvalidModelError, InvalidOptionError, MissingServiceError.
    """
    from superopt import zoo  # building networks is not needed to find a target

    objective = Latency(MemoryCostStore(), profiling.threads or physical_cores(), profiling.provider)
    for name in models:
        progress(f"{name}, {len(objective.recorded)} kernels so far")
        content = zoo.build(name).SerializeToString() if name in zoo.names() else Path(name)
        lifted = lift(load_model(content, why_refused))
        sizes = Sizes(lifted.graph, guess_sizes(lifted, {}).assignment, Origin(lifted))
        cost = GraphCost.of(lifted.graph, objective, sizes)
        objective.measure_again()
        if profiling.explore > 0:
            limits = SearchLimits(deadline=time.monotonic() + profiling.explore)
            watch = Watch(limits, CancelToken(), None)
            Backtracking().run(cost.refreshed(), RuleSet(rules), watch)
    if not objective.recorded:
        raise InvalidOptionError("models: no kernel can be measured")
    return profile_of(objective, profiling.provider, datetime.now(UTC).date().isoformat())


def import_profile(profile: CostProfile, database: Database) -> None:
    """Imports the profile as a target by its name."""
    database.costs.measured_on(profile.name, profile.prefix).put_many(profile.costs())
