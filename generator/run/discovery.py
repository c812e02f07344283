"""Discovery of candidates from a preset: enumerate, pair, prune, generalise (TASO dissertation, 2.3, 2.5)."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from superopt.errors import InvalidOptionError
from superopt.generator.enumerate.enumeration import Level
from superopt.generator.presets.preset import Preset
from superopt.generator.prune.minimal import minimal
from superopt.generator.prune.pruning import Candidate, Selection
from superopt.generator.run.checkpoint import Checkpoint
from superopt.generator.run.executors import Workers, in_process
from superopt.generator.run.stages import (
    Found,
    Large,
    Part,
    PartTask,
    finished,
    listening,
    part_of,
    stage_tasks,
    surveyed,
)
from superopt.generator.run.tasks import Tasks, sources, task_names
from superopt.generator.run.usage import process_name, restart_peak
from superopt.processes.garbage import seldom_collecting
from superopt.processes.peak import peak_memory_bytes

_STAGES = "stage"
_RESULT = "generation"


@dataclass(frozen=True)
class Generation:
    """The results of a run. ``pairs`` of terms had equal values; ``distinct`` counts them up to renaming.

    ``cpu_seconds`` are those of all processes in this run, ``phases`` those for each kind of work, also where
    an earlier run did it; ``resumed`` tasks were done by one (all stages, where all was done).
    ``peak_memory_bytes`` is the sum over all processes of the peak of each. ``saturation``: how many
    candidates equality saturation was asked about, and how many forms of them, which are kept, had no type or
    met a limit.
    """

    preset: str
    max_ops: int
    levels: tuple[Level, ...]
    pairs: int
    distinct: int
    dropped: Mapping[str, int]
    candidates: tuple[Candidate, ...]
    seconds: float
    cpu_seconds: float
    phases: Mapping[str, float]
    peak_memory_bytes: int
    saturation: Mapping[str, int]
    resumed: int = 0

    @property
    def kept(self) -> int:
        """The number of candidates."""
        return len(self.candidates)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run: current activity, and the level just finished, if any.

    ``done`` of ``total`` stages are enumerated and paired, and of the next one so many ``parts`` of how many
    where there are several; ``pairs`` of terms are found, ``dropped``
    equations are pruned and ``kept`` remain so far. ``memory_bytes`` is this process's peak.
    """

    activity: str
    done: int
    total: int
    level: Level | None = None
    parts: tuple[int, int] | None = None
    pairs: int = 0
    dropped: int = 0
    kept: int = 0
    seconds: float = 0.0
    memory_bytes: int = 0


def generate(
    preset: Preset,
    *,
    max_ops: int | None = None,
    operators: Sequence[str] | None = None,
    workers: Workers | None = None,
    checkpoints: Callable[[str], Checkpoint] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Generation:
    """All candidates of a preset up to ``max_ops`` operators (default: the preset's own number).

    ``operators`` restricts the preset. Stages, and parts of large ones, are tasks for the ``workers``
    (default: this process). ``checkpoints`` opens the checkpoint of a run by its key; stored results are
    reused, and the final result is stored. Deterministic: equal arguments give equal candidates in one order,
    regardless of processes, devices and interruptions.

    Raises InvalidOptionError for an operator that the preset does not have or a size below 1, and what the
    checkpoints raise; MissingServiceError when workers are lost for good or lack the device.
    """
    if max_ops is not None and max_ops < 1:
        raise InvalidOptionError(f"max_ops: expected at least 1, got {max_ops}")
    if operators is not None:
        preset = preset.restricted_to(operators)
    size = preset.max_ops if max_ops is None else max_ops
    checkpoint = None if checkpoints is None else checkpoints(run_key(preset, size))
    known = None if checkpoint is None else cast("Generation | None", checkpoint.load(_RESULT))
    if known is not None:
        return replace(known, resumed=len(stage_tasks(preset, size)))
    run = _Run(preset, size, Tasks(workers or in_process(), checkpoint), progress)
    with seldom_collecting():
        generation = run.generation()
    if checkpoint is not None:
        checkpoint.store(_RESULT, generation)
        checkpoint.drop(*task_names(_STAGES, run.stages))
    return generation


def run_key(preset: Preset, max_ops: int) -> str:
    """The key of a run: preset, size, and a hash of both and of the code."""
    digest = hashlib.sha256(f"{sources()} {max_ops} {preset!r}".encode()).hexdigest()
    return f"{preset.name}-{max_ops}-{digest[:16]}"


class _Run:
    def __init__(
        self, preset: Preset, size: int, tasks: Tasks, progress: Callable[[Progress], None] | None
    ) -> None:
        self._preset = preset
        self._size = size
        self._tasks = tasks
        self._tell = progress
        self._stages = stage_tasks(preset, size, tasks.workers.device)
        self._found: list[Found] = []
        self._selection = Selection(f"{preset.name}, {size} operators")
        self._activity = "enumerate"
        self._selection.told = self._report
        self._started = time.perf_counter()
        self._cpu_started = time.process_time()
        restart_peak()

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self._stages)

    def generation(self) -> Generation:
        """Runs all stages."""
        self._report()
        with listening(self._report):
            for number, survey in enumerate(self._tasks.map(_STAGES, surveyed, self._stages)):
                found = self._finished(number, survey) if isinstance(survey, Large) else survey
                self._found.append(found)
                self._activity = "enumerate" if len(self._found) < self.stages else "prune"
                self._report()
        enumerated = time.process_time()
        distinct = self._selection.take([found.single for found in self._found])
        self._activity = "prune merges"
        self._report()
        distinct += self._selection.take([f.merges for f in self._found if f.merges is not None])
        self._activity = "saturate"
        self._report()
        least = minimal(self._selection.candidates)
        dropped = Counter(self._selection.dropped)
        dropped["derivable by equality saturation"] += len(self._selection.candidates) - len(least.kept)
        pruning_seconds = time.process_time() - enumerated
        peaks = self._tasks.usage.peaks
        peaks[process_name()] = max(peaks.get(process_name(), 0), peak_memory_bytes())
        return Generation(
            self._preset.name,
            self._size,
            _summed([level for found in self._found for level in found.levels]),
            self._pairs(),
            distinct,
            dict(sorted((+dropped).items())),
            least.kept,
            time.perf_counter() - self._started,
            time.process_time() - self._cpu_started + self._tasks.usage.cpu_seconds,
            {
                "enumerate": sum(found.enumeration_seconds for found in self._found),
                "pair": sum(found.pairing_seconds for found in self._found),
                "prune": pruning_seconds,
            },
            self._tasks.usage.peak_memory_bytes,
            {"asked": least.asked, "untyped": least.untyped, "unfinished": least.unfinished},
            self._tasks.kept,
        )

    def _finished(self, number: int, large: Large) -> Found:
        """Combines the parts of a stage into one stored result."""
        task, checkpoint = self._stages[number], self._tasks.checkpoint
        parts = f"{_STAGES} {number} part"
        tasks = [PartTask(task, part) for part in range(large.parts)]
        found = finished(task, large, self._counted(self._tasks.map(parts, part_of, tasks), large.parts))
        if checkpoint is not None:
            checkpoint.store(task_names(_STAGES, self.stages)[number], found)
            checkpoint.drop(*task_names(parts, large.parts))
        return found

    def _counted(self, parts: Iterator[Part], count: int) -> Iterator[Part]:
        for number, part in enumerate(parts, 1):
            self._report(parts=(number, count))
            yield part

    def _pairs(self) -> int:
        pairings = [p for found in self._found for p in (found.single, found.merges) if p is not None]
        return sum(pairing.raw for pairing in pairings)

    def _report(self, level: Level | None = None, parts: tuple[int, int] | None = None) -> None:
        if self._tell is not None:
            self._tell(
                Progress(
                    self._activity,
                    len(self._found),
                    self.stages,
                    level,
                    parts,
                    self._pairs(),
                    sum(self._selection.dropped.values()),
                    len(self._selection.candidates),
                    time.perf_counter() - self._started,
                    peak_memory_bytes(),
                )
            )


def _summed(levels: Sequence[Level]) -> tuple[Level, ...]:
    """Counts of all stages by number of operators."""
    return tuple(
        Level(
            ops,
            sum(level.terms for level in levels if level.ops == ops),
            sum(level.classes for level in levels if level.ops == ops),
        )
        for ops in sorted({level.ops for level in levels})
    )
