"""Estimate the time needed to check a rewritten graph by running it on this machine."""

from __future__ import annotations

import time

import numpy as np

from superopt.ir.graph import Graph
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.task_costs import roofline_microseconds
from superopt.optimizer.parallel.topology import DeviceKind

_RUNS = 6
"""Of a model to check another one: to find out what inputs it takes, and to compare."""

_LOADS = 4
"""How often weights are read or written for that."""

_CAUTION = 1.5
_BYTES_PER_SECOND = 4e9
_LAUNCH = 5.0
_SQUARE = 512


def seconds_to_check(graph: Graph, weight_bytes: int) -> float:
    """Seconds that a check is likely to take, of which most are for the original; ``graph`` is it at the
    sizes at which it is run. By the operations and bytes of it, and the speed of a product here."""
    kind = DeviceKind("here", _flops_here(), 0.0, _BYTES_PER_SECOND, _LAUNCH)
    once = sum(
        roofline_microseconds(operation.operator, operation.inputs, operation.outputs, kind, ())
        for operation in Subject.of(graph).operations
    )
    return _RUNS * _CAUTION * once / 1e6 + _LOADS * weight_bytes / _BYTES_PER_SECOND


def _flops_here() -> float:
    """Operations per second of a product of matrices, the best of a few."""
    square = np.ones((_SQUARE, _SQUARE), np.float32)
    seconds: list[float] = []
    for _ in range(4):
        began = time.monotonic()
        np.matmul(square, square)
        seconds.append(time.monotonic() - began)
    return 2 * _SQUARE**3 / max(min(seconds), 1e-6)
