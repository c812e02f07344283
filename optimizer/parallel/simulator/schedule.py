"""Issue order of operation passes, pipelined over microbatches.

A stage of a pipeline starts a microbatch when the stage before it has done it (GPipe, Huang et al. 2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """``items``: (operation, microbatch) in issue order; ``positions``: for every microbatch the position of
    each operation's pass, -1 where it has none."""

    stages: tuple[int, ...]
    microbatches: int
    items: tuple[tuple[int, int], ...]
    positions: tuple[tuple[int, ...], ...]

    @staticmethod
    def issued(order: Sequence[int], stage: int, count: int) -> Schedule:
        """The schedule of one batch on the whole machine, in that order of ``count`` operations or fewer."""
        return _schedule((stage,) * count, 1, [(operation, 0) for operation in order])

    @staticmethod
    def of(stages: tuple[int, ...], microbatches: int) -> Schedule:
        """The schedule of operations in those stages, those of a stage by number."""
        present = sorted(set(stages))
        members: dict[int, list[int]] = {stage: [] for stage in present}
        for operation, stage in enumerate(stages):
            members[stage].append(operation)
        items: list[tuple[int, int]] = []
        for number, microbatch in _turns(len(present), microbatches):
            items.extend((operation, microbatch) for operation in members[present[number]])
        return _schedule(stages, microbatches, items)


def _schedule(stages: tuple[int, ...], microbatches: int, items: Sequence[tuple[int, int]]) -> Schedule:
    positions = [[-1] * len(stages) for _ in range(microbatches)]
    for place, (operation, microbatch) in enumerate(items):
        positions[microbatch][operation] = place
    return Schedule(stages, microbatches, tuple(items), tuple(map(tuple, positions)))


def _turns(stages: int, microbatches: int) -> Iterator[tuple[int, int]]:
    """(stage, microbatch) in the execution order of a machine on which all passes take equally long."""
    for turn in range(stages + microbatches - 1):
        for stage in range(stages):
            if 0 <= turn - stage < microbatches:
                yield stage, turn - stage
