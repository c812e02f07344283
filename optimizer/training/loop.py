"""The training loop: batches, losses, checkpoints, interruption."""

from __future__ import annotations

import math
import signal
import statistics
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import numpy as np

from superopt.errors import DivergedError, InvalidOptionError
from superopt.files import require_writable
from superopt.optimizer.cost.runtime.session import Array
from superopt.optimizer.training.checkpoint import (
    DEFAULT_INTERVAL,
    Course,
    Interval,
    Schedule,
    read_checkpoint,
    write_checkpoint,
)
from superopt.optimizer.training.dataset import Batching, Dataset, Order, Position, fill
from superopt.optimizer.training.running import Step
from superopt.processes.peak import peak_memory_bytes


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The last step that was run, of ``steps``: its loss and wall time."""

    step: int
    steps: int
    loss: float
    milliseconds: float


ProgressCallback = Callable[[TrainingProgress], None]


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What a training run did. ``losses`` are those of this run, which began after ``resumed_at`` steps and
    ended after ``position.step``. ``milliseconds`` is the median wall time of a step, NaN if none was run;
    ``peak_bytes`` the peak resident memory of the process; ``checkpoint`` the file with the last states."""

    losses: tuple[float, ...]
    resumed_at: int
    position: Position
    batch_size: int
    seed: int
    milliseconds: float
    seconds: float
    peak_bytes: int
    checkpoint: Path | None


def train(
    step: Step,
    data: str | Path | Mapping[str, Array],
    *,
    steps: int,
    batch_size: int | None = None,
    seed: int | None = None,
    learning_rate: float | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: Interval = DEFAULT_INTERVAL,
    resume: str | Path | None = None,
    progress: ProgressCallback | None = None,
) -> TrainingResult:
    """Trains until ``steps`` steps are done, those before the checkpoint ``resume`` included.

    It begins with the present states of the step. ``data`` is a numpy archive, or arrays by the names of the
    step's data inputs; the first axis counts samples. ``batch_size`` is the step's where it fixes one (the
    rest of each epoch is left out then), else 32 by default. ``seed`` (default 0) determines the order of
    samples and the step's random masks.
    ``learning_rate`` is given exactly if it is an input of the step without a default. All states are
    written to ``checkpoint`` at each interval and at the end. A resumed run has the seed, batch size and
    learning rate of the run before, and the same losses as one that was not interrupted.

    SIGINT and SIGTERM end the run after the present step and a checkpoint, if the main thread trains.
    Raises InvalidOptionError, InvalidFileError (data, checkpoint), RuntimeRefusedError, DivergedError at a
    loss that is not finite: the last checkpoint is kept then.
    """
    if not isinstance(cast("object", step), Step):
        raise InvalidOptionError(f"step: expected a superopt.training.Step, got {type(step).__name__}")
    for name, number in (("steps", steps), ("batch size", batch_size), ("seed", seed)):
        if number is not None and not isinstance(cast("object", number), int | np.integer):
            raise InvalidOptionError(f"{name}: expected a whole number, got {number!r}")
    if steps < 1:
        raise InvalidOptionError(f"steps: expected at least 1, got {steps}")
    written = None if checkpoint is None else Path(checkpoint)
    if written is not None:
        require_writable(written)
    dataset = Dataset.of(data, step.data)
    if step.description.labels is not None:
        dataset.require_labels(step.description.labels)
    if resume is None:
        step.set_learning_rate(learning_rate)
        course = _beginning(step, dataset, batch_size, seed)
    else:
        found = read_checkpoint(Path(resume), step)
        _require_same_course(found.course, step, dataset, batch_size, seed)
        step.set_learning_rate(found.course.learning_rate if learning_rate is None else learning_rate)
        course = replace(found.course, learning_rate=step.learning_rate)
        found.restore(step)
    step.set_seed(course.batching.seed)
    return _Run(step, dataset, course, written, Schedule(checkpoint_every)).until(steps, progress)


def _beginning(step: Step, dataset: Dataset, batch_size: int | None, seed: int | None) -> Course:
    if seed is not None and not 0 <= seed < 1 << 63:
        raise InvalidOptionError(f"seed: expected a number from 0 to 2^63 - 1, got {seed}")
    batching = Batching.of(step, dataset, batch_size, seed or 0)
    return Course(Position(), batching, step.learning_rate, step.sha256)


def _require_same_course(
    course: Course, step: Step, dataset: Dataset, batch_size: int | None, seed: int | None
) -> None:
    """Raises InvalidOptionError where options or data differ from those before the checkpoint."""
    before = course.batching
    asked = Batching.of(step, dataset, batch_size or before.size, before.seed if seed is None else seed)
    for what, expected, got in (
        ("samples", before.count, asked.count),
        ("batch size", before.size, asked.size),
        ("seed", before.seed, asked.seed),
    ):
        if got != expected:
            raise InvalidOptionError(f"{what}: expected {expected}, as before the checkpoint, got {got}")


@dataclass
class _Run:
    """A run of the loop: where it stands, the losses and wall times of its steps, the last checkpoint."""

    step: Step
    dataset: Dataset
    course: Course
    checkpoint: Path | None
    schedule: Schedule
    losses: list[float] = field(default_factory=list[float])
    milliseconds: list[float] = field(default_factory=list[float])
    saved_at: int | None = None

    def until(self, steps: int, progress: ProgressCallback | None) -> TrainingResult:
        """Runs the steps that are left. Raises DivergedError for a loss or a state that is not finite."""
        started, resumed_at = time.perf_counter(), self.course.position.step
        broken = self._not_finite()
        if broken:
            raise DivergedError(f"{broken} is not finite before the first step: read the step again")
        with _signals() as received:
            if resumed_at < steps:
                self._advance_until(steps, progress, received)
            self._save()
        if received:
            signal.raise_signal(received[0])
        return TrainingResult(
            losses=tuple(self.losses),
            resumed_at=resumed_at,
            position=self.course.position,
            batch_size=self.course.batching.size,
            seed=self.course.batching.seed,
            milliseconds=statistics.median(self.milliseconds) if self.milliseconds else math.nan,
            seconds=time.perf_counter() - started,
            peak_bytes=peak_memory_bytes(),
            checkpoint=self.checkpoint,
        )

    def _advance_until(
        self, steps: int, progress: ProgressCallback | None, received: Sequence[signal.Signals]
    ) -> None:
        for chosen, after in self.course.batching.batches(self.course.position):
            self._advance(chosen, after)
            if progress is not None:
                progress(TrainingProgress(after.step, steps, self.losses[-1], self.milliseconds[-1]))
            if after.step >= steps or received:
                return
            if self.schedule.is_due(after.step):
                self._save()

    def _advance(self, chosen: Order, after: Position) -> None:
        started = time.perf_counter()
        fill(self.step, self.dataset, chosen)
        loss = self.step.advance()
        if not math.isfinite(loss):
            raise DivergedError(self._divergence(after.step, f"expected a finite loss, got {loss}"))
        self.losses.append(loss)
        self.milliseconds.append((time.perf_counter() - started) * 1000)
        self.course = replace(self.course, position=after)

    def _not_finite(self) -> str:
        """The first state that has a number that is not finite; empty if there is none."""
        numbers = {name: array for name, array in self.step.states.items() if array.dtype.kind not in "iub"}
        return next((name for name, array in numbers.items() if not np.isfinite(array).all()), "")

    def _save(self) -> None:
        """Writes a checkpoint, unless there is none to write or the last one has the present states. Raises
        DivergedError for a state that is not finite, which no checkpoint and no model gets."""
        position, broken = self.course.position.step, self._not_finite()
        if broken:
            why = f"the loss is finite, but the new state {broken} is not"
            raise DivergedError(self._divergence(position, why))
        if self.checkpoint is not None and self.saved_at != position:
            write_checkpoint(self.checkpoint, self.step.states, self.course)
            self.saved_at = position
            self.schedule.restart()

    def _divergence(self, step: int, why: str) -> str:
        kept = (
            "" if self.saved_at is None else f"; {self.checkpoint} has the states after step {self.saved_at}"
        )
        return (
            f"step {step}: {why}; try a lower learning rate, and look for samples that are not finite, or "
            f"at which a gradient is not{kept}"
        )


@contextmanager
def _signals() -> Generator[Sequence[signal.Signals]]:
    """The signals among SIGINT and SIGTERM that came during the block, at most one; a second one is treated
    as before the block. Outside the main thread, which alone can receive signals, there are none."""
    received: list[signal.Signals] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    taken = {number: one for number, one in before.items() if one not in (None, signal.SIG_IGN)}

    def restore() -> None:
        for number, one in taken.items():
            signal.signal(number, one)

    def receive(number: int, _frame: object) -> None:
        received.append(signal.Signals(number))
        restore()

    for number in taken:
        signal.signal(number, receive)
    try:
        yield received
    finally:
        restore()
