"""The original model, opened on first use; the reference for comparisons."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from superopt.errors import UnsupportedError
from superopt.optimizer.check import InputPlan, Reference, Sampling
from superopt.optimizer.check.inputs import SCALES
from superopt.optimizer.cost.runtime import Array, LoadedModel, ModelFile, Provider, RuntimeRefusedError
from superopt.optimizer.pipeline.prepare import Prepared
from superopt.optimizer.pipeline.runnable import runnable_original

_SLOW = 1.0
"""Seconds; a run that takes longer is not repeated."""

_LARGE = 1 << 28
"""Bytes of weights from which on no two models are in memory at once, and none while a search runs."""


@dataclass(eq=False)
class Original:
    """The original model; files are written into the directory. How long opening takes goes to the schedule.
    Raises RuntimeRefusedError where it cannot be opened."""

    prepared: Prepared
    provider: Provider
    directory: Path
    _loaded: LoadedModel | None = None

    @cached_property
    def file(self) -> ModelFile:
        """What the runtime opens."""
        return runnable_original(self.prepared.request.lifted, self.directory)

    @property
    def is_large(self) -> bool:
        """Whether no other model should be in memory beside it."""
        return self.prepared.request.schedule.weight_bytes >= _LARGE

    def opened(self) -> LoadedModel:
        """The model in memory; it stays there until it is released."""
        if self._loaded is None:
            file, began = self.file, time.monotonic()
            self._loaded = LoadedModel(file, self.prepared.request.threads, provider=self.provider)
            self.prepared.request.schedule.loading = time.monotonic() - began
        return self._loaded

    def reference(self, plan: InputPlan, deadline: float) -> Reference:
        """The model with samples of what it computes, drawn until the deadline (monotonic clock)."""
        prepared, options = self.prepared, self.prepared.request.options
        sampling = Sampling(options.samples, options.seed, options.tolerance, prepared.given, deadline)
        return Reference(self.opened(), plan, sampling, prepared.request.lifted.source)

    def release(self) -> None:
        """Lets the model go."""
        self._loaded = None

    def first_run(self, plan: InputPlan) -> float:
        """The seconds of a run after the first, which takes longer, at the sizes that it is timed at; 0 where
        the model runs on nothing that was tried."""
        model = self.opened()
        for feeds in self._feeds(plan):
            try:
                took = _timed(model, feeds)
            except RuntimeRefusedError:
                continue
            return took if took > _SLOW else _timed(model, feeds)
        return 0.0

    def _feeds(self, plan: InputPlan) -> Iterator[Mapping[str, Array]]:
        """Inputs that were given, else such as will be drawn."""
        yield from self.prepared.given[:1]
        random = np.random.default_rng(0)
        for sizes in plan.size_choices():
            try:
                yield plan.draw(random, sizes, SCALES[0])
            except (UnsupportedError, MemoryError):
                continue


def _timed(model: LoadedModel, feeds: Mapping[str, Array]) -> float:
    began = time.monotonic()
    model.run(feeds)
    return time.monotonic() - began
