"""Are two models equal? Both run in ONNX Runtime on the same random inputs."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from optimizer.check.compare import (
    EQUAL,
    Agreement,
    compare_outputs,
    disagreement,
    relative_tolerance,
)
from optimizer.check.inputs import SCALES, InputPlan
from optimizer.cost.runtime import Array, LoadedModel, RuntimeRefusedError
from superopt.errors import UnsupportedError

_SIZES = 3
_REPEAT_SHARE = 0.1
"""Two runs of one model may differ by this share of what two models may."""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The verdict on two models. ``weak`` says that the outputs hardly depended on the inputs."""

    passed: bool
    samples: int
    max_abs_error: float
    max_rel_error: float
    tolerance: float
    why: str = ""
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample: how often, the seed, the user's tolerance and inputs, when to stop (monotonic clock)."""

    samples: int = 4
    seed: int = 0
    tolerance: float | None = None
    given: tuple[Mapping[str, Array], ...] = ()
    deadline: float = field(default=np.inf)


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs and what the original made of them."""

    feeds: Mapping[str, Array]
    outputs: tuple[object, ...]


class Reference:
    """The original with samples of what it computes, drawn once and used for every model compared with it.

    Given inputs come first; sizes of open dimensions vary; the scale of inputs keeps outputs alive.
    """

    def __init__(self, model: LoadedModel, plan: InputPlan, sampling: Sampling) -> None:
        self._model: LoadedModel | None = model
        self.inputs, self.outputs = model.inputs, model.outputs
        self.sampling = sampling
        self.names = [port.name for port in model.outputs]
        self.tolerance = relative_tolerance(_first_float(model), sampling.tolerance)
        self._plan = plan
        self._drawn: list[Sample] = []
        self._source = self._draw(model)
        self._repeated: Agreement | None = None

    def samples(self) -> Iterator[Sample]:
        """All samples; those drawn before are not run again."""
        yield from self._drawn
        for sample in self._source:
            self._drawn.append(sample)
            yield sample

    def first(self) -> Sample | None:
        """One sample; None when the model runs on no inputs that were tried."""
        return next(self.samples(), None)

    def repeated(self) -> Agreement:
        """How far apart two runs on the first sample are."""
        if self._repeated is None:
            sample = self.first()
            assert sample is not None, "a model that ran on some inputs"
            assert self._model is not None, "a model in memory"
            again = self._model.run(sample.feeds)
            self._repeated = compare_outputs(self.names, sample.outputs, again, self.sampling.tolerance)
        return self._repeated

    def release(self) -> None:
        """Draws the samples that there is time for and lets the model go: its weights may fill the memory."""
        if self.first() is not None:
            self.repeated()
            for _ in self.samples():
                if time.monotonic() >= self.sampling.deadline:
                    break
        self._source.close()
        self._model = None

    def _draw(self, model: LoadedModel) -> Generator[Sample]:
        for feeds in self.sampling.given:
            yield Sample(feeds, model.run(feeds))
        random = np.random.default_rng(self.sampling.seed)
        tried = _Tried(model, self._plan, random)
        sizes = tried.usable_sizes()
        if not sizes:
            return
        scales = tried.live_scales(sizes[0], self.sampling.deadline)
        for number in range(self.sampling.samples):
            feeds = self._plan.draw(random, sizes[number % len(sizes)], scales[number % len(scales)])
            outputs = tried.run(feeds)
            if outputs is not None:
                yield Sample(feeds, outputs)


def check_equivalence(reference: Reference, other: LoadedModel) -> Equivalence:
    """Runs the other model on the samples of the reference and compares all outputs.

    A model whose own two runs differ cannot be certified, nor one of whose outputs none is ever finite. At
    least one sample is compared whatever the time.
    """
    difference = _signature_difference(reference, other)
    if difference:
        return _refusal(reference.tolerance, difference)
    names, tolerance = reference.names, reference.sampling.tolerance
    total, compared, alive, tells = EQUAL, 0, False, False
    last: tuple[object, ...] = ()
    for sample in reference.samples():
        if not compared and reference.repeated().excess > _REPEAT_SHARE:
            why = "two runs of the original on the same inputs differ, so nothing can be certified"
            return _refusal(reference.tolerance, why)
        total = total.and_also(_compared(names, sample, other, tolerance))
        compared += 1
        alive = alive or _is_alive(sample.outputs, last)
        tells = tells or _has_finite(sample.outputs)
        last = sample.outputs
        if not total.agrees or time.monotonic() >= reference.sampling.deadline:
            break
    if total.agrees and compared and not tells:
        why = "no output has a finite number on any of the inputs, so nothing can be certified"
        return _refusal(reference.tolerance, why)
    return Equivalence(
        passed=total.agrees and compared > 0,
        samples=compared,
        max_abs_error=total.max_abs_error,
        max_rel_error=total.max_rel_error,
        tolerance=reference.tolerance,
        why=total.why if compared else "the original does not run on random inputs",
        weak=not alive,
    )


def _refusal(tolerance: float, why: str) -> Equivalence:
    return Equivalence(
        passed=False, samples=0, max_abs_error=np.inf, max_rel_error=np.inf, tolerance=tolerance, why=why
    )


class _Tried:
    """Finds out by running what a model accepts."""

    def __init__(self, model: LoadedModel, plan: InputPlan, random: np.random.Generator) -> None:
        self._model = model
        self._plan = plan
        self._random = random

    def run(self, feeds: Mapping[str, Array]) -> tuple[object, ...] | None:
        """The outputs; None when the model does not accept the inputs."""
        try:
            return self._model.run(feeds)
        except RuntimeRefusedError:
            return None

    def usable_sizes(self) -> list[dict[str, int]]:
        """Up to three sets of sizes that the model runs at."""
        found: list[dict[str, int]] = []
        for sizes in self._plan.size_choices():
            if sizes not in found and self._drawn(sizes, SCALES[0]) is not None:
                found.append(sizes)
            if len(found) == _SIZES:
                break
        return found

    def live_scales(self, sizes: Mapping[str, int], deadline: float) -> Sequence[str]:
        """Up to two distributions of inputs under which outputs vary; all of them when none does."""
        live: list[str] = []
        for scale in SCALES:
            first, second = self._drawn(sizes, scale), self._drawn(sizes, scale)
            if first is not None and second is not None and _is_alive(first, second):
                live.append(scale)
            if len(live) == 2 or time.monotonic() >= deadline:
                break
        return live or SCALES

    def _drawn(self, sizes: Mapping[str, int], scale: str) -> tuple[object, ...] | None:
        try:
            return self.run(self._plan.draw(self._random, sizes, scale))
        except (UnsupportedError, MemoryError):
            return None


def _compared(names: Sequence[str], sample: Sample, other: LoadedModel, tolerance: float | None) -> Agreement:
    try:
        return compare_outputs(names, sample.outputs, other.run(sample.feeds), tolerance)
    except RuntimeRefusedError as error:
        return disagreement(str(error))


def _is_alive(outputs: Sequence[object], earlier: Sequence[object]) -> bool:
    """Whether every floating point output has finite numbers that vary within it or from sample to sample."""
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


def _has_finite(outputs: Sequence[object]) -> bool:
    """Whether there is an output that is no floating point array, or one with a finite number in it."""
    arrays = list(_float_arrays(outputs))
    return len(arrays) < len(outputs) or any(bool(np.isfinite(array).any()) for array in arrays)


def _float_arrays(outputs: Sequence[object]) -> Iterator[Array]:
    for output in outputs:
        if isinstance(output, np.ndarray):
            array = cast("Array", output)
            if array.dtype.kind == "f" and array.size:
                yield array


def _signature_difference(original: Reference, other: LoadedModel) -> str:
    """What is different about inputs and outputs, empty when nothing is."""
    for kind, ours, theirs in (
        ("inputs", original.inputs, other.inputs),
        ("outputs", original.outputs, other.outputs),
    ):
        left = [(port.name, port.dtype) for port in ours]
        right = [(port.name, port.dtype) for port in theirs]
        if left != right:
            return f"different {kind}: {left} against {right}"
    return ""


def _first_float(model: LoadedModel) -> str:
    return next((p.dtype for p in model.outputs if p.dtype and p.dtype.startswith("float")), "float32")
