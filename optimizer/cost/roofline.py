"""Roofline estimate: the larger of compute time and data movement time.

Peak rates are measured once per machine and kept in the cost store. The estimate prices kernels that cannot
be measured; with the optimistic in-cache peaks it is a lower bound that tells which kernels are worth
measuring.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from superopt.ir.types import ElementType, TensorType
from superopt.ops.elementwise.arithmetic import Add
from superopt.ops.matrix import Matmul
from superopt.optimizer.cost.kernels.kernel import Kernel, KernelStep, Source
from superopt.optimizer.cost.machine import bytes_of
from superopt.optimizer.cost.measuring.measurer import LAUNCH_MICROSECONDS, Measurer
from superopt.optimizer.cost.store import CostStore

PROBES = ("matmul", "add-cached", "add-streamed")
"""Kernels measured to determine the peaks, by the names under which their costs are stored."""

_SIDE = 512
_CACHED = 32 * 1024
_STREAMED = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Roofline:
    """Peaks of a machine: operations, bytes from memory and bytes from cache, each per microsecond."""

    flops: float
    bytes: float
    cached_bytes: float

    def microseconds(self, kernel: Kernel) -> float:
        """Estimated time of the kernel."""
        flops = 0 if kernel.opaque else kernel.flops
        return LAUNCH_MICROSECONDS + max(flops / self.flops, _moved(kernel) / self.bytes)

    def lower_bound(self, kernel: Kernel) -> float:
        """Lower bound of the kernel's time: 0 for opaque steps; steps that only move data may be free."""
        if kernel.opaque:
            return 0.0
        return 0.5 * max(kernel.flops / self.flops, 0.5 * _moved(kernel) / self.cached_bytes)


_USUAL = Roofline(flops=50_000.0, bytes=10_000.0, cached_bytes=50_000.0)
"""One core of a server, assumed: 50 GFLOP/s, 10 GB/s from memory and 50 GB/s from cache."""


def calibrate(measurer: Measurer, store: CostStore, prefix: str, deadline: float = math.inf) -> Roofline:
    """The peaks of this machine, stored or measured now; after the deadline (monotonic clock) assumed ones,
    which are not stored."""
    known = store.get_many(_keys(prefix))
    for key, kernel in zip(_keys(prefix), _probes(), strict=True):
        if key not in known:
            if time.monotonic() >= deadline:
                return _USUAL
            measurement = measurer.measure(kernel)
            assert measurement is not None, "every runtime multiplies and adds"
            store.put(key, measurement.microseconds)
    found = recorded_roofline(store, prefix)
    assert found is not None
    return found


def recorded_roofline(store: CostStore, prefix: str) -> Roofline | None:
    """The stored peaks; None if there are none."""
    keys = _keys(prefix)
    known = store.get_many(keys)
    if len(known) < len(keys):
        return None
    product, cached, streamed = (max(known[key] - LAUNCH_MICROSECONDS, 0.1) for key in keys)
    matmul, small, large = _probes()
    return Roofline(
        matmul.flops / product,
        large.moved_bytes / streamed,
        max(small.moved_bytes / cached, large.moved_bytes / streamed),
    )


def _keys(prefix: str) -> list[str]:
    return [f"{prefix}roofline/{name}" for name in PROBES]


def _probes() -> tuple[Kernel, Kernel, Kernel]:
    matrix = TensorType(ElementType.FLOAT, (_SIDE, _SIDE))
    product = Kernel(
        (Source(matrix), Source(matrix, is_weight=True)),
        (KernelStep(Matmul(), ((-1, 0), (-2, 0)), (matrix,)),),
        ((0, 0),),
    )
    return product, _sum_of(_CACHED), _sum_of(_STREAMED)


def _sum_of(elements: int) -> Kernel:
    vector = TensorType(ElementType.FLOAT, (elements,))
    source = Source(vector)
    return Kernel((source, source), (KernelStep(Add(), ((-1, 0), (-2, 0)), (vector,)),), ((0, 0),))


def _moved(kernel: Kernel) -> int:
    """Return the bytes moved. An opaque node may read little of its weights, as a look-up does, but reads all
    constants in its body."""
    if not kernel.opaque:
        return kernel.moved_bytes
    if kernel.body_bytes is not None:
        return kernel.moved_bytes + kernel.body_bytes
    computed = sum(bytes_of(source.type) for source in kernel.sources if not source.is_weight)
    return computed + sum(bytes_of(type_) for type_ in kernel.output_types)
