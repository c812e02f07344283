"""States of a training step that are kept where their next values are computed: ZeRO's third stage.

A plan that updates parameters in parts (ZeRO-1 and 2, servers) sends every next parameter to all devices,
which hold it until the next step. Here a device keeps only the parts that it updates. Parameters are gathered
before they are used (Rajbhandari et al. 2020, ZeRO-3; fully sharded data parallelism), and what was gathered
is released after its last use in the forward pass, and gathered again for the backward pass, or kept between.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from superopt.ir.graph import NodeId
from superopt.ir.plan import Fetch, Parallelism, Plan, Residence
from superopt.optimizer.parallel.placement import Placement, needed, produced
from superopt.optimizer.parallel.search.carried import tensor_bytes
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.simulator import Simulation
from superopt.optimizer.parallel.simulator.residents import ResidentFetch
from superopt.optimizer.parallel.training_plans.states import StateTensor

_TOGETHER = 8
"""Readers that are at most so many operators apart share one fetch."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A state that some operators do not read where its next value is computed, in that placement, the
    readers, in order, and the bytes of all of the state."""

    state: NodeId
    place: Placement
    readers: tuple[NodeId, ...]
    bytes: int

    def kept(self) -> Residence:
        """The state is gathered once, for all readers."""
        return self._with(Fetch(self.readers))

    def released(self, subject: Subject) -> Residence:
        """It is gathered again for readers that are far from those before them."""
        numbers = [subject.numbers[reader] for reader in self.readers]
        breaks = [n for n, (a, b) in enumerate(itertools.pairwise(numbers), 1) if b - a > _TOGETHER]
        bounds = itertools.pairwise((0, *breaks, len(self.readers)))
        return self._with(*(Fetch(self.readers[start:stop]) for start, stop in bounds))

    def _with(self, *fetches: Fetch) -> Residence:
        return Residence(self.place.degrees, self.place.devices, self.place.copies, fetches)


@dataclass(frozen=True)
class ResidentStates:
    """The states of a plan that could be kept in parts."""

    subject: Subject
    plan: Plan

    @cached_property
    def all(self) -> tuple[Fetched, ...]:
        """The states, the largest first."""
        step = self.subject.step
        found = [self._fetched(state) for state in (() if step is None else step.states)]
        return tuple(sorted((one for one in found if one is not None), key=lambda one: -one.bytes))

    def keeping(self, released: Collection[NodeId]) -> Plan:
        """The plan with all of these states in parts; ``released`` are gathered again where that is far."""
        residence = {
            one.state: one.released(self.subject) if one.state in released else one.kept() for one in self.all
        }
        return replace(self.plan, residence=MappingProxyType(residence))

    def releasing_all(self) -> Plan:
        """ZeRO-3: all of these states are in parts, and released between uses."""
        return self.keeping([one.state for one in self.all])

    def _fetched(self, state: StateTensor) -> Fetched | None:
        how = self.plan.parallel.get(state.next.node)
        if how is None or state.next.node not in self.subject.numbers:
            return None
        maker = self.subject.operations[self.subject.numbers[state.next.node]]
        place = produced(maker.splits, how, state.next.port)
        readers = tuple(dict.fromkeys(self._readers_elsewhere(state.input, place)))
        if place.partial > 1 or not readers:
            return None
        return Fetched(state.input, place, readers, tensor_bytes(maker.outputs[state.next.port]))

    def _readers_elsewhere(self, node: NodeId, place: Placement) -> Iterator[NodeId]:
        for reader in sorted(self.subject.graph.users(node), key=self.subject.numbers.__getitem__):
            operation = self.subject.operations[self.subject.numbers[reader]]
            how = self.plan.parallel.get(reader) or Parallelism((1,) * len(operation.splits.dimensions), (0,))
            for slot, value in enumerate(self.subject.graph[reader].inputs):
                if value.node == node and needed(operation.splits, how, slot) != place:
                    yield reader


def prefetched(simulation: Simulation, lead: float, together: int) -> Plan:
    """The plan of a simulation with its fetches issued as late as possible so that each ends before its first
    reader starts, if there is computation for ``lead`` times as long as fetches last, one after the other.
    Neighbouring fetches are issued together up to so many bytes."""
    plan, order = simulation.plan, simulation.order
    numbers = simulation.operations.numbers
    place = {numbers[node]: position for position, node in enumerate(order)}
    units = (simulation.units[number] for number in place)
    ends = list(itertools.accumulate(unit.division.duration.longest for unit in units))
    issued: dict[tuple[NodeId, NodeId], tuple[NodeId, int | None]] = {}
    free = float("inf")
    for number, group in reversed(list(enumerate(_neighbours(simulation, place, together)))):
        bundle = number if len(group) > 1 else None
        first = min(place[fetch.users[0][0]] for fetch in group)
        lasts = sum(exchange.microseconds for f in group for exchange in simulation.fetch_exchanges(f))
        free = min(free, ends[first - 1] if first else 0.0) - lead * lasts
        before = bisect.bisect_right(ends, free) - 1
        for fetch in group:
            for user, _ in fetch.users:
                after = fetch.input if before < 0 else order[before]
                issued[fetch.input, order[place[user]]] = after, bundle
    residence = {node: _issued(node, kept, issued) for node, kept in plan.residence.items()}
    return replace(plan, residence=MappingProxyType(residence))


def _neighbours(simulation: Simulation, place: Mapping[int, int], together: int) -> list[list[ResidentFetch]]:
    """The fetches that send something in the order of their first readers, whose ``place`` is by number, in
    groups of so many bytes."""
    groups: list[list[ResidentFetch]] = []
    size = together
    for fetch in sorted(simulation.residents.fetches, key=lambda fetch: place[fetch.users[0][0]]):
        moved = sum(exchange.moved for exchange in simulation.fetch_exchanges(fetch))
        if not moved:
            continue
        if size + moved > together:
            groups.append([])
            size = 0
        groups[-1].append(fetch)
        size += moved
    return groups


def _issued(
    node: NodeId, kept: Residence, issued: Mapping[tuple[NodeId, NodeId], tuple[NodeId, int | None]]
) -> Residence:
    fetches: list[Fetch] = []
    for fetch in kept.fetches:
        after, bundle = issued.get((node, fetch.readers[0]), (None, None))
        fetches.append(Fetch(fetch.readers, after, bundle))
    return replace(kept, fetches=tuple(fetches))
