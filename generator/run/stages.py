"""Stages of a preset as tasks: enumeration, large last levels in parts, pairing."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from superopt.domains import arrays
from superopt.generator.enumerate.enumeration import Enumeration, Level
from superopt.generator.enumerate.last_level import LastLevel
from superopt.generator.enumerate.recorded import RecordedTerms
from superopt.generator.pair.merging import merges
from superopt.generator.pair.pairing import Pairing, narrowed, single_outputs
from superopt.generator.presets.preset import Preset, Stage

LevelProgress = Callable[[Level], None]

_LISTENER: ContextVar[LevelProgress | None] = ContextVar("listener", default=None)


@dataclass(frozen=True, slots=True)
class StageTask:
    """A stage of a preset with the preset's settings, and the device for its enumeration."""

    stage: Stage
    merges: bool
    device: str


@dataclass(frozen=True, slots=True)
class PartTask:
    """A part of the last level of a stage."""

    stage: StageTask
    part: int


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a stage, and its processor seconds."""

    levels: tuple[Level, ...]
    single: Pairing
    merges: Pairing | None
    enumeration_seconds: float
    pairing_seconds: float


@dataclass(frozen=True, slots=True)
class Large:
    """A stage whose last level has several parts, and the processor seconds spent so far."""

    parts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a last level, and its processor seconds."""

    block: LastLevel
    seconds: float


def stage_tasks(preset: Preset, max_ops: int, device: str = "cpu") -> tuple[StageTask, ...]:
    """The stages of a preset up to that many operators."""
    return tuple(StageTask(stage, preset.merges, device) for stage in preset.stages_to(max_ops))


def surveyed(task: StageTask) -> Found | Large:
    """The result of a stage if its last level has one part, else a ``Large``. Deterministic."""
    started = time.process_time()
    enumeration = _BUILT.of(task)
    if enumeration.parts > 1:
        return Large(enumeration.parts, time.process_time() - started)
    _BUILT.forget()
    enumeration.complete()
    return _paired(task, enumeration, time.process_time() - started)


def part_of(task: PartTask) -> Part:
    """A part of the last level. Deterministic."""
    started = time.process_time()
    block = _BUILT.of(task.stage).last_level(task.part)
    return Part(block, time.process_time() - started)


def finished(task: StageTask, large: Large, parts: Iterator[Part]) -> Found:
    """Completes a stage from its parts in order."""
    elsewhere = _Elsewhere()
    started = time.process_time()
    enumeration = _BUILT.of(task)
    enumeration.finish(elsewhere.blocks(parts))
    _BUILT.forget()
    here = time.process_time() - started - elsewhere.waited_seconds
    return _paired(task, enumeration, large.seconds + elsewhere.seconds + here)


@contextmanager
def listening(to: LevelProgress) -> Generator[None]:
    """Reports each level enumerated in this process during the block."""
    token = _LISTENER.set(to)
    try:
        yield
    finally:
        _LISTENER.reset(token)


class _Elsewhere:
    """What parts cost, and what this process spent meanwhile: that is part of it, or next to nothing."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.waited_seconds = 0.0

    def blocks(self, parts: Iterator[Part]) -> Iterable[LastLevel]:
        """The parts without their costs."""
        while True:
            started = time.process_time()
            part = next(parts, None)
            self.waited_seconds += time.process_time() - started
            if part is None:
                return
            self.seconds += part.seconds
            yield part.block


class _Built:
    """Cache of the lower levels of one stage, shared by its parts."""

    def __init__(self) -> None:
        self._task: StageTask | None = None
        self._enumeration: Enumeration | None = None

    def of(self, task: StageTask) -> Enumeration:
        """The enumeration of a stage, cached."""
        if self._enumeration is None or self._task != task:
            self.forget()
            self._enumeration = Enumeration(
                task.stage,
                merges=task.merges,
                progress=_LISTENER.get(),
                device=arrays.device(task.device),
            )
            self._task = task
        return self._enumeration

    def forget(self) -> None:
        """Clears the cache."""
        self._task = self._enumeration = None


_BUILT = _Built()


def _paired(task: StageTask, enumeration: Enumeration, enumeration_seconds: float) -> Found:
    started = time.process_time()
    terms = RecordedTerms(enumeration)
    single = single_outputs(terms, enumeration)
    double = merges(terms, enumeration) if task.merges else None
    single, *more = narrowed((single,) if double is None else (single, double))
    seconds = time.process_time() - started
    return Found(tuple(enumeration.levels), single, more[0] if more else None, enumeration_seconds, seconds)
