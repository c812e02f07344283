"""Serialise plans to JSON, as in the ``parallel`` section of a report, and read them back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import cast

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.ir.graph import Input, NodeId
from superopt.ir.plan import Fetch, Parallelism, Plan, Residence
from superopt.optimizer.parallel.fetches import resident
from superopt.optimizer.parallel.kernel_text import kernels_from_json, kernels_to_json
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.tasks import sizes_text
from superopt.optimizer.parallel.terms import admits

SCHEMA = 1


def plan_from_json(values: Mapping[str, object], subject: Subject, devices: int) -> Plan:
    """The plan of a report, or of an object with ``operators``, and perhaps ``microbatches``, ``residence``
    and ``kernels``. Raises InvalidFileError for a malformed entry, and for one that names an unknown node, or
    devices that do not exist, or degrees that do not divide a node or an input."""
    section = values.get("parallel", values)
    if not isinstance(section, dict):
        raise InvalidFileError("plan: expected a report with a section parallel, or the section itself")
    content = cast("Mapping[str, object]", section)
    entries = content.get("operators")
    if not isinstance(entries, list):
        raise InvalidFileError("plan: expected a list as operators")
    microbatches = content.get("microbatches", 1)
    if not isinstance(microbatches, int) or isinstance(microbatches, bool) or microbatches < 1:
        raise InvalidFileError(f"plan: expected a number of at least 1 as microbatches, got {microbatches!r}")
    how: dict[NodeId, Parallelism] = {}
    for number, entry in enumerate(cast("list[object]", entries), start=1):
        where = f"plan: operator {number}"
        if not isinstance(entry, dict):
            raise InvalidFileError(f"{where}: expected an object, got {entry!r}")
        node, mapping = _mapping(cast("Mapping[str, object]", entry), where)
        if node not in subject.numbers:
            raise InvalidFileError(f"{where}: the graph has no operator {node}")
        operation = subject.operations[subject.numbers[node]]
        if not admits(operation.splits, mapping.degrees):
            sizes = sizes_text(operation.splits)
            raise InvalidFileError(
                f"{where}: node {node} ({operation.operator.name}) cannot be divided by "
                f"{list(mapping.degrees)}: its task dimensions are {sizes or 'none'}"
            )
        if max(mapping.devices) >= devices:
            last = max(mapping.devices)
            raise InvalidFileError(f"{where}: there is no device {last} among {devices}, counted from 0")
        how[node] = mapping
    residence = _residences(content.get("residence", []), subject, devices)
    fusion, buckets, order = kernels_from_json(content.get("kernels"), subject)
    plan = Plan(fusion, MappingProxyType(how), microbatches, residence, buckets, order)
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


def _residences(values: object, subject: Subject, devices: int) -> Mapping[NodeId, Residence]:
    if not isinstance(values, list):
        raise InvalidFileError(f"plan: expected a list as residence, got {values!r}")
    found: dict[NodeId, Residence] = {}
    for number, entry in enumerate(cast("list[object]", values), start=1):
        where = f"plan: residence {number}"
        if not isinstance(entry, dict):
            raise InvalidFileError(f"{where}: expected an object, got {entry!r}")
        content = cast("Mapping[str, object]", entry)
        node = NodeId(_numbers([content.get("node")], f"{where}: node", 0)[0])
        degrees, held, copies = _parts(content, where)
        if max(held) >= devices:
            raise InvalidFileError(f"{where}: there is no device {max(held)} among {devices}, counted from 0")
        found[node] = Residence(degrees, held, copies, tuple(_fetches(content, where, subject)))
    return MappingProxyType(found)


def _fetches(entry: Mapping[str, object], where: str, subject: Subject) -> Iterator[Fetch]:
    values = entry.get("fetches", [])
    if not isinstance(values, list):
        raise InvalidFileError(f"{where}: expected a list as fetches, got {values!r}")
    for value in cast("list[object]", values):
        if not isinstance(value, dict):
            raise InvalidFileError(f"{where}: fetches: expected objects, got {value!r}")
        fetch = cast("Mapping[str, object]", value)
        readers = _numbers(fetch.get("readers"), f"{where}: readers", 0)
        after = fetch.get("after")
        issued = None if after is None else NodeId(_numbers([after], f"{where}: after", 0)[0])
        if issued is not None and issued not in subject.graph.nodes:
            raise InvalidFileError(f"{where}: after: the graph has no node {issued}")
        bundle = fetch.get("bundle")
        together = None if bundle is None else _numbers([bundle], f"{where}: bundle", 0)[0]
        yield Fetch(tuple(map(NodeId, readers)), issued, together)


def _mapping(entry: Mapping[str, object], where: str) -> tuple[NodeId, Parallelism]:
    node = _numbers([entry.get("node")], f"{where}: node", 0)[0]
    stage = _numbers([entry.get("stage", 0)], f"{where}: stage", 0)[0]
    degrees, devices, copies = _parts(entry, where)
    return NodeId(node), Parallelism(degrees, devices, copies, stage)


def _parts(entry: Mapping[str, object], where: str) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Degrees, devices and copies."""
    degrees = _numbers(entry.get("degrees"), f"{where}: degrees", 1)
    devices = _numbers(entry.get("devices"), f"{where}: devices", 0)
    copies = _numbers([entry.get("copies", 1)], f"{where}: copies", 1)[0]
    tasks = math.prod(degrees) * copies
    if len(devices) != tasks or len(set(devices)) != tasks:
        raise InvalidFileError(
            f"{where}: expected {tasks} different devices for degrees {list(degrees)} and {copies} copies, "
            f"got {list(devices)}"
        )
    return degrees, devices, copies


def _numbers(values: object, where: str, least: int) -> tuple[int, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InvalidFileError(f"{where}: expected a list of numbers, got {values!r}")
    numbers = cast("Sequence[object]", values)
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise InvalidFileError(f"{where}: expected a whole number of at least {least}, got {number!r}")
    return tuple(cast("Sequence[int]", numbers))
