"""A lower bound of the time of a joint fusion: what data flow permits with its kernels and buckets.

A bucket cannot be sent before all kernels that it waits for are computed, one after the other; after it has
arrived, all kernels that wait for it are still to be computed. With these heads and tails, the buckets are
the jobs of one machine, a class of channels; its preemptive schedule is optimal if of the jobs that are there
that with the longest tail goes first (Jackson 1955; Carlier 1982), and no order of kernels or buckets ends
earlier. Full overlap (DisCo, section 6.2) leaves heads and tails out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from superopt.optimizer.fusion.joint.collectives import Collective
from superopt.optimizer.fusion.joint.state import Joint

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Job:
    """Microseconds before a job can start, of itself, and after it."""

    head: float
    itself: float
    tail: float


def lower_bound(joint: Joint) -> float:
    """Microseconds that no order of a candidate's kernels and buckets undercuts."""
    kernels = {head: number for number, head in enumerate(joint.nodes)}
    computing = np.array([node.kernel.microseconds for node in joint.nodes.values()])
    before = _reached(joint, kernels, is_backward=False)
    after = _reached(joint, kernels, is_backward=True)
    size = joint.problem.size
    bounds = [float(computing.sum())]
    for channel in range(joint.problem.channel_classes):
        jobs: list[Job] = []
        for number, transfers in joint.buckets.items():
            job = on_channel(joint.problem.collective(transfers), channel)
            if job is not None:
                head = job.head + float(computing[before[size + number]].sum())
                tail = job.tail + float(computing[after[size + number]].sum())
                jobs.append(Job(head, job.itself, tail))
        bounds.append(preemptive(jobs))
    return max(bounds)


def on_channel(collective: Collective, channel: int) -> Job | None:
    """What a collective needs of a class of channels, before it and after it; None if it does not use it."""
    loads = [dict(loads).get(channel, 0.0) for _, loads in collective.phases]
    used = [place for place, load in enumerate(loads) if load]
    if not used:
        return None
    durations = [duration for duration, _ in collective.phases]
    tail = max(0.0, durations[used[-1]] - loads[used[-1]]) + sum(durations[used[-1] + 1 :])
    return Job(sum(durations[: used[0]]), sum(loads), tail)


def preemptive(jobs: Iterable[Job]) -> float:
    """The least time in which one machine does all jobs, if it may interrupt them."""
    coming = sorted(jobs, key=lambda job: job.head)
    ready: list[tuple[float, float]] = []
    now = end = 0.0
    while coming or ready:
        if not ready:
            now = max(now, coming[0].head)
        while coming and coming[0].head <= now:
            job = coming.pop(0)
            heapq.heappush(ready, (-job.tail, job.itself))
        minus_tail, left = heapq.heappop(ready)
        worked = min(left, coming[0].head - now) if coming else left
        now += worked
        if left > worked:
            heapq.heappush(ready, (minus_tail, left - worked))
        else:
            end = max(end, now - minus_tail)
    return end


def _reached(joint: Joint, kernels: Mapping[int, int], *, is_backward: bool) -> Mapping[int, Flags]:
    """For each node the kernels on paths to it, or from it."""
    found = {node: np.zeros(len(kernels), dtype=bool) for node in joint.order}
    for node in reversed(joint.order) if is_backward else joint.order:
        for other in joint.after(node):
            source, target = (other, node) if is_backward else (node, other)
            found[target] |= found[source]
            if source in kernels:
                found[target][kernels[source]] = True
    return found
