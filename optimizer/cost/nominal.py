"""Nominal latency: deterministic roofline estimate for a fixed hypothetical machine, without measurement."""

from __future__ import annotations

from superopt.optimizer.cost.kernels.kernel import Kernel
from superopt.optimizer.cost.objective import Price, rounded

FLOPS_PER_MICROSECOND = 60_000
BYTES_PER_MICROSECOND = 8_000
LAUNCH_MICROSECONDS = 1.0
_RENAMING_MICROSECONDS = 0.5


class Nominal:
    """Microseconds on a machine with 60 GFLOP/s and 8 GB/s: one per launch, plus the larger of compute time
    and data movement time. Used to compare strategies and rule sets."""

    unit = "us"
    source = "analytic"

    def __init__(self) -> None:
        self._prices: dict[Kernel, Price] = {}

    def known(self, kernel: Kernel) -> Price:
        """Return the price, which is always known and a multiple of 1/1024, so that sums are exact."""
        price = self._prices.get(kernel)
        if price is None:
            price = self._prices[kernel] = Price(rounded(_microseconds(kernel)))
        return price

    def bound(self, kernel: Kernel) -> float:
        """Return the price itself, which is exact."""
        return self.known(kernel).cost

    def price(self, kernel: Kernel) -> Price:
        """Return the price in microseconds."""
        return self.known(kernel)


def _microseconds(kernel: Kernel) -> float:
    if kernel.only_renames:
        return _RENAMING_MICROSECONDS
    if kernel.opaque:
        return LAUNCH_MICROSECONDS
    computing, moving = kernel.flops / FLOPS_PER_MICROSECOND, kernel.moved_bytes / BYTES_PER_MICROSECOND
    return LAUNCH_MICROSECONDS + max(computing, moving)


__all__ = ["Nominal"]
