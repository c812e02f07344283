"""The learned estimator of kernels: training steps are built, their kernels timed under JAX, and learned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from superopt import zoo
from superopt.errors import InvalidOptionError, UnjudgedError
from superopt.journeys.planning.plannable_steps import network_step
from superopt.optimizer.fusion.learned.estimator import KernelEstimator, Origin, read_estimator
from superopt.optimizer.fusion.learned.fitting import LEAST_KERNELS, fitted_estimator
from superopt.optimizer.fusion.learned.samples import kernels
from superopt.optimizer.learning.fitting import Course
from superopt.optimizer.parallel.execution.kernel_times import KernelTimer, pinned
from superopt.optimizer.parallel.tasks import KernelTask
from superopt.optimizer.parallel.training_plans.states import StepStates
from superopt.processes.child import ResourceLimits, result_of, run_in_child

STEPS = (
    "light-bert:16:adam",
    "light-resnet18:16:momentum",
    "light-gpt2:8:adam",
    "light-transformer:8:adam",
    "light-llama:8:adam",
    "light-lstm-lm:16:momentum",
    "light-ncf:512:adam",
    "light-vgg16:8:momentum",
    "light-u-net:4:momentum",
    "light-resnet101:8:momentum",
    "light-mlp:256:sgd",
    "mlp-mnist:64:adam",
    "light-bert:4:adam",
    "light-resnet18:4:adam",
    "light-gpt2:2:momentum",
    "light-transformer:2:momentum",
    "light-llama:2:momentum",
    "light-lstm-lm:64:adam",
    "light-vgg16:32:adam",
    "light-u-net:8:adam",
    "light-resnet101:2:adam",
    "light-mlp:2048:momentum",
    "mlp-mnist:256:momentum",
    "light-ncf:4096:momentum",
)
"""The training steps whose kernels are timed: a network of the zoo, its samples, the optimiser."""

KERNELS = 3000
"""Kernels that are timed."""

STEPS_OF_TRAINING = 8000

_SECONDS = 4 * 3600.0
_MEASURE = "superopt.journeys.planning.estimator:measure"


@dataclass(frozen=True)
class Sampling:
    """What is learned from: steps as in ``STEPS``, the number of kernels, the steps of training, the
    seed."""

    steps: tuple[str, ...] = STEPS
    kernels: int = KERNELS
    course: Course = field(default_factory=lambda: Course(STEPS_OF_TRAINING))


def train_estimator(sampling: Sampling, path: Path, progress: Callable[[str], None]) -> KernelEstimator:
    """Measures kernels in a child process on one core, or on the first accelerator that JAX sees, and writes
    the estimator that is learned from them.

    Raises InvalidOptionError for unknown networks, MissingServiceError without JAX, UnjudgedError where the
    measurement ends early.
    """
    if sampling.kernels < LEAST_KERNELS:
        raise InvalidOptionError(f"kernels: expected at least {LEAST_KERNELS}, got {sampling.kernels}")
    for text in sampling.steps:
        _parsed(text)
    ending = run_in_child(
        _MEASURE,
        {**asdict(sampling), "path": str(path)},
        ResourceLimits(_SECONDS),
        on_progress=lambda message: progress(str(message["doing"])),
        writes=(path,),
    )
    result_of(
        ending,
        lambda: UnjudgedError(f"estimator: the measurement ended early: {ending}; try fewer --kernels"),
    )
    return read_estimator(path)


def measure(
    arguments: Mapping[str, object], progress: Callable[[dict[str, object]], None]
) -> dict[str, object]:
    """Runs in a child process: times kernels, fits the estimator and writes it to ``path``; the other
    arguments are those of ``Sampling``."""
    pinned()
    steps = tuple(cast("list[str]", arguments["steps"]))
    course = Course(**cast("Mapping[str, int]", arguments["course"]))
    timer = KernelTimer()
    measured = timed_kernels(
        steps,
        cast("int", arguments["kernels"]),
        course.seed,
        timer,
        lambda done, total: progress({"doing": f"kernel {done} of {total}"}),
    )
    origin = Origin(timer.device, timer.version, datetime.now(UTC).date().isoformat(), steps)
    estimator = fitted_estimator(
        [kernel for kernel, _ in measured],
        [time for _, time in measured],
        origin,
        course=course,
        progress=lambda done, total: progress({"doing": f"learning, step {done} of {total}"}),
    )
    estimator.write(Path(str(arguments["path"])))
    return {}


def timed_kernels(
    steps: Sequence[str], count: int, seed: int, timer: KernelTimer, progress: Callable[[int, int], None]
) -> list[tuple[KernelTask, float]]:
    """Up to so many different kernels, of all steps in turn, with their microseconds."""
    streams = [_kernels(text, seed) for text in steps]
    found: dict[KernelTask, float] = {}
    while streams and len(found) < count:
        for stream in tuple(streams):
            kernel = next((one for one in stream if one not in found), None)
            if kernel is None:
                streams.remove(stream)
            elif (time := timer.microseconds(kernel)) is not None:
                found[kernel] = time
                progress(len(found), count)
            if len(found) == count:
                break
    return list(found.items())


def _kernels(text: str, seed: int) -> Iterator[KernelTask]:
    network, samples, optimizer = _parsed(text)
    step = network_step(network, samples, optimizer)
    return kernels(step.graph, StepStates.of(step.graph, step.layout), seed)


def _parsed(text: str) -> tuple[str, int, str]:
    """Network, samples and optimiser. Raises InvalidOptionError."""
    parts = text.split(":")
    if len(parts) != 3 or parts[0] not in zoo.names() or not parts[1].isdecimal() or not int(parts[1]):
        raise InvalidOptionError(
            f"models: expected NETWORK:SAMPLES:OPTIMIZER with a network of the zoo, as in {STEPS[0]}, "
            f"got {text!r}"
        )
    return parts[0], int(parts[1]), parts[2]
