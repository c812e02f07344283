"""What is minimised: latency as measured, arithmetic operations, memory, bytes moved, or kernels launched."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from optimizer.cost.kernel import Kernel
from optimizer.cost.measure import LAUNCH_MICROSECONDS, Measurement, Measurer
from optimizer.cost.memory import Memory
from optimizer.cost.roofline import Roofline, calibrate
from optimizer.cost.runtime import device_name, runtime_version
from optimizer.cost.store import CostStore
from superopt.errors import InvalidOptionError

OBJECTIVES = ("latency", "flops", "memory", "traffic", "launches")

_METHOD = "5"
"""Raised when measuring changes, so that costs of an older method are not used."""

_GRAIN = 1024
"""Prices are multiples of 1/1024, so that their sums are exact and do not depend on the order of rewrites."""

_SECOND_LOOK = 0.9
"""The share of the cost of a graph whose kernels are measured twice."""

_FREE_STEPS = frozenset(("reshape",))


@dataclass(frozen=True, slots=True)
class Price:
    """What a kernel costs, and whether its result lies in the runtime's layout for images."""

    cost: float
    blocked: bool = False


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


class Latency:
    """Microseconds on this machine: measured where possible, and remembered for ever.

    Nothing is measured after ``deadline`` (a time of the monotonic clock): prices are analytic then.
    """

    unit = "us"
    source = "measured"

    def __init__(self, store: CostStore, threads: int) -> None:
        self._store = store
        self._threads = threads
        self._measurer = Measurer(threads)
        self._prefix = f"{device_name()}/{runtime_version()}/threads={threads}/{_METHOD}/"
        self._prices: dict[Kernel, Price] = {}
        self._bounds: dict[Kernel, float] = {}
        self._fresh: dict[Kernel, int] = {}
        self.roofline: Roofline = calibrate(self._measurer, store, self._prefix)
        self.measured = 0
        self.deadline = math.inf

    def known(self, kernel: Kernel) -> Price | None:
        """The price that is remembered in this process or in the store."""
        price = self._prices.get(kernel)
        if price is None:
            price = self._remembered(kernel)
            if price is not None:
                self._prices[kernel] = price
        return price

    def bound(self, kernel: Kernel) -> float:
        """The roofline with the peaks of data in cache."""
        bound = self._bounds.get(kernel)
        if bound is None:
            bound = 0.0 if _is_free(kernel) else self.roofline.lower_bound(kernel)
            self._bounds[kernel] = bound
        return bound

    def price(self, kernel: Kernel) -> Price:
        """The remembered price, else the measured one; the roofline's where measuring is impossible."""
        price = self.known(kernel)
        if price is None:
            in_time = time.monotonic() < self.deadline
            measurement = self._measurer.measure(kernel) if in_time else None
            price = self._analytic(kernel) if measurement is None else self._recorded(kernel, measurement)
            self._prices[kernel] = price
        elif kernel in self._fresh:
            self._fresh[kernel] += 1
        return price

    def measure_again(self) -> None:
        """A second look, later in time, at the kernels just measured that make up most of what was priced;
        the minimum counts. Others may have used the caches and the memory when they were measured first.
        """
        shares = {kernel: times * self._prices[kernel].cost for kernel, times in self._fresh.items()}
        left = _SECOND_LOOK * sum(shares.values())
        for kernel in sorted(shares, key=lambda kernel: -shares[kernel]):
            if time.monotonic() >= self.deadline or left <= 0:
                break
            left -= shares[kernel]
            measurement = self._measurer.measure(kernel)
            if measurement is not None and measurement.microseconds < self._prices[kernel].cost:
                self._prices[kernel] = self._recorded(kernel, measurement)
        self._fresh.clear()

    def _remembered(self, kernel: Kernel) -> Price | None:
        if _is_free(kernel):
            return Price(_rounded(LAUNCH_MICROSECONDS))
        if not self._measurer.is_measurable(kernel):
            return self._analytic(kernel)
        key = self._prefix + kernel.fingerprint
        found = self._store.get_many((key, f"{key}/blocked"))
        if key not in found:
            return None
        return Price(_rounded(found[key]), found.get(f"{key}/blocked", 0.0) > 0)

    def _recorded(self, kernel: Kernel, measurement: Measurement) -> Price:
        key = self._prefix + kernel.fingerprint
        costs = {key: measurement.microseconds}
        if measurement.blocked:
            costs[f"{key}/blocked"] = 1.0
        self._store.put_many(costs)
        self._fresh.setdefault(kernel, 1)
        self.measured += 1
        return Price(_rounded(measurement.microseconds), measurement.blocked)

    def _analytic(self, kernel: Kernel) -> Price:
        return Price(_rounded(self.roofline.microseconds(kernel)))


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
        return Price(0.0 if kernel.opaque or _is_free(kernel) else float(kernel.moved_bytes))

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
        return Price(0.0 if _is_free(kernel) else 1.0)

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


_TIE = 2.0**-20
_TRAFFIC = Traffic()


def objective_of(name: str, store: CostStore, threads: int) -> Objective:
    """The objective of that name; raises InvalidOptionError."""
    match name:
        case "latency":
            return Latency(store, threads)
        case "flops":
            return Flops()
        case "memory":
            return PeakMemory()
        case "traffic":
            return Traffic()
        case "launches":
            return Launches()
        case _:
            raise InvalidOptionError(f"objective: expected one of {', '.join(OBJECTIVES)}, got {name!r}")


def _is_free(kernel: Kernel) -> bool:
    return not kernel.opaque and all(step.operator.name in _FREE_STEPS for step in kernel.steps)


def _rounded(microseconds: float) -> float:
    return round(microseconds * _GRAIN) / _GRAIN
