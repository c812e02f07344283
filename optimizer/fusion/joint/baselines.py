"""Rules with which a search is compared (DisCo, section 6.1): kernels by XLA's rule, buckets by size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.streams import Timed, timed

NONE, OPERATORS, REDUCTIONS, BOTH, BUCKETS = (
    "no fusion",
    "op fusion",
    "AllReduce fusion",
    "op and AllReduce fusion",
    "DDP buckets",
)
THRESHOLD = 30 * 2**20
"""Bytes up to which XLA combines all-reduces by default."""
FIRST_BUCKET, BUCKET = 2**20, 25 * 2**20
"""Bytes of PyTorch's buckets: of the first one, and of all others."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The candidate of a rule, with its time."""

    joint: Joint
    timed: Timed


def baselines(problem: Problem) -> Mapping[str, Baseline]:
    """The candidates of all rules, by name."""
    unfused = Joint.unfused(problem)
    fused = by_post_order(unfused)
    found = {
        NONE: unfused,
        OPERATORS: fused,
        REDUCTIONS: by_size(unfused, THRESHOLD, THRESHOLD),
        BOTH: by_size(fused, THRESHOLD, THRESHOLD),
        BUCKETS: by_size(unfused, FIRST_BUCKET, BUCKET),
    }
    return {name: Baseline(joint, timed(joint)) for name, joint in found.items()}


def by_post_order(joint: Joint) -> Joint:
    """Every kernel, last ones first, is fused with those that it reads as long as that is possible and takes
    less time, like XLA's instruction fusion."""
    found = joint.copy()
    for number in reversed(range(joint.problem.size)):
        if found.owner[number] == number:
            _absorb(found, number)
    return found


def _absorb(joint: Joint, number: int) -> None:
    """Fuses the kernel of an operation with those that it reads, until none saves time."""
    is_changed = True
    while is_changed:
        head = joint.owner[number]
        is_changed = any(
            joint.saves(head, producer) > 0 and joint.fuse(head, producer)
            for producer in sorted(joint.producers(head), reverse=True)
        )


def by_size(joint: Joint, first: int, others: int) -> Joint:
    """Reductions in the order in which they are ready, as many in a bucket as do not exceed its bytes."""
    found = joint.copy()
    problem = joint.problem
    order = [transfer for number in timed(joint).sent for transfer in joint.buckets[number]]
    current: int | None = None
    size, limit = 0, first
    for transfer in order:
        if problem.transfers[transfer].kind is None:
            continue
        own = problem.bytes[transfer]
        if current is None or size + own > limit or not found.combine(found.bucket[current], transfer):
            limit = others if current is not None else first
            current, size = transfer, 0
        size += own
    return found
