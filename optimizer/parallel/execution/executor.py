"""Execute a plan: operators run task by task; tensors move as their placements require."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic

import numpy as np

from superopt.domains import Array
from superopt.ir.graph import Graph, Input, Node, Value
from superopt.ir.plan import Plan
from superopt.onnx_io.emit.folding import Folder
from superopt.optimizer.parallel.boxes import Region
from superopt.optimizer.parallel.communication import communication, summed
from superopt.optimizer.parallel.execution.exchange import Exchange, Held
from superopt.optimizer.parallel.execution.machine import A, Machine
from superopt.optimizer.parallel.placement import Placement, regions_of
from superopt.optimizer.parallel.tasks import divided, shape_of, tensor_of


@dataclass(frozen=True)
class Execution:
    """Result of an execution: the outputs of the graph, and the bytes sent by (source device, target
    device)."""

    outputs: tuple[Array, ...]
    sent: Mapping[tuple[int, int], int]

    @property
    def moved_bytes(self) -> int:
        """Total bytes sent by all devices."""
        return sum(self.sent.values())


def execute(
    graph: Graph,
    plan: Plan,
    weights: Mapping[str, Array],
    inputs: Mapping[str, Array],
    machine: Machine[A],
) -> Execution:
    """Runs the graph under the plan, with inputs and weights by label. Values that depend only on weights are
    computed beforehand; other operators without a machine mapping run whole on device 0. A tensor is moved to
    a placement once, however many operators need it there. Raises UnsupportedError for symbolic dimensions
    and for values that are not tensors, InvalidOptionError where the plan does not divide a shape evenly."""
    running = _Running(graph, plan, weights, inputs, machine)
    for node in graph.order:
        running.run(graph[node])
    return Execution(tuple(running.output(value) for value in graph.outputs), dict(running.exchange.sent))


class _Running(Generic[A]):
    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        weights: Mapping[str, Array],
        inputs: Mapping[str, Array],
        machine: Machine[A],
    ) -> None:
        self._graph = graph
        self._plan = plan
        self._inputs = inputs
        self._folder = Folder(graph, weights.__getitem__)
        self._machine = machine
        self._held: dict[Value, Held[A]] = {}
        self._brought: dict[tuple[Value, Placement], Held[A]] = {}
        self.exchange = Exchange(machine)

    def run(self, node: Node) -> None:
        """Runs all tasks of an operator."""
        if self._is_given(node):
            return
        tasks = divided(self._graph, self._plan, node)
        operands = [self._bring(value, want) for value, want in zip(node.inputs, tasks.needs, strict=True)]
        made: list[dict[int, A]] = [{} for _ in node.values]
        for device in tasks.how.devices:
            shards = [operand.shards[device] for operand in operands]
            for port, shard in enumerate(self._machine.run(tasks.task(device), shards, device)):
                made[port][device] = shard
        for value, place, type_, shards in zip(
            node.values, tasks.makes, tasks.output_types, made, strict=True
        ):
            self._held[value] = Held(place, shape_of(type_), shards)

    def output(self, value: Value) -> Array:
        """A whole value on the host, with partial sums reduced on the devices."""
        if self._is_given(self._graph[value.node]):
            return self._given(value)
        held = self._held[value]
        if held.placement.partial > 1:
            held = self._bring(value, summed(held.placement))
        distinct = {box: device for device, box in regions_of(held.placement, held.shape).items()}
        first = min(distinct.values())
        pieces = [(box, self._machine.move(held.shards[device], first)) for box, device in distinct.items()]
        if len(pieces) == 1:
            return self._machine.get(pieces[0][1])
        return self._machine.get(self._machine.joined(pieces, held.shape))

    def _is_given(self, node: Node) -> bool:
        return isinstance(node.operator, Input) or node.id in self._graph.weight_only

    def _given(self, value: Value) -> Array:
        operator = self._graph[value.node].operator
        return self._inputs[operator.label] if isinstance(operator, Input) else self._folder.value(value)

    def _bring(self, value: Value, want: Placement) -> Held[A]:
        key = (value, want)
        if key not in self._brought:
            self._brought[key] = self._delivered(value, want)
        return self._brought[key]

    def _delivered(self, value: Value, want: Placement) -> Held[A]:
        type_ = tensor_of(self._graph, value)
        shape = shape_of(type_)
        if self._is_given(self._graph[value.node]):
            array = self._given(value)
            first = want.of_terms((0,)).devices
            boxes = {device: box_of(array, region) for device, region in regions_of(want, shape).items()}
            return Held(
                want,
                shape,
                {
                    device: self._machine.put(box if device in first else np.zeros_like(box), device)
                    for device, box in boxes.items()
                },
            )
        held = self._held[value]
        steps = communication(held.placement, want, shape, type_.element.bytes_per_element)
        return self.exchange.moved(held, want, steps)


def box_of(array: Array, region: Region) -> Array:
    """A box of an array."""
    return array[tuple(slice(start, stop) for start, stop in region)]
