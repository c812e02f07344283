"""Plan cost estimate of the search: cost tables for operations and for the tensors between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from superopt.ir.graph import Value
from superopt.ir.types import TensorType
from superopt.optimizer.parallel.search.carried import Kept, tensor_bytes
from superopt.optimizer.parallel.search.choices import Choice, Choices, degrees_of
from superopt.optimizer.parallel.search.elimination import Problem
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.redistribution import (
    TERM,
    WHOLE,
    CollectivePrices,
    made,
    part,
    read,
    redistribution,
)
from superopt.optimizer.parallel.search.subject import Edge, Operation, Subject
from superopt.optimizer.parallel.search.tables import Table, Tables

Costs = NDArray[np.float64]

Compute = Callable[[Operation, tuple[int, ...], Sequence[int]], float]
"""Microseconds of one task of an operation divided by those degrees, on the slowest of some devices."""


@dataclass
class Known:
    """Data shared by estimates on one mesh: numbers of kinds of operations and edges, and tables."""

    kinds: dict[tuple[object, ...], int] = field(default_factory=dict[tuple[object, ...], int])
    choices: dict[tuple[Choice, ...], Choices] = field(default_factory=dict[tuple[Choice, ...], Choices])
    edges: dict[tuple[int, Choices, Choices], Table] = field(
        default_factory=dict[tuple[int, Choices, Choices], Table]
    )
    owns: dict[tuple[int, Choices, float], Table] = field(
        default_factory=dict[tuple[int, Choices, float], Table]
    )
    parts: dict[tuple[int, Choices], tuple[Costs, Costs]] = field(
        default_factory=dict[tuple[int, Choices], tuple[Costs, Costs]]
    )
    works: dict[tuple[int, tuple[int, ...]], float] = field(
        default_factory=dict[tuple[int, tuple[int, ...]], float]
    )

    def kind(self, *key: object) -> int:
        """The number of a kind."""
        return self.kinds.setdefault(key, len(self.kinds))

    def interned(self, choices: tuple[Choice, ...]) -> Choices:
        """The canonical object for equal choices."""
        found = self.choices.get(choices)
        if found is None:
            found = self.choices[choices] = Choices(choices)
        return found


@dataclass(frozen=True, slots=True)
class _Stays:
    """The inputs that are kept for an operation, and the ports of results that are alive where a step holds
    most, and of those that the graph returns and that stay where they are made."""

    kept: tuple[Kept, ...]
    held: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass
class Estimator:
    """Cost tables on one mesh. A price of memory is in microseconds per byte on a device (a Lagrange
    multiplier)."""

    subject: Subject
    mesh: Mesh
    prices: CollectivePrices
    compute: Compute
    tables: Tables
    known: Known = field(default_factory=Known)

    def __post_init__(self) -> None:
        self.kinds = tuple(
            self.known.kind(
                operation.operator,
                operation.inputs,
                operation.outputs,
                operation.splits,
                operation.weights,
                self._stays(number),
            )
            for number, operation in enumerate(self.subject.operations)
        )
        self._edge_kinds = {
            edge: self.known.kind(
                self.kinds[edge.source],
                edge.port,
                self.kinds[edge.target],
                edge.slot,
                edge.alike,
            )
            for edge in (*self.subject.edges, *self.subject.carried.edges)
        }

    def problem(self, choices: Sequence[Choices], memory_price: float = 0.0) -> Problem:
        """The optimisation problem of assigning one choice to each operation."""
        own = [self.own(number, found, memory_price) for number, found in enumerate(choices)]
        between: dict[tuple[int, int], Table] = {}
        for edge in self.subject.edges:
            table = self.edge(edge, choices[edge.source], choices[edge.target])
            pair = (edge.source, edge.target)
            between[pair] = self.tables.added(between[pair], table) if pair in between else table
        for edge in self.subject.carried.edges:
            table = self.edge(edge, choices[edge.source], choices[edge.target])
            pair = (min(edge.source, edge.target), max(edge.source, edge.target))
            table = table if pair[0] == edge.source else self.tables.turned(table)
            between[pair] = self.tables.added(between[pair], table) if pair in between else table
        return Problem(own, between)

    def around(self, number: int, options: Choices, chosen: Sequence[Choice]) -> Costs:
        """[options]: cost of an operation and of its inputs and outputs, with all other choices fixed."""
        total = self.own(number, options).costs
        carried = self.subject.carried
        for edge in (*self.subject.incoming[number], *carried.arriving(number)):
            before = self.known.interned((chosen[edge.source],))
            total = total + self.edge(edge, before, options).costs[0]
        for edge in (*self.subject.outgoing[number], *carried.leaving(number)):
            after = self.known.interned((chosen[edge.target],))
            total = total + self.edge(edge, options, after).costs[:, 0]
        return total

    def memory(self, number: int, choices: Choices) -> Costs:
        """[choices]: bytes that a device holds for the operation."""
        return self._own_parts(number, choices)[1]

    def own(self, number: int, choices: Choices, memory_price: float = 0.0) -> Table:
        """[choices]: microseconds of computation, and the price of memory."""
        key = (self.kinds[number], choices, memory_price)
        found = self.known.owns.get(key)
        if found is None:
            work, memory = self._own_parts(number, choices)
            found = self.known.owns[key] = self.tables.table(work + memory_price * memory)
        return found

    def edge(self, edge: Edge, before: Choices, after: Choices) -> Table:
        """[choices of the source, choices of the target]: microseconds to move the value."""
        key = (self._edge_kinds[edge], before, after)
        found = self.known.edges.get(key)
        if found is None:
            source, target = self.subject.operations[edge.source], self.subject.operations[edge.target]
            size = tensor_bytes(source.outputs[edge.port])
            costs = redistribution(
                made(source, before.all, edge.port), read(target, after.all, edge.slot), size, self.prices
            )
            found = self.known.edges[key] = self.tables.table(costs / edge.alike)
        return found

    def _own_parts(self, number: int, choices: Choices) -> tuple[Costs, Costs]:
        """Computation, memory; [choices] each. Computation includes reducing a graph output that is a partial
        sum."""
        key = (self.kinds[number], choices)
        found = self.known.parts.get(key)
        if found is not None:
            return found
        operation = self.subject.operations[number]
        stays = self._stays(number)
        kind = self.kinds[number]
        work = np.array(
            [self._work(kind, operation, degrees_of(operation, c, self.mesh)) for c in choices.all]
        )
        memory = np.zeros(len(choices))
        for slot in operation.weights:
            size = tensor_bytes(operation.inputs[slot])
            memory += size * part(read(operation, choices.all, slot), self.mesh.sizes)
        for kept in stays.kept:
            size = kept.tensors * tensor_bytes(operation.inputs[kept.slot]) / kept.alike
            memory += size * part(read(operation, choices.all, kept.slot), self.mesh.sizes)
        for port, type_ in enumerate(operation.outputs):
            states = made(operation, choices.all, port)
            size = tensor_bytes(type_)
            if port in stays.held:
                memory += size * part(states, self.mesh.sizes)
            if port in stays.outputs:
                wanted = np.where(states == TERM, WHOLE, states)
                work = work + np.diagonal(redistribution(states, wanted, size, self.prices))
        found = self.known.parts[key] = (work, memory)
        return found

    def _stays(self, number: int) -> _Stays:
        """What an operation of the subject leaves in memory or returns."""
        operation, carried = self.subject.operations[number], self.subject.carried
        values = [Value(operation.node, port) for port in range(len(operation.outputs))]
        return _Stays(
            carried.kept.get(number, ()),
            tuple(port for port, value in enumerate(values) if value in carried.held),
            tuple(
                port
                for port, value in enumerate(values)
                if value in self._returned and value not in carried.returned
            ),
        )

    @cached_property
    def _returned(self) -> frozenset[Value]:
        return frozenset(self.subject.graph.outputs)

    def _work(self, kind: int, operation: Operation, degrees: tuple[int, ...]) -> float:
        key = (kind, degrees)
        found = self.known.works.get(key)
        if found is None:
            found = self.known.works[key] = self.compute(operation, degrees, self.mesh.devices)
        return found


def task_types(
    operation: Operation, degrees: tuple[int, ...]
) -> tuple[tuple[TensorType, ...], tuple[TensorType, ...]]:
    """The operand and result types of one task."""
    splits = operation.splits
    return (
        tuple(_divided(t, a, degrees) for t, a in zip(operation.inputs, splits.inputs, strict=True)),
        tuple(_divided(t, a, degrees) for t, a in zip(operation.outputs, splits.outputs, strict=True)),
    )


def _divided(type_: TensorType, axes: tuple[int | None, ...], degrees: tuple[int, ...]) -> TensorType:
    sizes = [
        size if axis is None or not isinstance(size, int) else size // degrees[axis]
        for size, axis in zip(type_.shape, axes, strict=True)
    ]
    return type_.with_shape(tuple(sizes))
