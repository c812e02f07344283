"""Execution plan of a graph: everything about its execution that does not change what it computes.

A plan is separate from its graph and keyed by node id. It states which nodes the runtime executes as one
kernel, into which tasks operators are divided and where those run, where inputs are kept in parts, which
reductions are one collective, and in which order operators are issued.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from superopt.ir.graph import Graph, NodeId, Value


@dataclass(frozen=True, slots=True)
class FusionGroup:
    """Nodes that run as one kernel. ``head`` is the member that does the main work where the runtime decides
    about kernels, and the one in whose place the kernel runs in a plan for several devices. Those of the
    members that are ``duplicated`` are computed once more, for the readers in the group alone: other readers
    get what the node computes in its own place."""

    head: NodeId
    members: tuple[NodeId, ...]
    duplicated: frozenset[NodeId] = frozenset()

    @property
    def owned(self) -> tuple[NodeId, ...]:
        """The members that are computed here for all readers."""
        return tuple(member for member in self.members if member not in self.duplicated)


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Division of one operator into tasks, and the device of each: a machine mapping (Unity, section 3.2).
    ``degrees`` gives for each task dimension of the operator's ``splits`` the number of equal parts. All
    tasks run ``copies`` times, redundantly, where that saves communication. ``devices`` are the devices of
    the tasks, row-major over ``(*degrees, copies)``, and distinct. ``stage`` is the pipeline stage."""

    degrees: tuple[int, ...]
    devices: tuple[int, ...]
    copies: int = 1
    stage: int = 0

    def __post_init__(self) -> None:
        tasks = math.prod(self.degrees) * self.copies
        if len(self.devices) != tasks or len(set(self.devices)) != tasks:
            raise ValueError(
                f"expected {tasks} distinct devices for degrees {self.degrees}, got {self.devices}"
            )


@dataclass(frozen=True, slots=True)
class Fetch:
    """One delivery of an input that is resident in parts, to wherever ``readers`` read it. It is issued once
    the operator ``after`` has run, or at the start if that is an input; at the latest, and by default, just
    before the first of the readers. What was delivered is released after the last of them. Fetches of several
    inputs with the same number as ``bundle`` are issued together, when the first of them is, and gathered by
    one collective for each group of devices."""

    readers: tuple[NodeId, ...]
    after: NodeId | None = None
    bundle: int | None = None


@dataclass(frozen=True, slots=True)
class Residence:
    """Where an input is kept: axis i in ``degrees[i]`` equal parts, with ``copies`` of every part on
    ``devices``, row-major over ``(*degrees, copies)`` and distinct. A state of a training step is left there
    by every step for the next. An operator that reads other parts has them from one of the ``fetches``, or
    else from one of its own."""

    degrees: tuple[int, ...]
    devices: tuple[int, ...]
    copies: int = 1
    fetches: tuple[Fetch, ...] = ()

    def __post_init__(self) -> None:
        parts = math.prod(self.degrees) * self.copies
        if len(self.devices) != parts or len(set(self.devices)) != parts:
            raise ValueError(
                f"expected {parts} distinct devices for degrees {self.degrees}, got {self.devices}"
            )


def _no_groups() -> Mapping[NodeId, FusionGroup]:
    return MappingProxyType({})


def _no_parallelism() -> Mapping[NodeId, Parallelism]:
    return MappingProxyType({})


def _no_residence() -> Mapping[NodeId, Residence]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Plan:
    """Execution choices for a graph.

    ``fusion`` maps the head of every group of two or more to its group. ``parallel`` maps every operator to
    its machine mapping; it is empty for a graph on a single device. A pipeline-parallel plan divides a batch
    into ``microbatches``. ``residence`` maps inputs to the parts in which they are kept; others are kept in
    every part that some operator reads. The partial sums of a bucket are reduced together, as one collective,
    once all of them are there; ``buckets`` are disjoint, and others are reduced one by one. ``order`` are all
    operators as they are issued, a group where its head is; empty for that of the simulator.
    """

    fusion: Mapping[NodeId, FusionGroup] = field(default_factory=_no_groups)
    parallel: Mapping[NodeId, Parallelism] = field(default_factory=_no_parallelism)
    microbatches: int = 1
    residence: Mapping[NodeId, Residence] = field(default_factory=_no_residence)
    buckets: tuple[tuple[Value, ...], ...] = ()
    order: tuple[NodeId, ...] = ()

    @property
    def has_kernels(self) -> bool:
        """Whether operators are grouped or ordered, or reductions put together."""
        return bool(self.fusion or self.buckets or self.order)

    def restricted_to(self, graph: Graph) -> Plan:
        """The plan without entries for nodes that the graph does not have."""
        return Plan(
            MappingProxyType(
                {
                    head: group
                    for head, group in self.fusion.items()
                    if all(node in graph.nodes for node in group.members)
                }
            ),
            MappingProxyType({node: how for node, how in self.parallel.items() if node in graph.nodes}),
            self.microbatches,
            MappingProxyType({node: kept for node, kept in self.residence.items() if node in graph.nodes}),
            tuple(
                kept
                for bucket in self.buckets
                if (kept := tuple(value for value in bucket if value.node in graph.nodes))
            ),
            tuple(node for node in self.order if node in graph.nodes),
        )
