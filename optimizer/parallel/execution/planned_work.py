"""What a plan makes of a graph: tasks, kernels and communication, the same in every execution."""

from __future__ import annotations

from collections.abc import Sequence

from superopt.ir.graph import Graph, Input, Node, NodeId, Value
from superopt.ir.plan import Plan
from superopt.optimizer.parallel.communication import CollectiveStep, communication
from superopt.optimizer.parallel.execution.kernels import Kernel, Kernels
from superopt.optimizer.parallel.placement import Placement
from superopt.optimizer.parallel.tasks import DividedNode, KernelTask, Task, divided, shape_of, tensor_of


class PlannedWork:
    """The divided operators of a graph in order, their kernels and the tasks of each device. Raises as
    ``divided`` does."""

    def __init__(self, graph: Graph, plan: Plan, order: Sequence[NodeId]) -> None:
        self.graph = graph
        self.plan = plan
        self.tasks: dict[NodeId, DividedNode] = {
            node.id: divided(graph, plan, node) for node in graph if not is_given(graph, node)
        }
        self.order = [node for node in order if node in self.tasks]
        self.kernels = Kernels(graph, plan, self.tasks)
        self._kernel_of: dict[NodeId, Kernel] = {}
        self._task_of: dict[tuple[NodeId, int], Task | KernelTask] = {}
        self._steps: dict[tuple[Value, Placement, Placement], tuple[CollectiveStep, ...]] = {}

    def kernel(self, head: NodeId) -> Kernel:
        """The kernel of a head."""
        if head not in self._kernel_of:
            self._kernel_of[head] = self.kernels.of(head)
        return self._kernel_of[head]

    def task(self, head: NodeId, device: int) -> Task | KernelTask:
        """What a device runs in the place of a head: one task, or those of a kernel of several operators."""
        found = self._task_of.get((head, device))
        if found is None:
            kernel = self.kernel(head)
            is_alone = len(kernel.nodes) == 1
            found = self.tasks[head].task(device) if is_alone else kernel.task(self.tasks, device)
            self._task_of[head, device] = found
        return found

    def steps(self, value: Value, have: Placement, want: Placement) -> tuple[CollectiveStep, ...]:
        """The communication that moves a value from one placement to another."""
        key = (value, have, want)
        if key not in self._steps:
            type_ = tensor_of(self.graph, value)
            self._steps[key] = communication(have, want, shape_of(type_), type_.element.bytes_per_element)
        return self._steps[key]


def is_given(graph: Graph, node: Node) -> bool:
    """Whether the values of a node are known before an execution: an input, or computed from weights only."""
    return isinstance(node.operator, Input) or node.id in graph.weight_only
