"""The latency objective: measured on this machine, or read from the cost profile of another."""

from __future__ import annotations

import math
import time
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from superopt.errors import InvalidFileError
from superopt.optimizer.cost.kernels.kernel import Kernel, main_operator
from superopt.optimizer.cost.measuring.measurer import LAUNCH_MICROSECONDS, Measurement, Measurer
from superopt.optimizer.cost.objective import NOISE, Price, is_free, rounded
from superopt.optimizer.cost.roofline import PROBES, Roofline, calibrate, recorded_roofline
from superopt.optimizer.cost.runtime.session import Provider, device_name, runtime_version
from superopt.optimizer.cost.store import CostStore

METHOD = "11"
"""Version of the measuring method; increment it when the method changes, so that older costs are not used."""

_SECOND_LOOK = 0.9
"""Share of the cost of a graph whose kernels are measured twice."""

_MOST_REPEATS = 2
"""Number of times that a kernel is measured again in a process."""

_SAMPLE = 6
"""Number of kernels by which stored prices are checked."""

_DISTURBED = 1.2
"""Ratio of stored prices to new ones above which no stored price is used."""

_LEAST_RUNS = 5
"""Minimum runs per measurement; a kernel for which time does not allow them is not measured."""


_LEAST_OF_PRODUCT, _FEW_STEPS = 0.9, 3
"""Share of the price of a product, with bias and activation, that it is expected to take in other kernels."""

_FORM = "form/"
"""Begins the rest of the key of what the runtime executes, for any kernel."""

_ANY = ""
"""All kinds of kernels together; a kind is the name of a main operator."""


def key_prefix(device: str, runtime: str, threads: int) -> str:
    """Prefix of all cost keys of a device."""
    return f"{device}/{runtime}/threads={threads}/{METHOD}/"


def stored_costs(key: str, measurement: Measurement) -> dict[str, float]:
    """Cost store entries for a measurement."""
    costs = {key: measurement.microseconds}
    if measurement.blocked:
        costs[f"{key}/blocked"] = 1.0
    if measurement.restoring:
        costs[f"{key}/restoring"] = measurement.restoring
    return costs


def stored_measurement(store: CostStore, key: str) -> Measurement | None:
    """The measurement in a cost store, None if absent."""
    found = store.get_many((key, f"{key}/blocked", f"{key}/restoring"))
    if key not in found:
        return None
    return Measurement(found[key], found.get(f"{key}/blocked", 0.0) > 0, found.get(f"{key}/restoring", 0.0))


def stored_price(store: CostStore, key: str) -> Price | None:
    """The price in a cost store, None if absent."""
    found = stored_measurement(store, key)
    return None if found is None else _price(found)


def _price(measurement: Measurement) -> Price:
    return Price(rounded(measurement.microseconds), measurement.blocked, rounded(measurement.restoring))


class Latency:
    """Microseconds on this machine: measured where possible, and stored permanently. ``recorded`` are the
    kernels measured in this process; kernels that the runtime executes in the same form have one measurement.
    After ``deadline`` (monotonic clock), and once ``is_cut_short`` is true, prices are analytic. Where stored
    prices turn out to be too high, all are measured anew."""

    unit = "us"
    source = "measured"
    noise = NOISE

    def __init__(
        self,
        store: CostStore,
        threads: int,
        provider: Provider = Provider.CPU,
        deadline: float = math.inf,
    ) -> None:
        self.threads = threads
        self._store = store
        self._measurer = Measurer(threads, provider)
        self._prefix = key_prefix(device_name(provider), runtime_version(), threads)
        self._prices: dict[Kernel, Price] = {}
        self._unknown: set[Kernel] = set()
        self._bounds: dict[Kernel, float] = {}
        self._fresh: dict[Kernel, int] = {}
        self._slowness: dict[str, list[float]] = {}
        self._products: dict[object, float] = {}
        self._repeats = Counter[Kernel | str]()
        self._uses_stored = True
        self.roofline: Roofline = calibrate(self._measurer, store, self._prefix, deadline)
        self.recorded: dict[Kernel, Measurement] = {}
        self.deadline = deadline
        self.is_cut_short: Callable[[], bool] = lambda: False

    @property
    def measured(self) -> int:
        """Number of kernels measured in this process."""
        return len(self.recorded)

    @property
    def peaks(self) -> dict[str, float]:
        """Microseconds of the kernels that determine the device's peaks, by name."""
        keys = {f"{self._prefix}roofline/{name}": name for name in PROBES}
        return {keys[key]: us for key, us in self._store.get_many(keys).items()}

    def known(self, kernel: Kernel) -> Price | None:
        """The price cached in this process or in the store."""
        price = self._prices.get(kernel)
        if price is None and kernel not in self._unknown:
            price = self._remembered(kernel)
            if price is None:
                self._unknown.add(kernel)
            else:
                self._prices[kernel] = price
                self._learn(kernel, price)
        return price

    def bound(self, kernel: Kernel) -> float:
        """Return the roofline estimate with in-cache peaks."""
        bound = self._bounds.get(kernel)
        if bound is None:
            bound = 0.0 if is_free(kernel) else self.roofline.lower_bound(kernel)
            self._bounds[kernel] = bound
        return bound

    def expected(self, kernel: Kernel) -> float:
        """The roofline estimate times the median ratio of known kernels with the same main operator."""
        found = self._slowness.get(_kind(kernel)) or self._slowness.get(_ANY)
        slowness = found[len(found) // 2] if found else 1.0
        return max(self.bound(kernel), slowness * self.roofline.microseconds(kernel))

    def least(self, kernel: Kernel) -> float:
        """Nearly the least price of a known kernel with the same product: what is fused with a product costs
        little."""
        product = kernel.product
        return _LEAST_OF_PRODUCT * self._products.get(product, 0.0) if product is not None else 0.0

    def price(self, kernel: Kernel) -> Price:
        """The cached price, else a measurement, else the roofline where measuring is impossible."""
        price = self.known(kernel)
        if price is None:
            in_time = self._can_be_measured_now(kernel)
            measurement = self._measurer.measure(kernel, self._of_form) if in_time else None
            price = self._fallback(kernel) if measurement is None else self._recorded(kernel, measurement)
            self._prices[kernel] = price
        elif kernel in self._fresh:
            self._fresh[kernel] += 1
        return price

    def measure_again(self) -> bool:
        """Repeats measurements of the new kernels that account for most of the cost, and keeps the minimum:
        other processes may have used the caches and memory during the first measurement. Whether a price
        changed."""
        shares = {kernel: times * self._prices[kernel].cost for kernel, times in self._fresh.items()}
        left = _SECOND_LOOK * sum(shares.values())
        is_changed = False
        for kernel in sorted(shares, key=lambda kernel: -shares[kernel]):
            if not self._can_be_measured_now(kernel) or left <= 0:
                break
            left -= shares[kernel]
            is_changed |= self._measured_again(kernel)
        self._fresh.clear()
        return is_changed

    def confirm(self, kernels: Iterable[Kernel], may_go_on: Callable[[], bool] = lambda: True) -> bool:
        """Measures kernels again that decide something, the most expensive first, and keeps the minimum: the
        machine may have been slower at one time than at another. None is measured again more than twice.
        Whether a price changed."""
        known = {kernel: self.price(kernel).cost for kernel in kernels}
        is_changed = False
        for kernel in sorted(known, key=lambda kernel: -known[kernel]):
            if not may_go_on():
                break
            is_often = self._repeats[self._same(kernel)] >= _MOST_REPEATS
            if not is_often and self._measurer.is_measurable(kernel) and self._can_be_measured_now(kernel):
                is_changed |= self._measured_again(kernel)
        return is_changed

    def _can_be_measured_now(self, kernel: Kernel) -> bool:
        """Whether the time that is left allows for the least number of runs."""
        takes = _LEAST_RUNS * self.bound(kernel) / 1e6
        return time.monotonic() + takes < self.deadline and not self.is_cut_short()

    def _same(self, kernel: Kernel) -> Kernel | str:
        """The form in which the kernel is executed, if it was measured here, or the kernel itself."""
        return (self.recorded[kernel].form if kernel in self.recorded else "") or kernel

    def _measured_again(self, kernel: Kernel) -> bool:
        """Whether another measurement of a kernel lowered its price, or gave it one."""
        known, measurement = self._measurement(kernel), self._measurer.measure(kernel)
        self._repeats[self._same(kernel)] += 1
        if measurement is None or (known is not None and _own(measurement) >= _own(known)):
            return False
        for other in self._alike(kernel, measurement):
            self._prices[other] = self._recorded(other, measurement)
        return True

    def _measurement(self, kernel: Kernel) -> Measurement | None:
        """What was measured here, or else is stored and used."""
        if kernel in self.recorded or is_free(kernel) or not self._uses_stored:
            return self.recorded.get(kernel)
        return stored_measurement(self._store, self._prefix + kernel.fingerprint)

    def check_stored(self, kernels: Iterable[Kernel]) -> None:
        """Measures some of the kernels whose price is from the store: those that account for most of the
        cost. If they were measured while other processes used the machine, a stored price is used only where
        no time is left to measure."""
        counts = Counter(kernel for kernel in kernels if kernel not in self.recorded)
        costs = {kernel: count * self.price(kernel).cost for kernel, count in counts.items()}
        before = now = 0.0
        for kernel in sorted(costs, key=lambda kernel: -costs[kernel])[:_SAMPLE]:
            if self._measurer.is_measurable(kernel) and self._can_be_measured_now(kernel):
                before += costs[kernel]
                self._measured_again(kernel)
                now += counts[kernel] * self.price(kernel).cost
        if before > _DISTURBED * now:
            self._uses_stored = False
            self._prices = {kernel: self._prices[kernel] for kernel in self.recorded}
            self._slowness.clear()
            self._products.clear()
            for kernel, price in self._prices.items():
                self._learn(kernel, price)

    def _of_form(self, form: str) -> Measurement | None:
        """What was measured of a kernel that is executed in the same form."""
        if not self._uses_stored:
            return next((m for m in self.recorded.values() if m.form == form), None)
        found = stored_measurement(self._store, self._prefix + _FORM + form)
        return None if found is None else replace(found, form=form)

    def _alike(self, kernel: Kernel, measurement: Measurement) -> Sequence[Kernel]:
        """The kernel, and others that are executed in the same form."""
        form = measurement.form
        others = (k for k, m in self.recorded.items() if k != kernel and form and m.form == form)
        return [kernel, *others]

    def _remembered(self, kernel: Kernel) -> Price | None:
        if is_free(kernel):
            return Price(rounded(LAUNCH_MICROSECONDS))
        if not self._measurer.is_measurable(kernel):
            return self._analytic(kernel)
        if not self._uses_stored:
            return None
        return stored_price(self._store, self._prefix + kernel.fingerprint)

    def _recorded(self, kernel: Kernel, measurement: Measurement) -> Price:
        costs = stored_costs(self._prefix + kernel.fingerprint, measurement)
        if measurement.form:
            costs.update(stored_costs(self._prefix + _FORM + measurement.form, measurement))
        self._store.put_many(costs)
        self._fresh.setdefault(kernel, 1)
        self.recorded[kernel] = measurement
        price = _price(measurement)
        self._learn(kernel, price)
        return price

    def _learn(self, kernel: Kernel, price: Price) -> None:
        """Remembers how much longer a kernel takes than its roofline says, and what its product takes."""
        product = kernel.product
        if product is not None and len(kernel.steps) <= _FEW_STEPS:
            self._products[product] = min(price.cost, self._products.get(product, math.inf))
        if not is_free(kernel):
            for kind in (_kind(kernel), _ANY):
                insort(self._slowness.setdefault(kind, []), price.cost / self.roofline.microseconds(kernel))

    def _fallback(self, kernel: Kernel) -> Price:
        """The price of a kernel that is not measured: one that is stored and not trusted, or the roofline."""
        return stored_price(self._store, self._prefix + kernel.fingerprint) or self._analytic(kernel)

    def _analytic(self, kernel: Kernel) -> Price:
        return Price(rounded(self.roofline.microseconds(kernel)))


class Recorded:
    """Microseconds on a remote device, from its cost profile. An unrecorded kernel costs what the device's
    peaks imply, corrected by the ratio found for recorded kernels with the same main operator. Raises
    InvalidFileError where the peaks are missing."""

    unit = "us"
    source = "profile"

    def __init__(self, store: CostStore, prefix: str) -> None:
        roofline = recorded_roofline(store, prefix)
        if roofline is None:
            raise InvalidFileError(f"profile: no peaks were recorded for {prefix.rstrip('/')}")
        self._roofline = roofline
        self._store = store
        self._prefix = prefix
        self._prices: dict[Kernel, Price] = {}
        self._slowness: dict[str, float] = {}
        self.found: set[Kernel] = set()

    def known(self, kernel: Kernel) -> Price:
        """Return the price, which is always known."""
        price = self._prices.get(kernel)
        if price is None:
            price = self._prices[kernel] = self._look_up(kernel)
        return price

    def bound(self, kernel: Kernel) -> float:
        """Return the price itself, which is exact."""
        return self.known(kernel).cost

    def price(self, kernel: Kernel) -> Price:
        """Return the recorded price, or else the corrected analytic one."""
        return self.known(kernel)

    def _look_up(self, kernel: Kernel) -> Price:
        if is_free(kernel):
            return Price(rounded(LAUNCH_MICROSECONDS))
        key = self._prefix + kernel.fingerprint
        price = stored_price(self._store, key)
        if price is not None:
            self.found.add(kernel)
            return price
        return Price(rounded(self._slowness_of(kernel) * self._roofline.microseconds(kernel)))

    def _slowness_of(self, kernel: Kernel) -> float:
        operator = main_operator(kernel.operators.split())
        if operator not in self._slowness:
            keys = [f"{self._prefix}slowness/{name}" for name in (operator, "any")]
            known = self._store.get_many(keys)
            self._slowness[operator] = next((known[key] for key in keys if key in known), 1.0)
        return self._slowness[operator]


def _kind(kernel: Kernel) -> str:
    return main_operator(kernel.operators.split())


def _own(measurement: Measurement) -> float:
    """Return the microseconds without conversions, which are not measured separately."""
    return measurement.microseconds - measurement.restoring


__all__ = ["METHOD", "Latency", "Recorded", "key_prefix", "stored_costs"]
