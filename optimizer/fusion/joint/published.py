"""DisCo's search (Yi et al. 2022, section 4.5, Algorithm 1).

A queue of candidates by their time; each step takes the fastest and applies each method to it, so many times
as a random number says. Where the paper leaves a choice: a random operator is one that reads another without
a transfer, a method that is not possible there is drawn again, a neighbour of a bucket is the one sent before
or after it, and equally fast candidates are taken in the order in which they were found.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.streams import Timed, timed

Method = Callable[[Joint, Timed, random.Random], bool]
"""Changes a candidate at a random place; whether that was possible."""

_TRIES = 20
"""Places that are drawn until a method is possible at one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """``alpha``: candidates up to this many times the best time are kept; ``beta``: the most applications of
    a method at once; ``patience``: candidates without a better one until the end."""

    alpha: float = 1.05
    beta: int = 10
    patience: int = 1_000


@dataclass(frozen=True, slots=True)
class Found:
    """The best candidate, its time, and the number of candidates that were timed."""

    joint: Joint
    timed: Timed
    tried: int


def fuse_somewhere(joint: Joint, known: Timed, chance: random.Random) -> bool:
    """Method (i): fuses a kernel with one that it reads; other readers wait."""
    place = _somewhere(joint, known, chance)
    return place is not None and joint.fuse(*place)


def duplicate_somewhere(joint: Joint, known: Timed, chance: random.Random) -> bool:
    """Method (ii): fuses a kernel with a copy of one that it reads."""
    place = _somewhere(joint, known, chance)
    return place is not None and joint.duplicate(*place)


def combine_somewhere(joint: Joint, known: Timed, chance: random.Random) -> bool:
    """Method (iii): combines a bucket with the next one."""
    if len(known.sent) < 2:
        return False
    place = chance.randrange(len(known.sent) - 1)
    first, second = (joint.bucket[known.sent[place + step]] for step in (0, 1))
    return joint.combine(first, second)


METHODS: tuple[Method, ...] = (fuse_somewhere, duplicate_somewhere, combine_somewhere)


def backtracking(
    problem: Problem,
    seed: int,
    methods: Sequence[Method] = METHODS,
    limits: Limits | None = None,
    is_over: Callable[[], bool] = lambda: False,
    tell: Callable[[int, float], None] = lambda _tried, _best: None,
) -> Found:
    """The best candidate of DisCo's search. ``is_over`` ends it early; ``tell`` hears of the number of
    candidates and the best time in microseconds."""
    limits = limits or Limits()
    chance = random.Random(seed)
    start = Joint.unfused(problem)
    best, best_time = start, timed(start)
    queue: list[tuple[float, int, Joint, Timed]] = [(best_time.microseconds, 0, start, best_time)]
    tried = unchanged = 0
    while queue and unchanged < limits.patience and not is_over():
        *_, joint, known = heapq.heappop(queue)
        for method in methods:
            changed = _applied(joint, known, method, chance.randint(0, limits.beta), chance)
            time = known if changed is joint else timed(changed)
            tried += 1
            if time.microseconds < best_time.microseconds:
                best, best_time, unchanged = changed, time, 0
            else:
                unchanged += 1
            if time.microseconds <= limits.alpha * best_time.microseconds:
                heapq.heappush(queue, (time.microseconds, tried, changed, time))
            tell(tried, best_time.microseconds)
    return Found(best, best_time, tried)


def _applied(joint: Joint, known: Timed, method: Method, times: int, chance: random.Random) -> Joint:
    """The candidate after so many applications (RandomApply); itself if there were none."""
    changed = joint.copy()
    done = 0
    for _ in range(times):
        done += any(method(changed, known, chance) for _ in range(_TRIES))
    return changed if done else joint


def _somewhere(joint: Joint, known: Timed, chance: random.Random) -> tuple[int, int] | None:
    """A random kernel that reads another without a transfer, and a random one of those."""
    reader = joint.owner[chance.choice(known.order)]
    producers = joint.producers(reader)
    return (reader, chance.choice(producers)) if producers else None
