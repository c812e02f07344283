"""Serialise plans to JSON, as in the ``parallel`` section of a report, and read them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.ir.graph import Input, NodeId
from superopt.ir.plan import Fetch, Parallelism, Plan, Residence
from superopt.optimizer.parallel.documents.kernel_text import kernels_to_json, with_kernels
from superopt.optimizer.parallel.documents.plan_document import (
    FetchEntry,
    OperatorEntry,
    Parts,
    ResidenceEntry,
    read_document,
)
from superopt.optimizer.parallel.fetches import resident
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.tasks import sizes_text
from superopt.optimizer.parallel.terms import admits

SCHEMA = 1


def plan_from_json(values: Mapping[str, object], subject: Subject, devices: int) -> Plan:
    """The plan of a report, or of an object with ``operators``, and perhaps ``microbatches``, ``residence``
    and ``kernels``. Raises InvalidFileError for a malformed entry, and for one that names an unknown node, or
    devices that do not exist, or degrees that do not divide a node or an input."""
    content = read_document(values.get("parallel", values))
    plan = Plan(
        parallel=MappingProxyType(_operators(content.operators, subject, devices)),
        microbatches=content.microbatches,
        residence=MappingProxyType(_residences(content.residence, subject, devices)),
    )
    plan = with_kernels(plan, content.kernels, subject)
    try:
        resident(subject.graph, plan)
    except InvalidOptionError as error:
        raise InvalidFileError(str(error)) from None
    return plan


def plan_to_json(plan: Plan, subject: Subject) -> dict[str, object]:
    """The plan in the format of ``plan_from_json``."""
    return {
        "schema": SCHEMA,
        "microbatches": plan.microbatches,
        "kernels": kernels_to_json(plan),
        "operators": [
            {
                "node": operation.node,
                "operator": operation.operator.name,
                "degrees": list(how.degrees),
                "devices": list(how.devices),
                "copies": how.copies,
                "stage": how.stage,
            }
            for operation in subject.operations
            if (how := plan.parallel.get(operation.node)) is not None
        ],
        "residence": residence_to_json(plan, subject),
    }


def residence_to_json(plan: Plan, subject: Subject) -> list[dict[str, object]]:
    """The inputs that are kept in parts; those of ``fetches`` whose ``after`` is null are issued just before
    the first reader."""
    return [
        {
            "node": node,
            "input": operator.label if isinstance(operator := subject.graph[node].operator, Input) else "",
            "degrees": list(kept.degrees),
            "devices": list(kept.devices),
            "copies": kept.copies,
            "fetches": [
                {"readers": list(fetch.readers), "after": fetch.after, "bundle": fetch.bundle}
                for fetch in kept.fetches
            ],
        }
        for node, kept in plan.residence.items()
    ]


def _operators(
    entries: Sequence[OperatorEntry], subject: Subject, devices: int
) -> Mapping[NodeId, Parallelism]:
    found: dict[NodeId, Parallelism] = {}
    for number, entry in enumerate(entries):
        where = f"plan: operators.{number}"
        node, degrees = NodeId(entry.node), tuple(entry.degrees)
        if node not in subject.numbers:
            raise InvalidFileError(f"{where}: the graph has no operator {node}")
        operation = subject.operations[subject.numbers[node]]
        if not admits(operation.splits, degrees):
            sizes = sizes_text(operation.splits)
            raise InvalidFileError(
                f"{where}: node {node} ({operation.operator.name}) cannot be divided by "
                f"{entry.degrees}: its task dimensions are {sizes or 'none'}"
            )
        found[node] = Parallelism(degrees, _devices(entry, devices, where), entry.copies, entry.stage)
    return found


def _residences(
    entries: Sequence[ResidenceEntry], subject: Subject, devices: int
) -> Mapping[NodeId, Residence]:
    found: dict[NodeId, Residence] = {}
    for number, entry in enumerate(entries):
        where = f"plan: residence.{number}"
        for fetch in entry.fetches:
            if fetch.after is not None and fetch.after not in subject.graph.nodes:
                raise InvalidFileError(f"{where}: after: the graph has no node {fetch.after}")
        held, fetches = _devices(entry, devices, where), tuple(map(_fetch, entry.fetches))
        found[NodeId(entry.node)] = Residence(tuple(entry.degrees), held, entry.copies, fetches)
    return found


def _fetch(entry: FetchEntry) -> Fetch:
    issued = None if entry.after is None else NodeId(entry.after)
    return Fetch(tuple(map(NodeId, entry.readers)), issued, entry.bundle)


def _devices(entry: Parts, count: int, where: str) -> tuple[int, ...]:
    if max(entry.devices) >= count:
        last = max(entry.devices)
        raise InvalidFileError(f"{where}: there is no device {last} among {count}, counted from 0")
    return tuple(entry.devices)
