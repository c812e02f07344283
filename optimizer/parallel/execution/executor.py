"""Executing a plan: operators task by task, tensors moved by the steps that their placements ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic

from optimizer.parallel.communication import Region, communication, summed
from optimizer.parallel.execution.exchange import Exchange, Held, regions
from optimizer.parallel.execution.machine import A, Machine, Task
from optimizer.parallel.placement import Placement, needed, produced
from optimizer.parallel.tasks import splits_of
from superopt.domains import Array
from superopt.errors import InvalidOptionError, UnsupportedError
from superopt.ir.graph import Graph, Input, Node, Value, Weight
from superopt.ir.plan import Parallelism, Plan
from superopt.ir.types import TensorType
from superopt.ops import Operator


@dataclass(frozen=True)
class Execution:
    """What came out: the outputs of the graph, and the bytes sent by (source device, target device)."""

    outputs: tuple[Array, ...]
    sent: Mapping[tuple[int, int], int]

    @property
    def moved_bytes(self) -> int:
        """Bytes that all devices together sent."""
        return sum(self.sent.values())


def execute(
    graph: Graph,
    plan: Plan,
    weights: Mapping[str, Array],
    inputs: Mapping[str, Array],
    machine: Machine[A],
) -> Execution:
    """Runs the graph under the plan, inputs and weights by their labels.

    Operators without a machine mapping run whole on device 0. A tensor is brought into a placement once,
    however many operators need it there. Raises UnsupportedError for dimensions that are not numbers and for
    values that are no tensors, InvalidOptionError where a shape is not divisible as the plan says.
    """
    running = _Running(graph, plan, {**weights, **inputs}, machine)
    for node in graph.order:
        running.run(graph[node])
    return Execution(tuple(running.output(value) for value in graph.outputs), dict(running.exchange.sent))


class _Running(Generic[A]):
    def __init__(self, graph: Graph, plan: Plan, given: Mapping[str, Array], machine: Machine[A]) -> None:
        self._graph = graph
        self._plan = plan
        self._given = given
        self._machine = machine
        self._held: dict[Value, Held[A]] = {}
        self._brought: dict[tuple[Value, Placement], Held[A]] = {}
        self.exchange = Exchange(machine)

    def run(self, node: Node) -> None:
        """Runs all tasks of an operator."""
        if isinstance(node.operator, Input | Weight):
            return
        splits = splits_of(self._graph, node)
        how = self._plan.parallel.get(node.id) or Parallelism((1,) * len(splits.dimensions), (0,))
        if not splits.admits(how.degrees):
            sizes = ", ".join(f"{d.size} ({d.kind})" for d in splits.dimensions)
            raise InvalidOptionError(
                f"plan, {node.operator.name} (node {node.id}): the degrees {how.degrees} do not divide "
                f"{sizes or 'an operator that cannot be divided'}"
            )
        operands = [self._bring(value, needed(splits, how, slot)) for slot, value in enumerate(node.inputs)]
        places = [produced(splits, how, port) for port in range(len(node.types))]
        shapes = [_shape(_tensor(type_, node)) for type_ in node.types]
        boxes = [regions(place, shape) for place, shape in zip(places, shapes, strict=True)]
        made: list[dict[int, A]] = [{} for _ in places]
        for device in how.devices:
            outputs = tuple(
                _part(_tensor(type_, node), box[device]) for type_, box in zip(node.types, boxes, strict=True)
            )
            task = Task(
                node.operator.task(outputs) if isinstance(node.operator, Operator) else node.operator,
                tuple(
                    _part(_tensor(self._graph.type_of(value), node), operand.region(device))
                    for value, operand in zip(node.inputs, operands, strict=True)
                ),
                outputs,
            )
            shards = [operand.shards[device] for operand in operands]
            for port, shard in enumerate(self._machine.run(task, shards, device)):
                made[port][device] = shard
        for value, place, shape, shards in zip(node.values, places, shapes, made, strict=True):
            self._held[value] = Held(place, shape, shards)

    def output(self, value: Value) -> Array:
        """A value as a whole on the host, partial sums added up on the devices."""
        operator = self._graph[value.node].operator
        if isinstance(operator, Input | Weight):
            return self._given[operator.label]
        held = self._held[value]
        if held.placement.partial > 1:
            held = self._bring(value, summed(held.placement))
        distinct = {box: device for device, box in regions(held.placement, held.shape).items()}
        first = min(distinct.values())
        pieces = [(box, self._machine.move(held.shards[device], first)) for box, device in distinct.items()]
        if len(pieces) == 1:
            return self._machine.get(pieces[0][1])
        return self._machine.get(self._machine.joined(pieces, held.shape))

    def _bring(self, value: Value, want: Placement) -> Held[A]:
        key = (value, want)
        if key not in self._brought:
            self._brought[key] = self._delivered(value, want)
        return self._brought[key]

    def _delivered(self, value: Value, want: Placement) -> Held[A]:
        node = self._graph[value.node]
        type_ = _tensor(self._graph.type_of(value), node)
        shape = _shape(type_)
        if isinstance(node.operator, Input | Weight):
            array = self._given[node.operator.label]
            return Held(
                want,
                shape,
                {
                    device: self._machine.put(array[_slices(box)], device)
                    for device, box in regions(want, shape).items()
                },
            )
        held = self._held[value]
        steps = communication(held.placement, want, shape, type_.element.bytes_per_element)
        return self.exchange.moved(held, want, steps)


def _tensor(type_: object, node: Node) -> TensorType:
    if not isinstance(type_, TensorType):
        raise UnsupportedError(f"{node.operator.name} (node {node.id}): {type_} is no tensor of known rank")
    return type_


def _shape(type_: TensorType) -> tuple[int, ...]:
    sizes = [size for size in type_.shape if isinstance(size, int)]
    if len(sizes) != type_.rank:
        raise UnsupportedError(f"a plan is executed at given sizes only, got {type_}")
    return tuple(sizes)


def _part(type_: TensorType, region: Region) -> TensorType:
    return type_.with_shape(tuple(stop - start for start, stop in region))


def _slices(region: Region) -> tuple[slice[int, int, None], ...]:
    return tuple(slice(start, stop) for start, stop in region)
