"""Task costs from the simulator for the cost tables of the search."""

from __future__ import annotations

from collections.abc import Sequence

from superopt.optimizer.parallel.search.estimate import Compute, task_types
from superopt.optimizer.parallel.search.subject import Operation
from superopt.optimizer.parallel.task_costs import TaskCosts
from superopt.optimizer.parallel.topology import Cluster


def task_times(cluster: Cluster, costs: TaskCosts) -> Compute:
    """Microseconds of a task on the slowest of some devices."""

    def compute(operation: Operation, degrees: tuple[int, ...], devices: Sequence[int]) -> float:
        inputs, outputs = task_types(operation, degrees)
        return max(
            costs.task_microseconds(operation.operator, inputs, outputs, kind, operation.weights)
            for kind in dict.fromkeys(cluster.devices[number].kind for number in devices)
        )

    return compute
