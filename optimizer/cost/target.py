"""Optimisation targets: the device, and the objective to minimise on it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from superopt.errors import InvalidOptionError
from superopt.optimizer.cost.latency import Latency, Recorded
from superopt.optimizer.cost.objective import Flops, Launches, Objective, PeakMemory, Traffic
from superopt.optimizer.cost.profile import CostProfile
from superopt.optimizer.cost.runtime.session import Provider
from superopt.optimizer.cost.store import CostStore, MemoryCostStore


@dataclass(frozen=True, slots=True)
class Target:
    """A device of this machine, or a remote one, identified by the ``prefix`` of its recorded cost keys.
    ``costs`` are those of a profile file."""

    name: str
    provider: Provider = Provider.CPU
    prefix: str | None = None
    costs: CostStore | None = None

    @property
    def is_here(self) -> bool:
        """Whether models can be timed on it."""
        return self.prefix is None

    @staticmethod
    def of_profile(profile: CostProfile) -> Target:
        """The device of a profile."""
        return Target(
            profile.name, Provider(profile.target), profile.prefix, MemoryCostStore(profile.costs())
        )


HERE = Target("cpu")
"""The processor of this machine."""


def objective_of(
    name: str, store: CostStore, threads: int, target: Target = HERE, deadline: float = math.inf
) -> Objective:
    """The objective of that name, which measures nothing after the deadline (monotonic clock). For throughput
    it is latency: a device that runs one inference at a time has the highest throughput at the lowest
    latency; so it is for training, where the model is the step. Raises InvalidOptionError, and
    InvalidFileError for a damaged profile."""
    match name:
        case "latency" | "throughput" | "training" if target.prefix is not None:
            return Recorded(store if target.costs is None else target.costs, target.prefix)
        case "latency" | "throughput" | "training":
            return Latency(store, threads, target.provider, deadline)
        case "flops":
            return Flops()
        case "memory":
            return PeakMemory()
        case "traffic":
            return Traffic()
        case "launches":
            return Launches()
        case _:
            raise InvalidOptionError(f"objective: expected an objective for a single device, got {name!r}")
