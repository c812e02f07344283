"""The search's own estimate of a plan: tables of costs of operations and of the values between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from optimizer.parallel.search.choices import Choice, degrees_of
from optimizer.parallel.search.elimination import Problem
from optimizer.parallel.search.mesh import Mesh
from optimizer.parallel.search.redistribution import (
    CollectivePrices,
    gradient_made,
    gradient_read,
    made,
    part,
    read,
    redistribution,
    synchronisation,
)
from optimizer.parallel.search.subject import Edge, Operation, Subject
from optimizer.parallel.search.tables import Table, Tables
from superopt.ir.types import TensorType

Costs = NDArray[np.float64]

Compute = Callable[[Operation, tuple[int, ...], Sequence[int]], float]
"""Microseconds of one task of an operation divided into those degrees, on the slowest of some devices; in
training of its backward pass, too."""


@dataclass(frozen=True, slots=True)
class Weighing:
    """What an estimate counts beside the work: the share of weight synchronisation that nothing hides, and
    microseconds per byte of memory on a device (a Lagrange multiplier)."""

    exposed: float = 1.0
    memory: float = 0.0


@dataclass
class Estimator:
    """Tables of costs on one mesh. ``trains``: gradients flow back and weights are synchronised.

    ``weight_copies`` are the tensors that a device keeps for each weight: with gradients and the state of the
    training algorithm, or the weight alone.
    """

    subject: Subject
    mesh: Mesh
    prices: CollectivePrices
    compute: Compute
    trains: bool
    weight_copies: float
    tables: Tables
    _edges: dict[tuple[object, ...], Table] = field(default_factory=dict[tuple[object, ...], Table])
    _works: dict[tuple[object, ...], float] = field(default_factory=dict[tuple[object, ...], float])
    _parts: dict[tuple[object, ...], tuple[Costs, Costs, Costs]] = field(
        default_factory=dict[tuple[object, ...], tuple[Costs, Costs, Costs]]
    )

    def problem(self, choices: Sequence[tuple[Choice, ...]], weighing: Weighing) -> Problem:
        """The problem of taking one choice per operation."""
        own = [
            self.tables.table(self._own(number, choices[number], weighing))
            for number in range(len(self.subject.operations))
        ]
        between: dict[tuple[int, int], Table] = {}
        for edge in self.subject.edges:
            table = self.edge(edge, choices[edge.source], choices[edge.target])
            pair = (edge.source, edge.target)
            between[pair] = self.tables.added(between[pair], table) if pair in between else table
        return Problem(own, between)

    def problem_of(self, number: int, options: tuple[Choice, ...], chosen: Sequence[Choice]) -> Costs:
        """[options]: costs of an operation and of the values that it reads and makes, all others given."""
        total = self._own(number, options, Weighing())
        for edge in self.subject.incoming[number]:
            total = total + self.edge(edge, (chosen[edge.source],), options).costs[0]
        for edge in self.subject.outgoing[number]:
            total = total + self.edge(edge, options, (chosen[edge.target],)).costs[:, 0]
        return total

    def memory(self, number: int, choices: tuple[Choice, ...]) -> Costs:
        """[choices]: bytes that a device keeps for the operation."""
        return self._own_parts(number, choices)[2]

    def edge(self, edge: Edge, before: tuple[Choice, ...], after: tuple[Choice, ...]) -> Table:
        """[choices of the source, choices of the target]: microseconds to bring the value, and its gradient
        back."""
        source, target = self.subject.operations[edge.source], self.subject.operations[edge.target]
        type_ = source.outputs[edge.port]
        returns = self.trains and edge.returns
        key = (
            source.splits,
            edge.port,
            target.splits,
            edge.slot,
            type_,
            returns,
            edge.alike,
            before,
            after,
        )
        found = self._edges.get(key)
        if found is None:
            size = tensor_bytes(type_)
            costs = redistribution(
                made(source, before, edge.port), read(target, after, edge.slot), size, self.prices
            )
            if returns:
                back = redistribution(
                    gradient_made(target, after, edge.slot),
                    gradient_read(source, before, edge.port),
                    size,
                    self.prices,
                )
                costs = costs + back.T
            found = self._edges[key] = self.tables.table(costs / edge.alike)
        return found

    def _own(self, number: int, choices: tuple[Choice, ...], weighing: Weighing) -> Costs:
        work, shared, memory = self._own_parts(number, choices)
        return work + weighing.exposed * shared + weighing.memory * memory

    def _own_parts(self, number: int, choices: tuple[Choice, ...]) -> tuple[Costs, Costs, Costs]:
        """Work, synchronisation of weights (and of outputs that are partial sums), memory; [choices] each."""
        operation = self.subject.operations[number]
        is_last = any(value.node == operation.node for value in self.subject.graph.outputs)
        key = (
            operation.operator,
            operation.inputs,
            operation.outputs,
            operation.splits,
            operation.weights,
            operation.passes,
            is_last,
            choices,
        )
        found = self._parts.get(key)
        if found is not None:
            return found
        work = np.array([self._work(operation, degrees_of(operation, c, self.mesh)) for c in choices])
        shared = np.zeros(len(choices))
        memory = np.zeros(len(choices))
        for slot in operation.weights:
            type_ = operation.inputs[slot]
            size = tensor_bytes(type_)
            if self.trains and type_.element.is_float:
                shared += synchronisation(operation, choices, slot, size, self.prices)
            memory += self.weight_copies * size * part(read(operation, choices, slot), self.mesh.sizes)
        for port, type_ in enumerate(operation.outputs):
            states = made(operation, choices, port)
            size = tensor_bytes(type_)
            if self.trains:
                memory += size * part(states, self.mesh.sizes)
            if is_last:
                wanted = np.where(states == -3, -1, states)
                work = work + np.array(
                    [
                        redistribution(states[i : i + 1], wanted[i : i + 1], size, self.prices)[0, 0]
                        for i in range(len(choices))
                    ]
                )
        found = self._parts[key] = (work, shared, memory)
        return found

    def _work(self, operation: Operation, degrees: tuple[int, ...]) -> float:
        key = (
            operation.operator,
            operation.inputs,
            operation.outputs,
            operation.weights,
            operation.passes,
            degrees,
        )
        found = self._works.get(key)
        if found is None:
            found = self._works[key] = self.compute(operation, degrees, self.mesh.devices)
        return found


def tensor_bytes(type_: TensorType) -> int:
    """The bytes of a tensor of known size."""
    elements = type_.elements
    assert isinstance(elements, int), "sizes are known when a plan is made"
    return elements * type_.element.bytes_per_element


def task_types(
    operation: Operation, degrees: tuple[int, ...]
) -> tuple[tuple[TensorType, ...], tuple[TensorType, ...]]:
    """The types that one task reads and makes."""
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


def tasks(degrees: tuple[int, ...]) -> int:
    """How many tasks there are."""
    return math.prod(degrees)
