"""Are two models equal? Both run in ONNX Runtime on the same random inputs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from optimizer.check.compare import EQUAL, Agreement, compare_outputs, relative_tolerance
from optimizer.check.inputs import SCALES, InputPlan
from optimizer.cost.runtime import Array, LoadedModel, RuntimeRefusedError
from superopt.errors import UnsupportedError

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


def check_equivalence(
    original: LoadedModel, other: LoadedModel, plan: InputPlan, sampling: Sampling
) -> Equivalence:
    """Runs both models on the same inputs and compares all outputs.

    A model whose own two runs differ cannot be certified. At least one sample is compared whatever the time.
    """
    names = [port.name for port in original.outputs]
    tolerance = relative_tolerance(_first_float(original), sampling.tolerance)
    difference = _signature_difference(original, other)
    if difference:
        return _refusal(tolerance, difference)
    total, compared, alive = EQUAL, 0, False
    last: tuple[object, ...] = ()
    for feeds, expected in _samples(original, plan, sampling):
        repeated = compare_outputs(names, expected, original.run(feeds), sampling.tolerance)
        if repeated.excess > _REPEAT_SHARE:
            why = "two runs of the original on the same inputs differ, so nothing can be certified"
            return _refusal(tolerance, why, compared)
        total = total.and_also(_compared(names, expected, other, feeds, sampling.tolerance))
        compared += 1
        alive = alive or _is_alive(expected, last)
        last = expected
        if not total.agrees or time.monotonic() >= sampling.deadline:
            break
    why = total.why if compared else "the original does not run on random inputs"
    return Equivalence(
        total.agrees and compared > 0,
        compared,
        total.max_abs_error,
        total.max_rel_error,
        tolerance,
        why,
        not alive,
    )


def _refusal(tolerance: float, why: str, samples: int = 0) -> Equivalence:
    return Equivalence(
        passed=False,
        samples=samples,
        max_abs_error=np.inf,
        max_rel_error=np.inf,
        tolerance=tolerance,
        why=why,
    )


def usable_feeds(model: LoadedModel, plan: InputPlan, sampling: Sampling) -> Mapping[str, Array] | None:
    """One set of inputs on which the model runs, for timing; None when none was found."""
    for feeds, _ in _samples(model, plan, sampling):
        return feeds
    return None


def _samples(
    model: LoadedModel, plan: InputPlan, sampling: Sampling
) -> Iterator[tuple[Mapping[str, Array], tuple[object, ...]]]:
    """Inputs with the outputs of the model, given ones first; sizes vary, the scale keeps outputs alive."""
    for feeds in sampling.given:
        yield feeds, model.run(feeds)
    random = np.random.default_rng(sampling.seed)
    usable = _usable_sizes(model, plan, random)
    wanted = sampling.samples if usable else 0
    scales = _live_scales(model, plan, random, usable[0]) if usable else ()
    for number in range(wanted):
        sizes = usable[number % len(usable)]
        feeds = plan.draw(random, sizes, scales[number % len(scales)])
        outputs = _run(model, feeds)
        if outputs is not None:
            yield feeds, outputs


def _usable_sizes(model: LoadedModel, plan: InputPlan, random: np.random.Generator) -> list[dict[str, int]]:
    """Up to three sets of sizes that the model runs at."""
    found: list[dict[str, int]] = []
    try:
        for sizes in plan.size_choices():
            if sizes not in found and _run(model, plan.draw(random, sizes, SCALES[0])) is not None:
                found.append(sizes)
            if len(found) == 3:
                break
    except UnsupportedError:
        return []
    return found


def _live_scales(
    model: LoadedModel, plan: InputPlan, random: np.random.Generator, sizes: Mapping[str, int]
) -> Sequence[str]:
    """The distributions of inputs under which outputs are finite and vary; all of them when none does."""
    live: list[str] = []
    for scale in SCALES:
        first, second = (_run(model, plan.draw(random, sizes, scale)) for _ in range(2))
        if first is not None and second is not None and _is_alive(first, second):
            live.append(scale)
        if len(live) == 2:
            break
    return live or SCALES


def _run(model: LoadedModel, feeds: Mapping[str, Array]) -> tuple[object, ...] | None:
    try:
        return model.run(feeds)
    except RuntimeRefusedError:
        return None


def _compared(
    names: Sequence[str],
    expected: Sequence[object],
    other: LoadedModel,
    feeds: Mapping[str, Array],
    tolerance: float | None,
) -> Agreement:
    try:
        return compare_outputs(names, expected, other.run(feeds), tolerance)
    except RuntimeRefusedError as error:
        return Agreement(
            agrees=False, max_abs_error=np.inf, max_rel_error=np.inf, excess=np.inf, why=str(error)
        )


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
        moved = (
            0.0 if previous is None else float(np.max(np.abs(np.nan_to_num(array - previous)), initial=0.0))
        )
        if max(spread, moved) <= 1e-6 * max(float(np.max(np.abs(finite))), 1e-30):
            return False
        distinct = len(np.unique(finite[:4096]))
        if distinct <= 2 and finite.size > 8 and moved == 0.0:
            return False
    return True


def _float_arrays(outputs: Sequence[object]) -> Iterator[Array]:
    for output in outputs:
        if isinstance(output, np.ndarray):
            array = cast("Array", output)
            if array.dtype.kind == "f" and array.size:
                yield array


def _signature_difference(original: LoadedModel, other: LoadedModel) -> str:
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
