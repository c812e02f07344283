"""Estimate the time needed to check a rewritten graph by running it on this machine."""

from __future__ import annotations

import time

import numpy as np

from superopt.ir.graph import Graph
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.task_costs import roofline_microseconds
from superopt.optimizer.parallel.topology import DeviceKind

_RUNS = 6
"""Equivalent number of model runs for a check: finding valid inputs, and comparing."""

_LOADS = 4
"""How often weights are read or written in a check."""

_CAUTION = 1.5
_BYTES_PER_SECOND = 4e9
_LAUNCH = 5.0
_SQUARE = 512


def seconds_to_check(graph: Graph, weight_bytes: int) -> float:
    """Estimated seconds of a check, most of them for the original; ``graph`` is the original at the sizes of
    the check. Based on its operations and bytes, and the speed of a matrix product on this machine."""
    kind = DeviceKind("here", _flops_here(), 0.0, _BYTES_PER_SECOND, _LAUNCH)
    once = sum(
        roofline_microseconds(operation.operator, operation.inputs, operation.outputs, kind, ())
        for operation in Subject.of(graph).operations
    )
    return _RUNS * _CAUTION * once / 1e6 + _LOADS * weight_bytes / _BYTES_PER_SECOND


def _flops_here() -> float:
    """Operations per second of a matrix product, the best of several."""
    square = np.ones((_SQUARE, _SQUARE), np.float32)
    seconds: list[float] = []
    for _ in range(4):
        began = time.monotonic()
        np.matmul(square, square)
        seconds.append(time.monotonic() - began)
    return 2 * _SQUARE**3 / max(min(seconds), 1e-6)
