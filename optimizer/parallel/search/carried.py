"""What a training step keeps: inputs and states throughout, next states for the step that follows.

The next value of a state goes to wherever the step reads the state, which is an edge from the update back to
the readers. One transfer serves them all, so that each pays an equal share of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from superopt.ir.graph import Graph, NodeId, Value
from superopt.ir.types import TensorType
from superopt.ops.traits import ALIASES
from superopt.optimizer.parallel.training_plans.states import StepStates


@dataclass(frozen=True, slots=True)
class Edge:
    """A value from one planned node to a slot of another, both by number. ``alike`` is the number of equal
    operations that read the value: one transfer serves them all."""

    source: int
    port: int
    target: int
    slot: int
    alike: int = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """An input that an operation reads at a slot: the number of tensors of its size that are held there (two
    for a state, its present and its next value), and the number of operations that share them."""

    slot: int
    tensors: int
    alike: int


def _nothing() -> Mapping[int, tuple[Kept, ...]]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Carried:
    """``edges`` lead from the update of a state to those that read it. ``kept`` are the inputs that are held
    for an operation, by number, ``returned`` the next values of states, which no other placement needs, and
    ``held`` the results that are alive where one device holds most."""

    edges: tuple[Edge, ...] = ()
    kept: Mapping[int, tuple[Kept, ...]] = field(default_factory=_nothing)
    returned: frozenset[Value] = frozenset()
    held: frozenset[Value] = frozenset()

    def arriving(self, number: int) -> Sequence[Edge]:
        """The edges to an operation."""
        return self._arriving.get(number, ())

    def leaving(self, number: int) -> Sequence[Edge]:
        """The edges from an operation."""
        return self._leaving.get(number, ())

    @cached_property
    def _arriving(self) -> Mapping[int, Sequence[Edge]]:
        found: dict[int, list[Edge]] = defaultdict(list)
        for edge in self.edges:
            found[edge.target].append(edge)
        return found

    @cached_property
    def _leaving(self) -> Mapping[int, Sequence[Edge]]:
        found: dict[int, list[Edge]] = defaultdict(list)
        for edge in self.edges:
            found[edge.source].append(edge)
        return found

    @staticmethod
    def of(graph: Graph, numbers: Mapping[NodeId, int], step: StepStates | None) -> Carried:
        """What a step keeps; nothing for another graph."""
        if step is None:
            return Carried()
        edges: list[Edge] = []
        kept: dict[int, list[Kept]] = defaultdict(list)
        returned: set[Value] = set()
        for node, uses in _readers(graph, numbers).items():
            state = step.by_input.get(node)
            updater = None if state is None else numbers.get(state.next.node)
            others = [use for use in uses if use[0] != updater] or uses
            changes = state is not None and updater is not None
            for reader, slot in others:
                kept[reader].append(Kept(slot, 2 if changes else 1, len(others)))
            if state is None or updater is None:
                continue
            returned.add(state.next)
            edges.extend(
                Edge(updater, state.next.port, reader, slot, alike=len(others))
                for reader, slot in others
                if reader != updater
            )
        by_number = {number: tuple(found) for number, found in kept.items()}
        return Carried(tuple(edges), by_number, frozenset(returned), _fullest(graph, numbers) - returned)


def _readers(graph: Graph, numbers: Mapping[NodeId, int]) -> dict[NodeId, list[tuple[int, int]]]:
    """The operations and slots that read each input."""
    inputs = frozenset(graph.inputs)
    found: dict[NodeId, list[tuple[int, int]]] = defaultdict(list)
    for node, number in numbers.items():
        for slot, value in enumerate(graph[node].inputs):
            if value.node in inputs:
                found[value.node].append((number, slot))
    return found


def _fullest(graph: Graph, numbers: Mapping[NodeId, int]) -> frozenset[Value]:
    """The results that are alive when one device, which runs the operations in order, holds most."""
    last: dict[Value, int] = {}
    for node, number in numbers.items():
        last.update((value, number) for value in graph[node].inputs if value.node in numbers)
    last.update((value, len(numbers)) for value in graph.outputs)
    ends: dict[int, list[Value]] = defaultdict(list)
    alive: dict[Value, int] = {}
    best, most, size = frozenset[Value](), -1, 0
    for node, number in numbers.items():
        for port, type_ in enumerate(graph[node].types):
            if isinstance(type_, TensorType) and graph[node].operator.name not in ALIASES:
                value = Value(node, port)
                alive[value] = tensor_bytes(type_)
                size += alive[value]
                ends[last.get(value, number)].append(value)
        if size > most:
            best, most = frozenset(alive), size
        for value in ends.pop(number, ()):
            size -= alive.pop(value)
    return best


def tensor_bytes(type_: TensorType) -> int:
    """The bytes of a tensor of concrete size."""
    elements = type_.elements
    assert isinstance(elements, int), "sizes are known when a plan is made"
    return elements * type_.element.bytes_per_element
