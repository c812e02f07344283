"""Objectives to minimise: latency, arithmetic operations, memory, bytes moved, or kernel launches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from superopt.optimizer.cost.kernels.kernel import Kernel
from superopt.optimizer.cost.memory import Memory

_GRAIN = 1024
"""Prices are multiples of 1/1024, so that sums are exact and independent of the order of rewrites."""

NOISE = 0.03
"""Share of the price of a kernel within which two prices count as equal."""


@dataclass(frozen=True, slots=True)
class Price:
    """Cost of a kernel, whether its result is in the runtime's layout for images, and how much of the cost
    converts its inputs out of that layout."""

    cost: float
    blocked: bool = False
    restoring: float = 0.0


class Objective(Protocol):
    """Prices kernels; ``GraphCost`` combines prices into the cost of a graph."""

    @property
    def unit(self) -> str:
        """The unit of all prices."""
        ...

    @property
    def source(self) -> str:
        """``measured``, ``profile`` or ``analytic``."""
        ...

    def known(self, kernel: Kernel) -> Price | None:
        """The price, if available at no cost."""
        ...

    def bound(self, kernel: Kernel) -> float:
        """Cheap lower bound on the price."""
        ...

    def price(self, kernel: Kernel) -> Price:
        """The price, measured if necessary."""
        ...


@runtime_checkable
class WeighsMemory(Protocol):
    """An objective that also depends on the memory of the whole graph."""

    def whole(self, memory: Memory) -> float:
        """The term added to the sum of prices."""
        ...


@runtime_checkable
class Measuring(Protocol):
    """An objective whose prices are measured: of two prices of a kernel within a share of ``noise`` of each
    other, neither is known to be the lower."""

    noise: float


@runtime_checkable
class Confirming(Protocol):
    """An objective that can measure the kernels again that decided something."""

    def confirm(self, kernels: Iterable[Kernel], may_go_on: Callable[[], bool] = ...) -> bool:
        """Measures kernels again; whether a price changed."""
        ...


@runtime_checkable
class Estimating(Protocol):
    """An objective that measures kernels, and can tell what to expect of them without measuring."""

    def expected(self, kernel: Kernel) -> float:
        """The likely price of a kernel that was not measured."""
        ...

    def least(self, kernel: Kernel) -> float:
        """A price that a kernel which was not measured is unlikely to be below; 0 if nothing is known."""
        ...


class Flops:
    """Arithmetic operations; steps that only move data cost nothing."""

    unit = "flops"
    source = "analytic"

    def known(self, kernel: Kernel) -> Price:
        """Return the price, which is always known."""
        return Price(0.0 if kernel.opaque else float(kernel.flops))

    def bound(self, kernel: Kernel) -> float:
        """Return the price itself, which is exact."""
        return self.known(kernel).cost

    def price(self, kernel: Kernel) -> Price:
        """Return the number of operations of all steps."""
        return self.known(kernel)


class Traffic:
    """Bytes that kernels read and write; what stays inside a fused kernel is not counted."""

    unit = "bytes"
    source = "analytic"

    def known(self, kernel: Kernel) -> Price:
        """Return the price, which is always known."""
        return Price(0.0 if kernel.opaque or is_free(kernel) else float(kernel.moved_bytes))

    def bound(self, kernel: Kernel) -> float:
        """Return the price itself, which is exact."""
        return self.known(kernel).cost

    def price(self, kernel: Kernel) -> Price:
        """Return the bytes of all tensors that enter or leave the kernel."""
        return self.known(kernel)


class Launches:
    """Kernel launches: one for each group, none for those that only reshape a tensor."""

    unit = "kernels"
    source = "analytic"

    def known(self, kernel: Kernel) -> Price:
        """Return the price, which is always known."""
        return Price(0.0 if is_free(kernel) else 1.0)

    def bound(self, kernel: Kernel) -> float:
        """Return the price itself, which is exact."""
        return self.known(kernel).cost

    def price(self, kernel: Kernel) -> Price:
        """Return 1, or 0 for a kernel that only reshapes a tensor."""
        return self.known(kernel)


class PeakMemory:
    """Peak bytes of the graph, weights included; ties are broken by bytes moved."""

    unit = "bytes"
    source = "analytic"

    def known(self, kernel: Kernel) -> Price:
        """Return the price, which is always known."""
        return Price(_TIE * _TRAFFIC.known(kernel).cost)

    def bound(self, kernel: Kernel) -> float:
        """Return the price itself, which is exact."""
        return self.known(kernel).cost

    def price(self, kernel: Kernel) -> Price:
        """Return a small fraction of the bytes that the kernel moves, to break ties."""
        return self.known(kernel)

    def whole(self, memory: Memory) -> float:
        """Return the peak memory in bytes."""
        return float(memory.peak)


_TIE = 2.0**-16
_TRAFFIC = Traffic()


def is_free(kernel: Kernel) -> bool:
    """Whether the runtime only reshapes a tensor."""
    if kernel.opaque or any(source.blocked for source in kernel.sources):
        return False
    return kernel.only_renames


def rounded(microseconds: float) -> float:
    """The price rounded to the grid."""
    return round(microseconds * _GRAIN) / _GRAIN
