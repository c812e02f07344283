"""Moves that keep states in parts: gathered once, or released between uses as memory asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from superopt.ir.plan import Plan
from superopt.optimizer.parallel.resident_states import ResidentStates, prefetched
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.simulator import Simulation, Simulator

_LEADS = (1.0, 2.0)
"""How much earlier than needed a fetch is issued, in units of its duration, because channels are shared."""


@dataclass
class ResidenceMoves:
    """Plans of one graph with states in parts. ``fits`` tells whether a simulation exceeds no device's
    memory."""

    subject: Subject
    simulator: Simulator
    fits: Callable[[Simulation], bool]
    expired: Callable[[], bool]

    def overlapped(self, plan: Plan) -> Simulation:
        """The best simulation of a plan whose fetches are issued just before their readers, or earlier."""
        found = self.simulator.simulate(plan)
        early = [self.simulator.simulate(prefetched(found, lead)) for lead in _LEADS]
        return min((found, *early), key=lambda tried: (not self.fits(tried), tried.microseconds))

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
