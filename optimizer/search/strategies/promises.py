"""Optimistic estimates of what rewrites gain, without measuring: they decide what is worth pricing."""

from __future__ import annotations

from dataclasses import replace

from superopt.optimizer.cost import estimate
from superopt.optimizer.cost.objective import Objective
from superopt.optimizer.search.state import Opportunity, State

_OPTIMISM = 0.6
"""Share of the expected price of a kernel that it may have."""


class Promises:
    """Estimates under an objective: kernels that were never measured cost a share of what is expected."""

    def __init__(self, objective: Objective) -> None:
        self._optimistic = estimate(objective, _OPTIMISM)

    def of(self, state: State, opportunity: Opportunity) -> float | None:
        """The estimated gain of a rewrite; None where it does not apply. It is kept with the opportunity."""
        if opportunity.promise is None and not opportunity.impossible:
            opportunity.promise = self._estimate(state, opportunity)
        return opportunity.promise

    def optimistically(self, state: State) -> State:
        """The state, further rewrites of which are estimated instead of priced."""
        return State(replace(state.cost, objective=self._optimistic), state.digest)

    def _estimate(self, state: State, opportunity: Opportunity) -> float | None:
        rewrite = state.rewritten(opportunity.match)
        if rewrite is None:
            opportunity.impossible = len(opportunity.match.outputs) == 1
            return None
        update = replace(state.cost, objective=self._optimistic).after(rewrite)
        return None if update is None else state.cost.total - update.total
