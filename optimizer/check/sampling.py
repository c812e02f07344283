"""Input samples: valid inputs of a model for which its outputs vary."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from superopt.errors import UnsupportedError
from superopt.onnx_io.changes.probing import nudged
from superopt.optimizer.check.distance import distance
from superopt.optimizer.check.inputs import SCALES, InputPlan
from superopt.optimizer.check.steps import STEPS, Carried, next_states
from superopt.optimizer.cost.runtime.session import Array, LoadedModel, RuntimeRefusedError

_SIZES = 3
"""Maximum sets of sizes of open dimensions."""

_TRYING_SHARE = 0.1
"""Share of the remaining time after which no further scales are tried once one has worked."""

CONCLUSIVE_SHARE = 1e-2
"""If rounding alone changes an output by this share of its size, comparing that output proves little."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling options: number of samples, seed, the user's tolerance and inputs, deadline (monotonic
    clock), states that each sample is followed with."""

    samples: int = 4
    seed: int = 0
    tolerance: float | None = None
    given: tuple[Mapping[str, Array], ...] = ()
    deadline: float = field(default=np.inf)
    carried: Carried = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs and the original's outputs for them."""

    feeds: Mapping[str, Array]
    outputs: tuple[object, ...]


def draw_samples(model: LoadedModel, plan: InputPlan, sampling: Sampling) -> Generator[Sample]:
    """Yields given inputs first, then random ones of varying sizes and scales, and one for each other value
    of a flag or number that decides what the model does. After each batch of a training step come the steps
    that follow it."""
    for feeds in sampling.given:
        yield from _followed(model, Sample(feeds, model.run(feeds)), sampling.carried)
    random = np.random.default_rng(sampling.seed)
    first = True
    for branch in plan.branches():
        tried = _Tried(model, branch, random)
        sizes = tried.usable_sizes(_SIZES if first else 1)
        if not sizes:
            continue
        scales = tried.live_scales(sizes[0], sampling.deadline) if first else SCALES[:1]
        for number in range(sampling.samples if first else 1):
            feeds = branch.draw(random, sizes[number % len(sizes)], scales[number % len(scales)])
            outputs = tried.run(feeds)
            if outputs is not None:
                yield from _followed(model, Sample(feeds, outputs), sampling.carried)
        first = False


def _followed(model: LoadedModel, sample: Sample, carried: Carried) -> Iterator[Sample]:
    """The sample, and the same batch in the steps that follow, each from the states of the one before."""
    yield sample
    names = [port.name for port in model.outputs]
    for _ in range(STEPS - 1 if carried else 0):
        feeds = {**sample.feeds, **next_states(carried, names, sample.outputs)}
        sample = Sample(feeds, model.run(feeds))
        yield sample


def with_nudged_inputs(feeds: Mapping[str, Array], random: np.random.Generator) -> dict[str, Array]:
    """The inputs with every real number moved by one unit in the last place."""
    return {
        name: nudged(array, random) if array.dtype.kind == "f" else array for name, array in feeds.items()
    }


class _Tried:
    """Determines by running which inputs a model accepts."""

    def __init__(self, model: LoadedModel, plan: InputPlan, random: np.random.Generator) -> None:
        self._model = model
        self._plan = plan
        self._random = random

    def run(self, feeds: Mapping[str, Array]) -> tuple[object, ...] | None:
        """Return the outputs; None if the model does not accept the inputs."""
        try:
            return self._model.run(feeds)
        except RuntimeRefusedError:
            return None

    def usable_sizes(self, count: int) -> list[dict[str, int]]:
        """Up to ``count`` sets of sizes that the model runs at."""
        found: list[dict[str, int]] = []
        for sizes in self._plan.size_choices():
            if sizes not in found and self._drawn(sizes, SCALES[0]) is not None:
                found.append(sizes)
            if len(found) == count:
                break
        return found

    def live_scales(self, sizes: Mapping[str, int], deadline: float) -> Sequence[str]:
        """Return the input distributions under which outputs vary by more than rounding; all if there are
        none."""
        live: list[str] = []
        now = time.monotonic()
        until = now + _TRYING_SHARE * max(deadline - now, 0.0)
        for scale in SCALES:
            first, second = self._drawn(sizes, scale), self._drawn(sizes, scale)
            if first is not None and second is not None and outputs_vary(first[1], second[1]):
                again = self.run(with_nudged_inputs(first[0], self._random))
                if again is not None and _is_telling(first[1], again):
                    live.append(scale)
            if time.monotonic() >= (until if live else deadline):
                break
        return live or SCALES

    def _drawn(
        self, sizes: Mapping[str, int], scale: str
    ) -> tuple[Mapping[str, Array], tuple[object, ...]] | None:
        try:
            feeds = self._plan.draw(self._random, sizes, scale)
            outputs = self.run(feeds)
        except (UnsupportedError, MemoryError):
            return None
        return None if outputs is None else (feeds, outputs)


def outputs_vary(outputs: Sequence[object], earlier: Sequence[object]) -> bool:
    """Whether every floating point output has finite numbers that vary, within it or between samples."""
    arrays = list(_float_arrays(outputs))
    if not arrays:
        return True
    before = list(_float_arrays(earlier))
    for index, array in enumerate(arrays):
        finite = array[np.isfinite(array)].astype(np.float64)
        if not finite.size or 2 * finite.size < array.size:
            return False
        spread = float(np.ptp(finite))
        previous = before[index] if index < len(before) and before[index].shape == array.shape else None
        with np.errstate(invalid="ignore", over="ignore"):
            moved = (
                0.0
                if previous is None
                else float(np.max(np.abs(np.nan_to_num(array - previous)), initial=0.0))
            )
        if max(spread, moved) <= 1e-6 * max(float(np.max(np.abs(finite))), 1e-30):
            return False
        distinct = len(np.unique(finite[:4096]))
        if distinct <= 2 and finite.size > 8 and moved == 0.0:
            return False
    return True


def has_finite(outputs: Sequence[object]) -> bool:
    """Whether some output is not a floating point array or contains a finite number."""
    arrays = list(_float_arrays(outputs))
    return len(arrays) < len(outputs) or any(bool(np.isfinite(array).any()) for array in arrays)


def _is_telling(outputs: Sequence[object], nudged_outputs: Sequence[object]) -> bool:
    pairs = zip(_float_arrays(outputs), _float_arrays(nudged_outputs), strict=False)
    return all(b.shape == a.shape and distance(b, a).rms <= CONCLUSIVE_SHARE for a, b in pairs)


def _float_arrays(outputs: Sequence[object]) -> Iterator[Array]:
    for output in outputs:
        if isinstance(output, np.ndarray):
            array = cast("Array", output)
            if array.dtype.kind == "f" and array.size:
                yield array
