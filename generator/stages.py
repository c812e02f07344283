"""A stage of a preset as a task: enumerated, and its terms paired."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from generator.enumeration import Enumeration, Level
from generator.pairing import Pairing, RecordedTerms, merges, single_outputs
from generator.preset import Preset, Stage

LevelProgress = Callable[[Level], None]

_LISTENER: ContextVar[LevelProgress | None] = ContextVar("listener", default=None)


@dataclass(frozen=True, slots=True)
class StageTask:
    """A stage of a preset, with what the preset says of it."""

    stage: Stage
    test_vectors: int
    members: int
    merges: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What a stage gives, and the processor seconds that this took."""

    levels: tuple[Level, ...]
    single: Pairing
    merges: Pairing
    enumeration_seconds: float
    pairing_seconds: float


def stage_tasks(preset: Preset, max_ops: int) -> tuple[StageTask, ...]:
    """The stages of a preset up to that many operators."""
    return tuple(
        StageTask(stage, preset.test_vectors, preset.members, preset.merges)
        for stage in preset.stages_to(max_ops)
    )


def found_in(task: StageTask) -> Found:
    """Enumerates a stage and pairs its terms; depends on nothing but the task."""
    started = time.process_time()
    enumeration = Enumeration(task.stage, merges=task.merges, progress=_LISTENER.get()).complete()
    enumerated = time.process_time()
    terms = RecordedTerms(enumeration, task.members)
    single = single_outputs(terms, enumeration)
    double = merges(terms, enumeration) if task.merges else Pairing((), 0)
    paired = time.process_time()
    return Found(tuple(enumeration.levels), single, double, enumerated - started, paired - enumerated)


@contextmanager
def listening(to: LevelProgress) -> Generator[None]:
    """Tells of each level that is enumerated in this process while the block runs."""
    token = _LISTENER.set(to)
    try:
        yield
    finally:
        _LISTENER.reset(token)
