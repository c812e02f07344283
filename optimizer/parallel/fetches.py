"""When inputs that are resident in parts are brought to the operators that read other parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from superopt.errors import InvalidOptionError
from superopt.ir.graph import Graph, Input, NodeId, Value
from superopt.ir.plan import Plan, Residence
from superopt.optimizer.parallel.placement import Placement
from superopt.optimizer.parallel.tasks import shape_of, tensor_of

START = -1
"""Position of fetches that are issued before the first operator."""


@dataclass(frozen=True, slots=True)
class IssuedFetch:
    """A fetch of an input for ``readers``, in order, that is issued after the operator at that position."""

    input: NodeId
    position: int
    readers: tuple[NodeId, ...]
    bundle: int | None = None


def resident(graph: Graph, plan: Plan) -> Mapping[NodeId, Placement]:
    """The placements of inputs that are read and that the plan keeps in parts. Raises InvalidOptionError for
    a residence that is impossible, and for one in a pipeline."""
    if plan.residence and (plan.microbatches > 1 or any(how.stage for how in plan.parallel.values())):
        raise InvalidOptionError("plan: expected no residence of inputs in a pipeline")
    places = {node: _placement(graph, node, kept) for node, kept in plan.residence.items()}
    return {node: place for node, place in places.items() if graph.users(node)}


def issued_fetches(graph: Graph, plan: Plan, order: Sequence[NodeId]) -> tuple[IssuedFetch, ...]:
    """The fetches of the plan, as they are issued where operators run in that order."""
    positions = {node: number for number, node in enumerate(order)}
    readers: dict[NodeId, dict[NodeId, None]] = defaultdict(dict)
    for node in order if plan.residence else ():
        for value in graph[node].inputs:
            if value.node in plan.residence:
                readers[value.node][node] = None
    found = [
        fetch
        for node, kept in plan.residence.items()
        for fetch in _issued(node, kept, readers[node], positions)
    ]
    starts: dict[int, int] = {}
    for fetch in found:
        if fetch.bundle is not None:
            starts[fetch.bundle] = min(fetch.position, starts.get(fetch.bundle, fetch.position))
    found = [
        fetch if fetch.bundle is None else replace(fetch, position=starts[fetch.bundle]) for fetch in found
    ]
    return tuple(sorted(found, key=lambda fetch: (fetch.position, positions[fetch.readers[0]])))


def _issued(
    node: NodeId, kept: Residence, readers: Mapping[NodeId, None], positions: Mapping[NodeId, int]
) -> Iterator[IssuedFetch]:
    alone = dict(readers)
    for fetch in kept.fetches:
        served = tuple(reader for reader in readers if reader in fetch.readers)
        if served:
            latest = positions[served[0]] - 1
            wanted = latest if fetch.after is None else positions.get(fetch.after, START)
            yield IssuedFetch(node, min(wanted, latest), served, fetch.bundle)
        for reader in served:
            alone.pop(reader, None)
    for reader in alone:
        yield IssuedFetch(node, positions[reader] - 1, (reader,))


def _placement(graph: Graph, node: NodeId, kept: Residence) -> Placement:
    if node not in graph.nodes or not isinstance(graph[node].operator, Input):
        raise InvalidOptionError(f"plan, residence of node {node}: expected an input of the graph")
    shape = shape_of(tensor_of(graph, Value(node, 0)))
    if len(kept.degrees) != len(shape) or any(
        size % degree for size, degree in zip(shape, kept.degrees, strict=True)
    ):
        raise InvalidOptionError(
            f"plan, residence of node {node}: the degrees {kept.degrees} do not divide its sizes {shape}"
        )
    served = [reader for fetch in kept.fetches for reader in fetch.readers]
    for reader in served:
        reads = reader in graph.nodes and any(value.node == node for value in graph[reader].inputs)
        if not reads or served.count(reader) > 1:
            raise InvalidOptionError(
                f"plan, residence of node {node}: expected one fetch for each operator that reads it, got "
                f"{served.count(reader)} for node {reader}" + ("" if reads else ", which does not read it")
            )
    return Placement(kept.degrees, kept.devices, copies=kept.copies)
