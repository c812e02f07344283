"""Fusion groups, buckets and order of a plan in JSON, and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast

from superopt.errors import InvalidFileError
from superopt.ir.graph import NodeId, Value
from superopt.ir.plan import FusionGroup, Plan
from superopt.optimizer.parallel.search.subject import Subject

Kernels = tuple[Mapping[NodeId, FusionGroup], tuple[tuple[Value, ...], ...], tuple[NodeId, ...]]
"""Groups by head, buckets, order."""


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


def kernels_from_json(found: object, subject: Subject) -> Kernels:
    """The object read back. Raises InvalidFileError where it is malformed or names an unknown node or
    result; whether the groups can be kernels is checked when the plan is simulated."""
    if found is None:
        return MappingProxyType({}), (), ()
    if not isinstance(found, dict):
        raise InvalidFileError(f"plan, kernels: expected an object, got {found!r}")
    content = cast("Mapping[str, object]", found)
    groups: dict[NodeId, FusionGroup] = {}
    for number, entry in enumerate(_list(content.get("groups", []), "groups"), start=1):
        where = f"group {number}"
        if not isinstance(entry, dict):
            raise InvalidFileError(f"plan, kernels, {where}: expected an object, got {entry!r}")
        values = cast("Mapping[str, object]", entry)
        (head,) = _nodes([values.get("head")], f"{where}, head", subject)
        members = _named(values.get("nodes"), f"{where}, nodes", subject)
        duplicated = _named(values.get("duplicated", []), f"{where}, duplicated", subject)
        if head in groups:
            raise InvalidFileError(f"plan, kernels, {where}: node {head} is the head of another group, too")
        groups[head] = FusionGroup(head, members, frozenset(duplicated))
    buckets = tuple(
        tuple(_value(entry, number, subject) for entry in _list(bucket, f"bucket {number}"))
        for number, bucket in enumerate(_list(content.get("buckets", []), "buckets"), start=1)
    )
    order = _named(content.get("order", []), "order", subject)
    return MappingProxyType(groups), buckets, order


def _value(entry: object, number: int, subject: Subject) -> Value:
    where = f"bucket {number}"
    pair = _list(entry, where)
    if len(pair) != 2 or not isinstance(pair[1], int) or isinstance(pair[1], bool):
        raise InvalidFileError(f"plan, kernels, {where}: expected a node and a port, got {entry!r}")
    (node,) = _nodes(pair[:1], where, subject)
    outputs = len(subject.operations[subject.numbers[node]].outputs)
    if not 0 <= pair[1] < outputs:
        raise InvalidFileError(
            f"plan, kernels, {where}: expected a port of node {node} from 0 to {outputs - 1}, got {pair[1]}"
        )
    return Value(node, pair[1])


def _named(values: object, where: str, subject: Subject) -> tuple[NodeId, ...]:
    return _nodes(_list(values, where), where, subject)


def _nodes(values: Sequence[object], where: str, subject: Subject) -> tuple[NodeId, ...]:
    found: list[NodeId] = []
    for value in values:
        node = NodeId(value) if isinstance(value, int) and not isinstance(value, bool) else None
        if node not in subject.numbers:
            raise InvalidFileError(f"plan, kernels, {where}: expected a node of the graph, got {value!r}")
        assert node is not None
        found.append(node)
    return tuple(found)


def _list(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise InvalidFileError(f"plan, kernels, {where}: expected a list, got {value!r}")
    return cast("list[object]", value)
