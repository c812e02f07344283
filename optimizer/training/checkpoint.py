"""Checkpoints of training in safetensors format: all states, and what is needed to continue exactly."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# safetensors declares no types of what it reads.

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, cast

import numpy as np
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from superopt.defects import first_defect
from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.files import atomic_path
from superopt.optimizer.cost.runtime.session import Array
from superopt.optimizer.training.dataset import Batching, Position
from superopt.optimizer.training.running import Step

KEY = "superopt.checkpoint"
"""The key of the file's metadata entry."""


@dataclass(frozen=True, slots=True)
class Course:
    """What determines a training run besides step and samples, and where it stands. ``step_sha256``
    identifies the step's model file."""

    position: Position
    batching: Batching
    learning_rate: float | None
    step_sha256: str
    format: Literal[1] = 1


_COURSE = TypeAdapter(Course)


@dataclass(frozen=True, slots=True)
class EverySteps:
    """A checkpoint after each ``count`` steps; raises InvalidOptionError for less than 1."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidOptionError(f"checkpoint every: expected at least 1 step, got {self.count}")


@dataclass(frozen=True, slots=True)
class EverySeconds:
    """A checkpoint after the first step that ends ``seconds`` or more after the last checkpoint; raises
    InvalidOptionError unless that is a positive number."""

    seconds: float

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise InvalidOptionError(
                f"checkpoint every: expected a positive number of seconds, got {self.seconds:g}"
            )


Interval: TypeAlias = EverySteps | EverySeconds
DEFAULT_INTERVAL = EverySeconds(60.0)


def parse_interval(text: str) -> Interval:
    """``100`` is a number of steps, ``30s`` a time in seconds; raises InvalidOptionError for others."""
    number = text.removesuffix("s")
    try:
        return EverySteps(int(text)) if number == text else EverySeconds(float(number))
    except ValueError:
        raise InvalidOptionError(
            f"checkpoint every: expected a number of steps (100) or a time in seconds (30s), got {text!r}"
        ) from None


@dataclass
class Schedule:
    """Decides when a checkpoint is due."""

    interval: Interval
    _since: float = field(default_factory=time.monotonic)

    def is_due(self, step: int) -> bool:
        """Whether one is due after ``step`` steps."""
        match self.interval:
            case EverySteps(count):
                return step % count == 0
            case EverySeconds(seconds):
                return time.monotonic() - self._since >= seconds

    def restart(self) -> None:
        """Measures time from now on: a checkpoint was written."""
        self._since = time.monotonic()


def write_checkpoint(path: Path, states: Mapping[str, Array], course: Course) -> None:
    """Writes the file whole or not at all; raises InvalidOptionError where it cannot."""
    try:
        with atomic_path(path) as part:
            mode = part.stat().st_mode
            save_file(dict(states), part, metadata={KEY: _COURSE.dump_json(course).decode()})
            part.chmod(mode)  # the library replaces the file by one that only its owner can read
    except (OSError, SafetensorError) as error:
        raise InvalidOptionError(f"{path}: cannot be written: {error}") from error


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The content of a checkpoint that fits a step."""

    course: Course
    states: Mapping[str, Array]

    def restore(self, step: Step) -> None:
        """Sets the states of the step."""
        for name, array in step.states.items():
            np.copyto(array, self.states[name])


def read_checkpoint(path: Path, step: Step) -> Checkpoint:
    """Reads a checkpoint of a step.

    Raises InvalidFileError for a file that is missing or no checkpoint, for one of another step, and for
    states that are missing, unknown, or of a wrong type or shape.
    """
    if not path.is_file():
        raise InvalidFileError(f"{path}: expected a checkpoint to resume from, and there is no such file")
    try:
        with safe_open(path, framework="np") as file:
            course = _course(path, cast("Mapping[str, str]", file.metadata() or {}))
            if course.step_sha256 != step.sha256:
                raise InvalidFileError(
                    f"{path}: expected a checkpoint of {step.name}, got one of another step"
                )
            names = cast("list[str]", file.keys())
            stored = {name: cast("Array", file.get_tensor(name)) for name in names}
    except (OSError, SafetensorError) as error:
        raise InvalidFileError(f"{path}: expected a checkpoint in safetensors format: {error}") from None
    _require_same_states(path, stored, step.states)
    return Checkpoint(course, stored)


def _course(path: Path, metadata: Mapping[str, str]) -> Course:
    if KEY not in metadata:
        raise InvalidFileError(f"{path}: expected a checkpoint of superopt train, got other tensors")
    try:
        return _COURSE.validate_json(metadata[KEY])
    except ValidationError as error:
        raise InvalidFileError(f"{path}: metadata {KEY!r}: {first_defect(error)}") from None


def _require_same_states(path: Path, stored: Mapping[str, Array], states: Mapping[str, Array]) -> None:
    for name in stored:
        if name not in states:
            raise InvalidFileError(f"{path}: state {name!r} is unknown; the step has {', '.join(states)}")
    for name, array in states.items():
        if name not in stored:
            raise InvalidFileError(f"{path}: state {name!r} is missing")
        got = stored[name]
        if (got.dtype, got.shape) != (array.dtype, array.shape):
            raise InvalidFileError(
                f"{path}: state {name!r}: expected {array.dtype}{list(array.shape)}, "
                f"got {got.dtype}{list(got.shape)}"
            )
