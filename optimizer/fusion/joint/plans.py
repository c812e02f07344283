"""Candidates as plans, and plans as candidates."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from superopt.ir.graph import NodeId, Value
from superopt.ir.plan import FusionGroup, Plan
from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.streams import timed


def plan_of(joint: Joint) -> Plan:
    """The plan of a candidate, with the order in which its kernels are issued."""
    problem = joint.problem
    operations = problem.simulation.operations.all
    groups: dict[NodeId, FusionGroup] = {}
    for head, node in joint.nodes.items():
        if len(node.kernel.members) > 1:
            main = operations[head].node
            groups[main] = FusionGroup(
                main,
                tuple(operations[number].node for number in node.kernel.members),
                frozenset(operations[number].node for number in node.kernel.copied),
            )
    found = timed(joint)
    order = tuple(operations[number].node for head in found.order for number in joint.nodes[head].owned)
    buckets = tuple(
        tuple(_value(problem, transfer) for transfer in joint.buckets[number])
        for number in found.sent
        if len(joint.buckets[number]) > 1
    )
    return replace(problem.simulation.plan, fusion=MappingProxyType(groups), buckets=buckets, order=order)


def _value(problem: Problem, transfer: int) -> Value:
    one = problem.transfers[transfer]
    return Value(problem.simulation.operations.all[one.number].node, one.key[0])
