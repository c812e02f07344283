"""Random prices, so that a search applies rules no device would ask for."""

from __future__ import annotations

import random

from superopt.optimizer.cost import Kernel, Price


class Whim:
    """An objective that prices kernels at random."""

    unit = "whim"
    source = "analytic"

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def known(self, kernel: Kernel) -> Price | None:
        """The price."""
        return self.price(kernel)

    def bound(self, kernel: Kernel) -> float:
        """The price."""
        return self.price(kernel).cost

    def price(self, kernel: Kernel) -> Price:
        """A number from 1 to 64 that the kernel and the seed decide."""
        return Price(float(random.Random(f"{self._seed} {kernel.fingerprint}").randint(1, 64)))
