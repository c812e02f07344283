"""Our search for joint fusions: from several good starts, random changes that are kept if they are faster.

Starts fuse operators by the time saved, with and without copies; order kernels so that much is sent early;
and put reductions into buckets by dynamic programming. Changes are DisCo's methods, and turns of kernels.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

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
_MOST_REFUSED = 5
"""Divisions of sums that may turn out not to be faster."""
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
    """The best candidate found, at least as fast as the fastest rule. ``rules`` are the problem's baselines;
    ``seed``, ``is_over`` and ``tell`` are those of ``backtracking``. With ``sums``, terms of gradients are
    reduced apart where that is faster; without ``orders``, kernels keep their turns."""
    search = _Search(orders, is_over, tell)
    for rule in rules.values():
        search.take(rule.joint, rule.timed)
    search.begin(problem)
    if sums is not None:
        search.sum_apart(sums)
    return search.improved(random.Random(seed))


@dataclass
class _Search:
    """The best candidate so far, and how many were timed. ``refused`` are divisions of sums that were not
    faster."""

    orders: Sequence[Order]
    is_over: Callable[[], bool]
    tell: Callable[[int, float], None]
    tried: int = 0
    best: Found | None = None
    refused: set[Nodes] = field(default_factory=set[Nodes])

    def take(self, joint: Joint, time: Timed) -> None:
        """Keeps a candidate if it is the best one."""
        self.tried += 1
        if self.best is None or _rank(time) < _rank(self.best.timed):
            self.best = Found(joint, time, self.tried)
        self.tell(self.tried, self._found.timed.microseconds)

    def begin(self, problem: Problem) -> None:
        """Times the starts, until the end."""
        for joint in self._starts(problem):
            if self.is_over():
                return
            self.take(joint, timed(joint))

    def sum_apart(self, sums: GradientSums) -> None:
        """Divides the sums that pay, as long as sending is not hidden."""
        whole: Nodes = frozenset()
        while (more := self._next_sum(sums, whole)) is not None:
            whole |= more

    def _next_sum(self, sums: GradientSums, whole: Nodes) -> Nodes | None:
        """The first division that is faster."""
        for more in sums.apart(self._found.joint.problem):
            before = self._found.timed
            if self.is_over() or before.microseconds <= _HIDDEN * before.computing:
                return None
            if more in self.refused or len(self.refused) >= _MOST_REFUSED:
                continue
            with suppress(InvalidOptionError):  # devices would differ
                self.begin(sums.problem(whole | more))
            if self._found.timed is not before:
                return more
            self.refused.add(more)
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
                self.take(changed, timed(changed))
            unchanged = unchanged + 1 if self._found.joint is best.joint else 0
        return replace(self._found, tried=self.tried)

    @property
    def _found(self) -> Found:
        assert self.best is not None
        return self.best

    def _starts(self, problem: Problem) -> Iterator[Joint]:
        for fused in self._fused(problem):
            for turns in (None, *(order(fused) for order in self.orders)):
                ordered = fused.copy()
                ordered.turns = turns
                yield ordered
                yield with_buckets(ordered)

    def _fused(self, problem: Problem) -> Iterator[Joint]:
        """Kernels by the time that they save, with copies where there are any."""
        fused = by_savings(Joint.unfused(problem), self.is_over)
        yield fused
        copied = with_copies(fused, self.is_over)
        if copied.copies:
            yield copied


def _rank(time: Timed) -> tuple[float, float]:
    return time.microseconds, time.computing + time.sending
