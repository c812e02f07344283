"""Pipeline parallelism: consecutive stages of a graph on disjoint parts of the machine, run on microbatches.

As in Unity (section 5.3), every operation belongs to exactly one of consecutive stages. Stages are cut where
one tensor or few have to be sent; dynamic programming finds the cuts that minimise the time of the slowest
stage.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from types import MappingProxyType

from superopt.ir.graph import NodeId
from superopt.ir.plan import Parallelism, Plan
from superopt.ops.sharded.splits import SplitKind
from superopt.optimizer.parallel.search.choices import Choice, parallelism
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.terms import completed

_FEW_STAGES = 16
_PER_STAGE = (1, 2, 4, 8)
"""Microbatches per stage."""

_MOST_PLACES = 128


def stage_counts(mesh: Mesh) -> tuple[int, ...]:
    """Numbers of stages on equal machines into which a machine can be divided: whole nodes, or equal parts of
    one."""
    count = len(mesh.devices)
    return tuple(n for n in range(2, min(count, _FEW_STAGES) + 1) if count % n == 0)


def stage_meshes(mesh: Mesh, stages: int) -> tuple[Mesh, ...] | None:
    """The mesh of each stage; None where the axes of the machine cannot be divided this way."""
    product, axis = 1, 0
    while product < stages and axis < len(mesh.sizes):
        product *= mesh.sizes[axis]
        axis += 1
    if product != stages:
        return None
    sizes = mesh.sizes[axis:]
    per_stage = len(mesh.devices) // stages
    return tuple(
        Mesh(mesh.devices[n * per_stage : (n + 1) * per_stage], sizes, min(mesh.inner, len(sizes)))
        for n in range(stages)
    )


def cut_into(costs: Sequence[float], crossing: Sequence[int], stages: int) -> list[int] | None:
    """The stage of every operation, such that the largest sum of costs is minimal; None if there are too few
    operations. ``crossing[i]`` is the number of values that cross the boundary before operation i: cuts are
    made where it is one if there are enough such places."""
    count = len(costs)
    fewest = [i for i in range(1, count) if crossing[i] <= 1]
    places = fewest if len(fewest) >= stages - 1 else list(range(1, count))
    if len(places) < stages - 1:
        return None
    if len(places) > _MOST_PLACES:
        places = [places[i * len(places) // _MOST_PLACES] for i in range(_MOST_PLACES)]
    sums = [0.0, *itertools.accumulate(costs)]
    ends = [*places, count]
    best = [[float("inf")] * len(ends) for _ in range(stages)]
    back = [[0] * len(ends) for _ in range(stages)]
    best[0] = [sums[end] for end in ends]
    for stage in range(1, stages):
        for i in range(stage, len(ends)):
            for j in range(stage - 1, i):
                slowest = max(best[stage - 1][j], sums[ends[i]] - sums[ends[j]])
                if slowest < best[stage][i]:
                    best[stage][i], back[stage][i] = slowest, j
    cuts: list[int] = []
    i = len(ends) - 1
    for stage in range(stages - 1, 0, -1):
        i = back[stage][i]
        cuts.append(ends[i])
    cuts.reverse()
    return [bisect.bisect_right(cuts, number) for number in range(count)]


def crossings(subject: Subject) -> list[int]:
    """The number of values that cross the boundary before each operation."""
    last: dict[tuple[int, int], int] = {}
    for edge in subject.edges:
        last[edge.source, edge.port] = max(last.get((edge.source, edge.port), 0), edge.target)
    change = [0] * (len(subject.operations) + 2)
    for (source, _), target in last.items():
        change[source + 1] += 1
        change[target + 1] -= 1
    return list(itertools.accumulate(change))[: len(subject.operations)]


def pipelines(
    subject: Subject, choices: Sequence[Choice], costs: Sequence[float], meshes: Sequence[Mesh]
) -> Iterator[Plan]:
    """The plan with every stage divided by those choices, for several numbers of microbatches."""
    stages = cut_into(costs, crossings(subject), len(meshes))
    if stages is None:
        return
    how: dict[NodeId, Parallelism] = {
        operation.node: parallelism(operation, choices[number], meshes[stages[number]], stages[number])
        for number, operation in enumerate(subject.operations)
    }
    for per_stage in _PER_STAGE:
        microbatches = per_stage * len(meshes)
        if _admits(subject, how, microbatches):
            yield Plan(parallel=MappingProxyType(how), microbatches=microbatches)


def _admits(subject: Subject, how: dict[NodeId, Parallelism], microbatches: int) -> bool:
    """Whether the samples of every task can be divided into that many microbatches."""
    for operation in subject.operations:
        degrees = completed(operation.splits, how[operation.node].degrees)
        for dimension, degree in zip(operation.splits.dimensions, degrees, strict=True):
            size = dimension.size if dimension.kind is SplitKind.SAMPLE else 1
            if isinstance(size, int) and size > 1 and size % (degree * microbatches):
                return False
    return True
