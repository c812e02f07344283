"""What a user may ask of an optimization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from superopt.choices import OBJECTIVES, require_budget
from superopt.errors import InvalidOptionError
from superopt.optimizer.search import searches
from superopt.optimizer.search.protocol import DEFAULT_ALPHA
from superopt.threads import MOST_THREADS, THREADS_PER_CORE

SEARCHES = tuple(searches())

CLUSTER_OBJECTIVES = ("latency", "throughput", "training")
"""What a plan for several devices is judged by."""

CLUSTER_SEARCHES = ("auto", "none")
"""How a plan is found: by searching rewrites and plans, or plans alone."""


def _no_dims() -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one optimization.

    ``budget`` is the whole wall time in seconds, measuring and checking included. ``threads`` None means all
    physical cores. ``dims`` are sizes of open dimensions, at which the model is priced, checked and timed;
    they stay open. ``keep`` names ONNX nodes that
    stay as they are. ``patience`` ends a search after so many candidates without a better one. A graph may
    need at most ``memory_limit`` bytes for weights and tensors, on each device of a cluster. ``cluster`` is
    the name of the devices that a plan is made for, None for one device.

    Raises InvalidOptionError for a value that makes no sense.
    """

    objective: str = "latency"
    search: str = "auto"
    budget: float = 60.0
    max_candidates: int | None = None
    patience: int | None = 20_000
    alpha: float = DEFAULT_ALPHA
    seed: int = 0
    threads: int | None = None
    dims: Mapping[str, int] = field(default_factory=_no_dims)
    inputs: Path | None = None
    tolerance: float | None = None
    samples: int = 4
    keep: tuple[str, ...] = ()
    exclude_rules: tuple[str, ...] = ()
    memory_limit: int | None = None
    cluster: str | None = None

    def __post_init__(self) -> None:
        objectives = OBJECTIVES if self.cluster is None else CLUSTER_OBJECTIVES
        strategies = SEARCHES if self.cluster is None else CLUSTER_SEARCHES
        if self.cluster is None and self.objective == "training":
            raise InvalidOptionError(
                "objective: training is simulated on devices that are described: name them with cluster (one "
                f"may be enough), or choose one of {', '.join(OBJECTIVES)}"
            )
        _require("objective", self.objective, self.objective in objectives, f"one of {', '.join(objectives)}")
        _require("search", self.search, self.search in strategies, f"one of {', '.join(strategies)}")
        require_budget(self.budget)
        _require("alpha", self.alpha, self.alpha >= 1, "at least 1")
        sound = self.threads is None or 1 <= self.threads <= MOST_THREADS
        expected = f"at least 1 and at most {MOST_THREADS}, {THREADS_PER_CORE} for each core here"
        _require("threads", self.threads, sound, expected)
        _require("samples", self.samples, self.samples >= 1, "at least 1")
        _require("tolerance", self.tolerance, self.tolerance is None or self.tolerance > 0, "above 0")
        _require("seed", self.seed, self.seed >= 0, "at least 0")
        limit = self.memory_limit
        _require("memory-limit", limit, limit is None or limit > 0, "bytes above 0")
        for name, count in (("max-candidates", self.max_candidates), ("patience", self.patience)):
            _require(name, count, count is None or count >= 0, "at least 0")

    def to_json(self) -> dict[str, object]:
        """The options as a report holds them."""
        return {
            "objective": self.objective,
            "search": self.search,
            "budget": self.budget,
            "max_candidates": self.max_candidates,
            "alpha": self.alpha,
            "seed": self.seed,
            "threads": self.threads,
            "dims": dict(self.dims),
            "inputs": None if self.inputs is None else str(self.inputs),
            "tolerance": self.tolerance,
            "keep": list(self.keep),
            "exclude_rules": list(self.exclude_rules),
            "memory_limit": self.memory_limit,
            "cluster": self.cluster,
        }


def _require(name: str, value: object, holds: object, expected: str) -> None:
    if not holds:
        raise InvalidOptionError(f"{name}: expected {expected}, got {value!r}")
