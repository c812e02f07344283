"""Prices without measuring: known ones, and expected ones of kernels that were never measured."""

from __future__ import annotations

from collections.abc import Callable

from superopt.optimizer.cost.kernels.kernel import Kernel
from superopt.optimizer.cost.objective import Estimating, Objective, Price


class Estimate:
    """An objective that measures nothing: a kernel without a known price costs a ``share`` of what is
    expected, so that a share below 1 is optimistic."""

    def __init__(self, objective: Objective, expected: Callable[[Kernel], float], share: float) -> None:
        self._objective = objective
        self._expected = expected
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
        return self._objective.known(kernel) or Price(self._share * self._expected(kernel))


def estimate(objective: Objective, share: float = 1.0) -> Objective:
    """The objective without measuring; itself if it measures nothing."""
    if isinstance(objective, Estimating):
        return Estimate(objective, objective.expected, share)
    return objective
