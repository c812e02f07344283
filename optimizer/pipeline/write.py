"""Write a rewritten graph: the model that was judged, with its plan."""

from __future__ import annotations

from superopt.ir.graph import Graph
from superopt.ir.plan import Plan
from superopt.onnx_io import LiftedModel, LoweredModel, lower
from superopt.optimizer.fusion import partition
from superopt.optimizer.parallel.annotation import annotate


def plan_of(graph: Graph) -> Plan:
    """The plan of a graph: the groups of nodes that the runtime may fuse."""
    groups = partition(graph, graph.weight_only)
    return Plan({group.head: group for group in groups.values() if len(group.members) > 1})


def for_devices(lifted: LiftedModel, graph: Graph, plan: Plan, cluster: str, devices: int) -> LoweredModel:
    """The model with its plan as annotations; unchanged if there is no plan."""
    lowered = lower(lifted, graph, Plan())
    if not plan.parallel:
        return lowered
    return annotate(lowered, graph, plan, cluster, [f"{cluster}/{number}" for number in range(devices)])
