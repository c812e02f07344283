"""Kernels by the time that fusing saves, largest first, and buckets by dynamic programming."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.streams import Timed, timed


def _never() -> bool:
    return False


def by_savings(joint: Joint, is_over: Callable[[], bool] = _never) -> Joint:
    """Fuses kernels in the order of the microseconds of computing that this saves, as long as anything is
    saved; ``is_over`` ends it early."""
    found = joint.copy()
    queue: list[tuple[float, int, int]] = []

    def consider(head: int) -> None:
        for producer in found.producers(head):
            if (saved := found.saves(head, producer)) > 0:
                heapq.heappush(queue, (-saved, head, producer))

    for head in tuple(found.nodes):
        if is_over():
            break
        consider(head)
    while queue and not is_over():
        saved, head, producer = heapq.heappop(queue)
        if head not in found.nodes or producer not in found.nodes:
            continue
        if producer not in found.producers(head) or found.saves(head, producer) != -saved:
            continue
        if not found.fuse(head, producer):
            continue
        merged = found.owner[head]
        consider(merged)
        for reader in found.readers_of(merged):
            consider(reader)
    return found


def with_copies(joint: Joint, is_over: Callable[[], bool] = _never) -> Joint:
    """Copies what a kernel reads into it wherever that saves computing; ``is_over`` ends it early."""
    found = joint.copy()
    for head in tuple(joint.nodes):
        if head not in found.nodes or is_over():
            continue
        is_changed = True
        while is_changed:
            is_changed = any(
                found.saves_by_copy(head, producer) > 0 and found.duplicate(head, producer)
                for producer in found.producers(head)
            )
    return found


def with_buckets(joint: Joint) -> Joint:
    """Buckets that end the sending earliest, among those of reductions that follow each other as they become
    ready: the last end of a collective is minimised for every number of first reductions."""
    found = joint.copy()
    found.separate()
    known = timed(found)
    for first, *others in _partition(found.problem, known):
        for other in others:
            found.combine(found.bucket[first], found.bucket[other])
    return found


def _partition(problem: Problem, known: Timed) -> list[tuple[int, ...]]:
    """The buckets as numbers of transfers."""
    sent = known.sent
    ready = [known.ready[number] for number in sent]
    best: list[tuple[float, int]] = [(0.0, 0)]
    for stop in range(1, len(sent) + 1):
        choices: list[tuple[float, int]] = []
        for start in range(stop - 1, -1, -1):
            members = sent[start:stop]
            kinds = {problem.transfers[one].kind for one in members}
            if len(members) > 1 and (len(kinds) > 1 or None in kinds):
                break
            time = problem.collective(members).microseconds
            choices.append((max(best[start][0], ready[stop - 1]) + time, start))
        best.append(min(choices))
    groups: list[tuple[int, ...]] = []
    stop = len(sent)
    while stop:
        start = best[stop][1]
        groups.append(sent[start:stop])
        stop = start
    return groups[::-1]
