"""Our search for joint fusions: from several good starts, random changes that are kept if they are faster.

Starts fuse operators by the time saved, with and without copies; order kernels so that much is sent early;
and put reductions into buckets by dynamic programming. Changes are DisCo's methods, and turns of kernels.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from superopt.errors import InvalidOptionError
from superopt.optimizer.fusion.joint.baselines import Baseline
from superopt.optimizer.fusion.joint.greedy import by_savings, with_buckets, with_copies
from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.fusion.joint.published import METHODS, Found
from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.streams import Timed, timed
from superopt.optimizer.fusion.joint.sums import GradientSums, Nodes
from superopt.optimizer.fusion.joint.turns import (
    Turns,
    densest_first,
    send_earlier_somewhere,
    shortest_first,
)

Order = Callable[[Joint], Turns]
"""Turns for the kernels of a candidate."""

ORDERS: tuple[Order, ...] = (densest_first, shortest_first)
_PATIENCE = 1_500
"""Changes without a faster candidate until the end."""
_MOST = 10_000
"""Candidates that are timed at most."""
_MOST_AT_ONCE = 4
"""Changes of one candidate before it is timed."""
_MOST_SUMS = 6
"""Divisions of sums that are tried at most."""
_HIDDEN = 1.002
"""Sums of a step that takes at most so many times its computing are not divided further."""


def refined(
    problem: Problem,
    rules: Mapping[str, Baseline],
    seed: int,
    is_over: Callable[[], bool] = lambda: False,
    tell: Callable[[int, float], None] = lambda _tried, _best: None,
    sums: GradientSums | None = None,
    orders: Sequence[Order] = ORDERS,
) -> Found:
    """The best candidate found. ``rules`` are the problem's baselines; ``seed``, ``is_over`` and ``tell`` are
    those of ``backtracking``. With ``sums``, terms of gradients are reduced apart where that is faster;
    without ``orders``, kernels keep their turns."""
    search = _Search(orders, is_over, tell)
    search.begin((rule.joint, rule.timed) for rule in rules.values())
    search.begin(_starts(problem, orders))
    if sums is not None:
        search.sum_apart(sums)
    return search.improved(random.Random(seed))


@dataclass
class _Search:
    """The best candidate so far, and how many were timed."""

    orders: Sequence[Order]
    is_over: Callable[[], bool]
    tell: Callable[[int, float], None]
    tried: int = 0
    best: Found | None = None

    def begin(self, starts: Iterable[tuple[Joint, Timed]]) -> None:
        """Times candidates until the end, the first one in any case."""
        for joint, time in starts:
            self._take(joint, time)
            if self.is_over():
                break

    def sum_apart(self, sums: GradientSums) -> None:
        """Divides the sums that pay, as long as sending is not hidden."""
        whole: Nodes = frozenset()
        left = _MOST_SUMS
        while left and (more := self._next_sum(sums, whole, left)) is not None:
            whole |= more[0]
            left = more[1]

    def _next_sum(self, sums: GradientSums, whole: Nodes, left: int) -> tuple[Nodes, int] | None:
        """The first sum whose division is faster, and how many may still be tried."""
        for more in sums.apart(self._found.joint.problem):
            before = self._found.timed
            if not left or self.is_over() or before.microseconds <= _HIDDEN * before.computing:
                return None
            left -= 1
            with suppress(InvalidOptionError):  # devices would differ
                self.begin(_starts(sums.problem(whole | more), self.orders))
            if self._found.timed is not before:
                return more, left
        return None

    def improved(self, chance: random.Random) -> Found:
        """The result of random changes."""
        changes = (*METHODS, send_earlier_somewhere) if self.orders else METHODS
        unchanged = 0
        while unchanged < _PATIENCE and self.tried < _MOST and not self.is_over():
            best = self._found
            changed = best.joint.copy()
            method = chance.choice(changes)
            times = chance.randint(1, _MOST_AT_ONCE)
            if sum(method(changed, best.timed, chance) for _ in range(times)):
                self._take(changed, timed(changed))
            unchanged = unchanged + 1 if self._found.joint is best.joint else 0
        return replace(self._found, tried=self.tried)

    @property
    def _found(self) -> Found:
        assert self.best is not None
        return self.best

    def _take(self, joint: Joint, time: Timed) -> None:
        self.tried += 1
        if self.best is None or _rank(time) < _rank(self.best.timed):
            self.best = Found(joint, time, self.tried)
        self.tell(self.tried, self._found.timed.microseconds)


def _starts(problem: Problem, orders: Sequence[Order]) -> Iterator[tuple[Joint, Timed]]:
    for fused in _fused(problem):
        for turns in (None, *(order(fused) for order in orders)):
            ordered = fused.copy()
            ordered.turns = turns
            yield ordered, timed(ordered)
            bucketed = with_buckets(ordered)
            yield bucketed, timed(bucketed)


def _fused(problem: Problem) -> Iterator[Joint]:
    """Kernels by the time that they save, with copies where there are any."""
    fused = by_savings(Joint.unfused(problem))
    yield fused
    copied = with_copies(fused)
    if copied.copies:
        yield copied


def _rank(time: Timed) -> tuple[float, float]:
    return time.microseconds, time.computing + time.sending
