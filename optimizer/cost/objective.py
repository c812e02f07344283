"""Objectives to minimise: latency, arithmetic operations, memory, bytes moved, or kernel launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from superopt.optimizer.cost.kernel import Kernel
from superopt.optimizer.cost.memory import Memory

_GRAIN = 1024
"""Prices are multiples of 1/1024, so that their sums are exact and do not depend on the order of rewrites."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a kernel costs, whether its result lies in the runtime's layout for images, and how much of the
    cost brings what it reads out of that layout."""

    cost: float
    blocked: bool = False
    restoring: float = 0.0


class Objective(Protocol):
    """Prices kernels; how prices make up the cost of a graph is the business of ``GraphCost``."""

    @property
    def unit(self) -> str:
        """The unit of all prices."""
        ...

    @property
    def source(self) -> str:
        """``measured``, ``profile`` or ``analytic``."""
        ...

    def known(self, kernel: Kernel) -> Price | None:
        """The price, when it costs nothing to tell."""
        ...

    def bound(self, kernel: Kernel) -> float:
        """What the price is at least, told at once."""
        ...

    def price(self, kernel: Kernel) -> Price:
        """The price, measured now if need be."""
        ...


@runtime_checkable
class WeighsMemory(Protocol):
    """An objective to which the memory that the whole graph needs matters, too."""

    def whole(self, memory: Memory) -> float:
        """What is added to the sum of the prices."""
        ...


class Flops:
    """Arithmetic operations; steps that only move data cost nothing."""

    unit = "flops"
    source = "analytic"

    def known(self, kernel: Kernel) -> Price:
        """Always known."""
        return Price(0.0 if kernel.opaque else float(kernel.flops))

    def bound(self, kernel: Kernel) -> float:
        """The price itself."""
        return self.known(kernel).cost

    def price(self, kernel: Kernel) -> Price:
        """Operations of all steps."""
        return self.known(kernel)


class Traffic:
    """Bytes that kernels read and write; what stays inside a fused kernel is not counted."""

    unit = "bytes"
    source = "analytic"

    def known(self, kernel: Kernel) -> Price:
        """Always known."""
        return Price(0.0 if kernel.opaque or is_free(kernel) else float(kernel.moved_bytes))

    def bound(self, kernel: Kernel) -> float:
        """The price itself."""
        return self.known(kernel).cost

    def price(self, kernel: Kernel) -> Price:
        """Bytes of everything that enters or leaves."""
        return self.known(kernel)


class Launches:
    """Kernels that the runtime launches: one for each group, none for what only renames a tensor."""

    unit = "kernels"
    source = "analytic"

    def known(self, kernel: Kernel) -> Price:
        """Always known."""
        return Price(0.0 if is_free(kernel) else 1.0)

    def bound(self, kernel: Kernel) -> float:
        """The price itself."""
        return self.known(kernel).cost

    def price(self, kernel: Kernel) -> Price:
        """One."""
        return self.known(kernel)


class PeakMemory:
    """Bytes that the graph needs at most, weights included; of graphs that need the same, the one that moves
    less is preferred.
    """

    unit = "bytes"
    source = "analytic"

    def known(self, kernel: Kernel) -> Price:
        """Always known."""
        return Price(_TIE * _TRAFFIC.known(kernel).cost)

    def bound(self, kernel: Kernel) -> float:
        """The price itself."""
        return self.known(kernel).cost

    def price(self, kernel: Kernel) -> Price:
        """A small part of the bytes that it moves."""
        return self.known(kernel)

    def whole(self, memory: Memory) -> float:
        """The peak."""
        return float(memory.peak)


_TIE = 2.0**-16
_TRAFFIC = Traffic()


def is_free(kernel: Kernel) -> bool:
    """Whether the runtime only gives a tensor another shape."""
    if kernel.opaque or any(source.blocked for source in kernel.sources):
        return False
    return kernel.only_renames


def rounded(microseconds: float) -> float:
    """The price on the grid of prices."""
    return round(microseconds * _GRAIN) / _GRAIN
