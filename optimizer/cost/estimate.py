"""Prices without measuring: known ones, and expected ones of kernels that were never measured."""

from __future__ import annotations

from superopt.optimizer.cost.kernels.kernel import Kernel
from superopt.optimizer.cost.objective import Estimating, Objective, Price


class Estimate:
    """``objective`` without measuring, as ``estimating`` expects: a kernel without a known price costs a
    ``share`` of what is expected, so that a share below 1 is optimistic, but not less than is likely at all.
    """

    def __init__(self, objective: Objective, estimating: Estimating, share: float) -> None:
        self._objective = objective
        self._estimating = estimating
        self._share = share
        self.unit = objective.unit
        self.source = objective.source

    def known(self, kernel: Kernel) -> Price:
        """The known price, else the share of the expected one."""
        return self.price(kernel)

    def bound(self, kernel: Kernel) -> float:
        """The price itself."""
        return self.price(kernel).cost

    def price(self, kernel: Kernel) -> Price:
        """The known price, else the share of the expected one."""
        known = self._objective.known(kernel)
        if known is not None:
            return known
        expected, least = self._estimating.expected(kernel), self._estimating.least(kernel)
        return Price(max(self._share * expected, min(least, expected)))


def estimate(objective: Objective, share: float = 1.0) -> Objective:
    """The objective without measuring; itself if it measures nothing."""
    if isinstance(objective, Estimating):
        return Estimate(objective, objective, share)
    return objective
