"""Features of kernels for a graph network: a vertex for each operator, and one for the kernel as a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from superopt.ir.types import TensorType
from superopt.ops.base import Operator
from superopt.optimizer.cost.machine import bytes_of, number_of
from superopt.optimizer.fusion.legality import KernelRole, kernel_role
from superopt.optimizer.learning.graphs import FeatureGraph
from superopt.optimizer.parallel.tasks import KernelTask, Task, shape_of

_SIZES = 4
"""Trailing sizes of the first result and of the first two operands that are features."""

_ROLES = tuple(KernelRole)


class KernelFeatures:
    """Features of kernels. ``names`` are the operators that have a feature of their own; of others the role,
    sizes and operations tell."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._place = {name: number for number, name in enumerate(self.names)}

    @staticmethod
    def of(kernels: Sequence[KernelTask]) -> KernelFeatures:
        """The features for these kernels."""
        return KernelFeatures(sorted({task.operator.name for kernel in kernels for task in kernel.tasks}))

    @property
    def count(self) -> int:
        """The number of features of a vertex."""
        return 14 + 3 * _SIZES + len(_ROLES) + len(self.names)

    def graph(self, kernel: KernelTask) -> FeatureGraph:
        """The graph of a kernel: vertex 0 is the kernel, which all operators read and which reads them."""
        read, written = _outside(kernel)
        tasks = [self._task(task, read[number], written[number]) for number, task in enumerate(kernel.tasks)]
        whole = np.zeros(self.count, np.float32)
        given = {number for operands in kernel.operands for number, _ in operands if number < 0}
        whole[:8] = (
            1,
            len(kernel.tasks),
            _log(len(kernel.tasks)),
            _log(sum(read)),
            _log(sum(written)),
            len(given),
            len(kernel.results),
            _log(sum(_flops(task) for task in kernel.tasks)),
        )
        edges = [
            (producer + 1, reader + 1)
            for reader, operands in enumerate(kernel.operands)
            for producer, _ in operands
            if producer >= 0
        ]
        edges += [edge for number in range(1, len(tasks) + 1) for edge in ((0, number), (number, 0))]
        return FeatureGraph(np.stack([whole, *tasks]), tuple(dict.fromkeys(edges)))

    def _task(self, task: Task, read: int, written: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        found = np.zeros(self.count, np.float32)
        made, taken = task.outputs[0], task.inputs
        elements = number_of(made.elements)
        sizes = [number_of(type_.elements) for type_ in taken]
        flops = _flops(task)
        found[8:14] = (
            _log(flops),
            _log(elements),
            _log(flops / max(1, elements)),
            _log(read),
            _log(written),
            _keeps_last_axis(task),
        )
        place = 14
        for type_ in (made, *taken[:2]):
            trailing = shape_of(type_)[::-1][:_SIZES]
            found[place : place + len(trailing)] = [_log(size) for size in trailing]
            place += _SIZES
        place = 14 + 3 * _SIZES
        found[place + _ROLES.index(kernel_role(task.operator))] = 1
        place += len(_ROLES)
        own = self._place.get(task.operator.name)
        if own is not None:
            found[place + own] = 1
        found[1] = float(np.float32(max(sizes, default=0) > elements))
        found[2] = float(np.float32(min(sizes, default=elements) < elements))
        return found


def _log(number: float) -> float:
    return math.log2(1 + max(0.0, number))


def _flops(task: Task) -> int:
    if not isinstance(task.operator, Operator):
        return 0
    return number_of(task.operator.work(task.inputs, task.outputs).flops)


def _keeps_last_axis(task: Task) -> float:
    """Whether an operator that moves elements leaves those of the last axis side by side."""
    rank = task.inputs[0].rank if task.inputs else 0
    if not isinstance(task.operator, Operator) or not rank:
        return 1.0
    permutation = task.operator.permutation(rank)
    return float(permutation is None or permutation[-1] == rank - 1)


def _outside(kernel: KernelTask) -> tuple[list[int], list[int]]:
    """For each operator the bytes that it reads from and writes to memory; what several read counts for the
    first one."""
    seen: set[int] = set()
    read, written = [0] * len(kernel.tasks), [0] * len(kernel.tasks)
    for number, (task, operands) in enumerate(zip(kernel.tasks, kernel.operands, strict=True)):
        for (producer, _), type_ in zip(operands, task.inputs, strict=True):
            if producer < 0 and producer not in seen:
                seen.add(producer)
                read[number] += bytes_of(type_)
    for number, port in kernel.results:
        written[number] += bytes_of(_output(kernel, number, port))
    return read, written


def _output(kernel: KernelTask, number: int, port: int) -> TensorType:
    return kernel.tasks[number].outputs[port]
