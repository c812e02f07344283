"""Issue order of operation passes: forward, backward, and pipelined over microbatches.

Pipeline stages alternate one forward and one backward pass (1F1B; PipeDream, Narayanan et al. 2019) after as
many forward passes as there are stages after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FORWARD, BACKWARD = 0, 1


@dataclass(frozen=True)
class Schedule:
    """``items``: (direction, operation, microbatch) in issue order; ``positions``: for every direction and
    microbatch the position of each operation's pass, -1 where it has none."""

    stages: tuple[int, ...]
    microbatches: int
    items: tuple[tuple[int, int, int], ...]
    positions: tuple[tuple[tuple[int, ...], ...], ...]

    @staticmethod
    def of(stages: tuple[int, ...], microbatches: int, trained: frozenset[int], *, trains: bool) -> Schedule:
        """The schedule of operations in those stages; ``trained`` are those with a backward pass."""
        present = sorted(set(stages))
        members: dict[int, list[int]] = {stage: [] for stage in present}
        for operation, stage in enumerate(stages):
            members[stage].append(operation)
        items: list[tuple[int, int, int]] = []
        for number, direction, microbatch in _turns(len(present), microbatches, trains=trains):
            operations = members[present[number]]
            if direction == BACKWARD:
                operations = [operation for operation in reversed(operations) if operation in trained]
            items.extend((direction, operation, microbatch) for operation in operations)
        positions = [[[-1] * len(stages) for _ in range(microbatches)] for _ in (FORWARD, BACKWARD)]
        for place, (direction, operation, microbatch) in enumerate(items):
            positions[direction][microbatch][operation] = place
        return Schedule(
            stages, microbatches, tuple(items), tuple(tuple(map(tuple, rows)) for rows in positions)
        )


def _turns(stages: int, microbatches: int, *, trains: bool) -> Sequence[tuple[int, int, int]]:
    """(stage, direction, microbatch) in the execution order of a machine on which all passes take equally
    long."""
    waiting = [_of_stage(stage, stages, microbatches, trains=trains) for stage in range(stages)]
    done: set[tuple[int, int, int]] = set()
    turns: list[tuple[int, int, int]] = []
    while any(waiting):
        ready = [
            (stage, *queue[0])
            for stage, queue in enumerate(waiting)
            if queue and _is_ready(stage, *queue[0], stages, done)
        ]
        assert ready, "passes never wait for each other"
        for turn in ready:
            waiting[turn[0]].pop(0)
        turns.extend(ready)
        done.update(ready)
    return turns


def _of_stage(stage: int, stages: int, microbatches: int, *, trains: bool) -> list[tuple[int, int]]:
    forwards = [(FORWARD, microbatch) for microbatch in range(microbatches)]
    if not trains:
        return forwards
    ahead = min(stages - stage, microbatches)
    queue = forwards[:ahead]
    for microbatch in range(microbatches):
        queue.append((BACKWARD, microbatch))
        queue.extend(forwards[ahead + microbatch : ahead + microbatch + 1])
    return queue


def _is_ready(
    stage: int, direction: int, microbatch: int, stages: int, done: set[tuple[int, int, int]]
) -> bool:
    if direction == FORWARD:
        return stage == 0 or (stage - 1, FORWARD, microbatch) in done
    return (stage, FORWARD, microbatch) in done and (
        stage == stages - 1 or (stage + 1, BACKWARD, microbatch) in done
    )
