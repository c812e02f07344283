"""Fusion groups, buckets and order of a plan in JSON, and read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from superopt.errors import InvalidFileError
from superopt.ir.graph import NodeId, Value
from superopt.ir.plan import FusionGroup, Plan
from superopt.optimizer.parallel.documents.plan_document import KernelsEntry
from superopt.optimizer.parallel.search.subject import Subject


def kernels_to_json(plan: Plan) -> dict[str, object] | None:
    """The object ``kernels``; None for a plan without groups, buckets and order."""
    if not plan.has_kernels:
        return None
    return {
        "groups": [
            {"head": head, "nodes": list(group.members), "duplicated": sorted(group.duplicated)}
            for head, group in plan.fusion.items()
        ],
        "buckets": [[[value.node, value.port] for value in bucket] for bucket in plan.buckets],
        "order": list(plan.order),
    }


def with_kernels(plan: Plan, entry: KernelsEntry | None, subject: Subject) -> Plan:
    """The plan with the groups, buckets and order that were read. Raises InvalidFileError where they name an
    unknown node or result; whether the groups can be kernels is checked when the plan is simulated."""
    if entry is None:
        return plan
    groups: dict[NodeId, FusionGroup] = {}
    for number, group in enumerate(entry.groups):
        where = f"groups.{number}"
        (head,) = _nodes([group.head], f"{where}.head", subject)
        members = _nodes(group.nodes, f"{where}.nodes", subject)
        duplicated = _nodes(group.duplicated, f"{where}.duplicated", subject)
        if head in groups:
            raise InvalidFileError(f"plan: kernels.{where}: node {head} is the head of another group, too")
        groups[head] = FusionGroup(head, members, frozenset(duplicated))
    buckets = tuple(
        tuple(_value(node, port, f"buckets.{number}", subject) for node, port in bucket)
        for number, bucket in enumerate(entry.buckets)
    )
    order = _nodes(entry.order, "order", subject)
    return replace(plan, fusion=MappingProxyType(groups), buckets=buckets, order=order)


def _value(number: int, port: int, where: str, subject: Subject) -> Value:
    (node,) = _nodes([number], where, subject)
    outputs = len(subject.operations[subject.numbers[node]].outputs)
    if port >= outputs:
        raise InvalidFileError(
            f"plan: kernels.{where}: expected a port of node {node} from 0 to {outputs - 1}, got {port}"
        )
    return Value(node, port)


def _nodes(values: Sequence[int], where: str, subject: Subject) -> tuple[NodeId, ...]:
    nodes = tuple(map(NodeId, values))
    for node in nodes:
        if node not in subject.numbers:
            raise InvalidFileError(f"plan: kernels.{where}: expected a node of the graph, got {node}")
    return nodes
