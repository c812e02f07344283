"""From a preset to candidates: enumerate, pair, prune, generalise (TASO dissertation, 2.3 and 2.5)."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from generator.enumeration import Enumeration, Level
from generator.pairing import Pairing, RecordedTerms, merges, single_outputs
from generator.preset import Preset
from generator.pruning import Candidate, Selection
from superopt.errors import InvalidOptionError


@dataclass(frozen=True)
class Generation:
    """What a run found. ``pairs`` of terms had equal values; ``distinct`` of them are no renamings."""

    preset: str
    max_ops: int
    levels: tuple[Level, ...]
    pairs: int
    distinct: int
    dropped: Mapping[str, int]
    candidates: tuple[Candidate, ...]
    seconds: float
    peak_memory_bytes: int

    @property
    def kept(self) -> int:
        """The number of candidates."""
        return len(self.candidates)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is: what it does now, and the level it has just finished, if any."""

    stage: str
    level: Level | None = None
    seconds: float = 0.0


def generate(
    preset: Preset,
    *,
    max_ops: int | None = None,
    operators: Sequence[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Generation:
    """All candidates over a preset up to ``max_ops`` operators (the preset's own number when None).

    ``operators`` keeps only those of the preset. Equal arguments give equal candidates in one order.
    Raises InvalidOptionError for an operator that the preset does not have or a size below 1.
    """
    if max_ops is not None and max_ops < 1:
        raise InvalidOptionError(f"max_ops: expected at least 1, got {max_ops}")
    started = time.perf_counter()

    def report(stage: str, level: Level | None = None) -> None:
        if progress is not None:
            progress(Progress(stage, level, time.perf_counter() - started))

    if operators is not None:
        preset = preset.restricted_to(operators)
    size = preset.max_ops if max_ops is None else max_ops
    selection = Selection({t.name: t.type.shape for t in preset.inputs}, f"{preset.name}, {size} operators")
    levels: list[Level] = []
    found: list[tuple[Pairing, Pairing]] = []
    for stage in preset.stages_to(size):
        enumeration = Enumeration(
            stage,
            preset.test_vectors,
            merges=preset.merges,
            progress=lambda level: report("enumerate", level),
        )
        levels += enumeration.levels
        terms = RecordedTerms(enumeration, preset.members)
        report("pair")
        found.append(
            (
                single_outputs(terms, enumeration),
                merges(terms, enumeration) if preset.merges else Pairing((), 0),
            )
        )
    report("prune")
    distinct = selection.take(sides for single, _ in found for sides in single.sides)
    report("prune merges")
    distinct += selection.take(sides for _, double in found for sides in double.sides)
    return Generation(
        preset.name,
        size,
        _summed(levels),
        sum(single.raw + double.raw for single, double in found),
        distinct,
        MappingProxyType(dict(sorted(selection.dropped.items()))),
        tuple(selection.candidates),
        time.perf_counter() - started,
        _peak_memory_bytes(),
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


def _peak_memory_bytes() -> int:
    """The most that this program had in memory; ``getrusage`` would count what started it as well."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text("ascii", "replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
