"""Moves that keep states in parts: gathered once, or released between uses as memory asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from superopt.ir.plan import Plan
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.simulator import Simulation, Simulator
from superopt.optimizer.parallel.training_plans.resident_states import ResidentStates, prefetched

_LEADS = (1.0, 2.0)
"""How much earlier than needed a fetch is issued, in units of its duration, because channels are shared."""

_TOGETHER = (1 << 22, 1 << 26)
"""Bytes that neighbouring fetches send together, where not each by itself."""


@dataclass
class ResidenceMoves:
    """Plans of one graph with states in parts. ``fits`` tells whether a simulation exceeds no device's
    memory."""

    subject: Subject
    simulator: Simulator
    fits: Callable[[Simulation], bool]
    expired: Callable[[], bool]

    def overlapped(self, plan: Plan) -> Simulation:
        """The best simulation of a plan whose fetches are issued just before their readers, or earlier, or
        several together."""
        start = self.simulator.simulate(plan)
        early = [(lead, self.simulator.simulate(prefetched(start, lead, 0))) for lead in _LEADS]
        lead, best = min(early, key=lambda one: self._rank(one[1]))
        bundled = (self.simulator.simulate(prefetched(start, lead, together)) for together in _TOGETHER)
        return min((best, *bundled, start), key=self._rank)

    def _rank(self, simulation: Simulation) -> tuple[bool, float]:
        return (not self.fits(simulation), simulation.microseconds)

    def best(self, plan: Plan) -> Simulation | None:
        """The fastest found that fits, with as few states released between uses as need be; None without
        one."""
        return min(self._tried(plan), key=lambda tried: tried.microseconds, default=None)

    def _tried(self, plan: Plan) -> Iterator[Simulation]:
        states = ResidentStates(self.subject, plan)
        names = [one.state for one in states.all]
        if not names or self.expired():
            return
        kept = self.overlapped(states.keeping(()))
        if self.fits(kept):
            yield kept
            return
        low, high = 0, len(names)
        fitting = self.overlapped(states.keeping(names))
        if not self.fits(fitting):
            return
        yield fitting
        while high - low > 1 and not self.expired():
            middle = (low + high) // 2
            tried = self.overlapped(states.keeping(names[:middle]))
            if self.fits(tried):
                high = middle
                yield tried
            else:
                low = middle
