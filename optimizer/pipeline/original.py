"""The original model, opened on first use; the reference for comparisons."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from superopt.errors import UnsupportedError
from superopt.ir.plan import Plan
from superopt.onnx_io import LoweredModel, lower
from superopt.optimizer.check import InputPlan, Reference, Sampling
from superopt.optimizer.check.inputs import SCALES
from superopt.optimizer.cost.measuring.timing import release_caches
from superopt.optimizer.cost.runtime.session import (
    Array,
    LoadedModel,
    ModelFile,
    Provider,
    RuntimeRefusedError,
)
from superopt.optimizer.pipeline.prepare import Prepared
from superopt.optimizer.pipeline.runnable import quick_to_open, runnable, runnable_original
from superopt.processes.garbage import collect_and_trim

_SLOW = 1.0
"""Seconds; a run that takes longer is not repeated."""

_LARGE = 1 << 27
"""Bytes of weights above which two models are never in memory at once, and none during a search."""


@dataclass(eq=False)
class Original:
    """The original model; files are written to the directory. Its loading time is recorded in the schedule.
    Raises RuntimeRefusedError where it cannot be loaded."""

    prepared: Prepared
    provider: Provider
    directory: Path
    _loaded: LoadedModel | None = None

    @cached_property
    def file(self) -> ModelFile:
        """The file or bytes that the runtime loads."""
        return runnable_original(self.prepared.request.lifted, self.directory)

    @cached_property
    def timed_file(self) -> ModelFile:
        """The file or bytes that are timed."""
        lifted = self.prepared.request.lifted
        return self.judged_to_time(self.file, lambda: lower(lifted, lifted.graph, Plan()), "original")

    def judged_to_time(self, judged: ModelFile, model: Callable[[], LoweredModel], name: str) -> ModelFile:
        """A judged model itself for timing, or ``to_time`` where it is large and in memory."""
        return self.to_time(model(), name) if self.is_large and isinstance(judged, bytes) else judged

    def to_time(self, model: LoweredModel, name: str) -> ModelFile:
        """A model's file or bytes for timing; a large one is written to a folder of that name."""
        folder = self.directory / name
        folder.mkdir(exist_ok=True)
        return quick_to_open(model, folder / "model.onnx") if self.is_large else runnable(model, folder)

    @property
    def is_large(self) -> bool:
        """Whether no other model should be in memory at the same time."""
        return self.prepared.request.schedule.weight_bytes >= _LARGE

    def opened(self) -> LoadedModel:
        """The loaded model; it stays in memory until released."""
        if self._loaded is None:
            self.make_room()
            file, began = self.file, time.monotonic()
            self._loaded = LoadedModel(file, self.prepared.request.threads, provider=self.provider)
            self.prepared.request.schedule.loading = time.monotonic() - began
        return self._loaded

    def reference(self, plan: InputPlan, deadline: float) -> Reference:
        """The model with samples of its outputs, drawn until the deadline (monotonic clock)."""
        prepared, options = self.prepared, self.prepared.request.options
        sampling = Sampling(options.samples, options.seed, options.tolerance, prepared.given, deadline)
        return Reference(self.opened(), plan, sampling, prepared.request.lifted.source)

    def release(self) -> None:
        """Releases the model."""
        self._loaded = None
        self.make_room()

    def make_room(self) -> None:
        """Returns memory that is not needed to the system, for a large model that is to be loaded."""
        if self.is_large:
            release_caches()
            collect_and_trim()

    def first_run(self, plan: InputPlan) -> float:
        """The seconds of one warm run at the sizes used for timing; 0 where the model runs on none of the
        inputs tried."""
        model = self.opened()
        for feeds in self._feeds(plan):
            try:
                took = _timed(model, feeds)
            except RuntimeRefusedError:
                continue
            return took if took > _SLOW else _timed(model, feeds)
        return 0.0

    def _feeds(self, plan: InputPlan) -> Iterator[Mapping[str, Array]]:
        """Given inputs, else random ones as in later samples."""
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
