"""Our search for joint fusions: from several good starts, changes where they promise most.

Starts fuse operators by the time saved, with and without delaying what is sent, and put reductions into
buckets by dynamic programming; the fastest is improved by random changes of single kernels and buckets that
are kept if they are faster, and buckets are found anew from time to time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping

from superopt.optimizer.fusion.joint.baselines import Baseline
from superopt.optimizer.fusion.joint.greedy import (
    always,
    by_savings,
    keeps_sending,
    with_buckets,
    with_copies,
)
from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.fusion.joint.published import METHODS, Found
from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.streams import Timed, timed

_PATIENCE = 400
"""Changes without a faster candidate until the end."""
_MOST = 3_000
"""Candidates that are timed at most."""
_MOST_AT_ONCE = 4
"""Changes of one candidate before it is timed."""


def refined(
    problem: Problem,
    rules: Mapping[str, Baseline],
    seed: int,
    is_over: Callable[[], bool] = lambda: False,
    tell: Callable[[int, float], None] = lambda _tried, _best: None,
) -> Found:
    """The best candidate found. ``rules`` are the problem's baselines; ``seed``, ``is_over`` and ``tell`` are
    those of ``backtracking``."""
    chance = random.Random(seed)
    best, known, tried = _start(problem, rules, is_over, tell)
    unchanged = 0
    while unchanged < _PATIENCE and tried < _MOST and not is_over():
        changed = best.copy()
        method = chance.choice(METHODS)
        times = chance.randint(1, _MOST_AT_ONCE)
        if not sum(method(changed, known, chance) for _ in range(times)):
            unchanged += 1
            continue
        tried += 1
        time = timed(changed)
        if _rank(time) < _rank(known):
            best, known, unchanged = changed, time, 0
        else:
            unchanged += 1
        tell(tried, known.microseconds)
    return Found(best, known, tried)


def _start(
    problem: Problem,
    rules: Mapping[str, Baseline],
    is_over: Callable[[], bool],
    tell: Callable[[int, float], None],
) -> tuple[Joint, Timed, int]:
    best: tuple[Joint, Timed] | None = None
    tried = 0
    for joint, time in _starts(problem, rules):
        tried += 1
        if best is None or _rank(time) < _rank(best[1]):
            best = joint, time
        tell(tried, best[1].microseconds)
        if is_over():
            break
    assert best is not None
    return *best, tried


def _starts(problem: Problem, rules: Mapping[str, Baseline]) -> Iterator[tuple[Joint, Timed]]:
    for rule in rules.values():
        yield rule.joint, rule.timed
    unfused = Joint.unfused(problem)
    for is_allowed in (always, keeps_sending):
        fused = by_savings(unfused, is_allowed)
        copied = with_copies(fused)
        for joint in (fused, copied):
            yield joint, timed(joint)
            bucketed = with_buckets(joint)
            yield bucketed, timed(bucketed)


def _rank(time: Timed) -> tuple[float, float]:
    return time.microseconds, time.computing + time.sending
