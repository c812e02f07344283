"""Execute a plan: operators run task by task; tensors move as their placements require.

Arrays are freed after their last reader, and counted while they are held. The rules are those of
``simulator.liveness``, which predicts the count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from superopt.domains import Array
from superopt.ir.graph import Graph, Input, NodeId, Value
from superopt.ir.plan import Plan
from superopt.onnx_io.emit.folding import Folder
from superopt.optimizer.parallel.boxes import Region
from superopt.optimizer.parallel.communication import CollectiveStep, summed
from superopt.optimizer.parallel.execution.exchange import Exchange, Held, gathered
from superopt.optimizer.parallel.execution.machine import A, Machine
from superopt.optimizer.parallel.execution.memory import DeviceMemory
from superopt.optimizer.parallel.execution.planned_work import PlannedWork, is_given
from superopt.optimizer.parallel.fetches import START, issued_fetches, resident
from superopt.optimizer.parallel.placement import Placement, regions_of
from superopt.optimizer.parallel.residence import Kept, kept_regions, residences
from superopt.optimizer.parallel.tasks import Task, shape_of, tensor_of
from superopt.optimizer.parallel.training_plans.states import StepStates

Key = tuple[Value, Placement, int]
"""A tensor in a placement, and the number of the fetch that brings it there, NOT_FETCHED for others."""

NOT_FETCHED = -1


@dataclass(frozen=True)
class Execution:
    """Result of an execution: the outputs of the graph, the bytes sent by (source device, target device), the
    peak bytes of each device, and the number of collectives that reduce."""

    outputs: tuple[Array, ...]
    sent: Mapping[tuple[int, int], int]
    peaks: Mapping[int, int]
    reductions: int

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
    *,
    step: StepStates | None = None,
    order: Sequence[NodeId] | None = None,
) -> Execution:
    """Runs the graph under the plan, with inputs and weights by label. Values that depend only on weights are
    computed beforehand; other operators without a machine mapping run whole on device 0. A tensor is moved to
    a placement once, as soon as it is computed, however many operators need it there; the next value of a
    state of ``step`` to where the state is resident, by default where it is read. A fusion group of the plan
    runs as one kernel in the place of its head, and a bucket is one collective. Operators run in the
    ``order``, by default the plan's, or the graph's where it has none; a plan with groups or buckets and no
    order of its own needs that of its simulation (``Simulation.order``). Raises UnsupportedError for symbolic
    dimensions and for values that are not tensors, InvalidOptionError where the plan does not divide a shape
    evenly."""
    return Executor(graph, plan, weights, machine, step=step, order=order).run(inputs)


class Executor(Generic[A]):
    """Runs a graph under a plan any number of times, as ``execute`` does once."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        weights: Mapping[str, Array],
        machine: Machine[A],
        *,
        step: StepStates | None = None,
        order: Sequence[NodeId] | None = None,
    ) -> None:
        self._weights = weights
        self._machine = machine
        self._step = step
        self._work = PlannedWork(graph, plan, order or plan.order or graph.order)

    def run(self, inputs: Mapping[str, Array]) -> Execution:
        """One execution with these inputs, by label."""
        work = self._work
        running = _Running(work, self._weights, inputs, self._machine, self._step)
        running.fetch(START)
        for position, node in enumerate(work.order):
            if work.kernels.is_head(node):
                running.run(node, position)
        outputs = tuple(running.output(value) for value in work.graph.outputs)
        exchange = running.exchange
        return Execution(outputs, dict(exchange.sent), running.memory.peaks, exchange.reductions)


class _Running(Generic[A]):
    def __init__(
        self,
        work: PlannedWork,
        weights: Mapping[str, Array],
        inputs: Mapping[str, Array],
        machine: Machine[A],
        step: StepStates | None,
    ) -> None:
        graph, plan = work.graph, work.plan
        self._graph = graph
        self._work = work
        self._inputs = inputs
        self._folder = Folder(graph, weights.__getitem__)
        self._machine = machine
        self.exchange = Exchange(machine)
        self.memory = DeviceMemory(machine)
        self.tasks, self.kernels = work.tasks, work.kernels
        self._buckets = {value: bucket for bucket in plan.buckets for value in bucket}
        self._missing: dict[tuple[Value, ...], int] = defaultdict(lambda: 1)
        self._missing.update((bucket, len(bucket)) for bucket in plan.buckets)
        self._held: dict[Key, Held[A]] = {}
        self._reads: Counter[Key] = Counter()
        self._wanted: dict[Value, dict[Placement, None]] = defaultdict(dict)
        self._finals: dict[Value, tuple[Placement, ...]] = {}
        self._resident = resident(graph, plan)
        self._fetches = issued_fetches(graph, plan, work.order)
        self._issued: dict[int, list[int]] = defaultdict(list)
        for number, fetch in enumerate(self._fetches):
            self._issued[fetch.position].append(number)
        self._fetch_of = {
            (fetch.input, reader): number
            for number, fetch in enumerate(self._fetches)
            for reader in fetch.readers
        }
        self._fetched: list[dict[Placement, None]] = [{} for _ in self._fetches]
        self._expect(step)
        self._kept = {
            value: self._loaded(value)
            for value in self._wanted
            if is_given(graph, graph[value.node]) and value.node not in self._resident
        }
        self._load_residents()

    def run(self, head: NodeId, position: int) -> None:
        """Runs all tasks of the kernel at that position, moves its results, issues fetches, and frees what
        nothing reads any more."""
        kernel, tasks = self._work.kernel(head), self.tasks[head]
        made: dict[Value, dict[int, A]] = {value: {} for value in kernel.writes}
        operands = [self._read(node, slot) for node, slot in kernel.reads]
        for device in tasks.how.devices:
            shards = [self._operand(key, regions[device], device) for key, regions in operands]
            results = self._results(head, shards, device)
            for value, shard in zip(kernel.writes, results, strict=True):
                made[value][device] = shard
        for value, shards in made.items():
            type_ = self.tasks[value.node].output_types[value.port]
            self._keep(self._own(value), Held(self._made(value), shape_of(type_), shards))
        delivered = [term for value in kernel.writes for term in self._delivered(value)]
        self.fetch(position)
        self.memory.note()
        for value in delivered:
            self._release(self._own(value))
        for key, _ in operands:
            self._reads[key] -= 1
            self._release(key)

    def fetch(self, position: int) -> None:
        """Brings inputs to their readers by the fetches that are issued at a position."""
        for number in self._issued.get(position, ()):
            node = self._fetches[number].input
            value, place = Value(node, 0), self._resident[node]
            for want in self._fetched[number]:
                self._keep((value, want, number), self._moved(value, place, want))

    def _read(self, node: NodeId, slot: int) -> tuple[Key, Mapping[int, Region]]:
        """The tensor that an operator reads, and its region on each device."""
        tasks = self.tasks[node]
        return (
            self._key(node, self._graph[node].inputs[slot], tasks.needs[slot]),
            tasks.input_regions[slot],
        )

    def _results(self, head: NodeId, shards: Sequence[A], device: int) -> Sequence[A]:
        task = self._work.task(head, device)
        if isinstance(task, Task):
            return self._machine.run(task, shards, device)
        return self._machine.run_kernel(task, shards, device)

    def _made(self, value: Value) -> Placement:
        return self.tasks[value.node].makes[value.port]

    def _own(self, value: Value) -> Key:
        """A result as it is computed."""
        return value, self._made(value), NOT_FETCHED

    def _delivered(self, value: Value) -> tuple[Value, ...]:
        """Moves a result to every placement in which it is read; the sums of a bucket when all are there.
        Returns the values that were moved."""
        bucket = self._buckets.get(value, (value,))
        self._missing[bucket] -= 1
        if self._missing[bucket]:
            return ()
        if value in self._buckets:
            self._reduce(bucket)
        for term in bucket:
            for want in self._wanted[term]:
                if want != self._made(term) and (term, want, NOT_FETCHED) not in self._held:
                    moved = self._moved(term, self._made(term), want)
                    self._keep((term, want, NOT_FETCHED), moved)
        return bucket

    def _reduce(self, bucket: Sequence[Value]) -> None:
        """Reduces the sums of a bucket by one collective."""
        terms = [self._held[self._own(term)] for term in bucket]
        wants = [
            next(want for want in self._wanted[term] if self._steps(term, self._made(term), want))
            for term in bucket
        ]
        for term, want, held in zip(bucket, wants, self.exchange.reduced(terms, wants), strict=True):
            self._keep((term, want, NOT_FETCHED), held)
            self._reads[self._own(term)] -= 1

    def output(self, value: Value) -> Array:
        """A whole value on the host."""
        if is_given(self._graph, self._graph[value.node]):
            return self._given(value)
        held = self._held[value, self._finals[value][0], NOT_FETCHED]
        return gathered(held.placement, held.shape, lambda device: self._machine.get(held.shards[device]))

    def _expect(self, step: StepStates | None) -> None:
        """Notes in which placements every tensor is read, how often, and where outputs end."""
        for node in self.tasks:
            for value, want in zip(self._graph[node].inputs, self.tasks[node].needs, strict=True):
                key = self._key(node, value, want)
                self._reads[key] += self.kernels.times_read(value.node, node)
                if key[2] == NOT_FETCHED:
                    self._wanted[value][want] = None
                else:
                    self._fetched[key[2]][want] = None
        self._reads.update(self._own(value) for value in self._buckets)
        for value in dict.fromkeys(self._graph.outputs):
            if value.node not in self.tasks:
                continue
            made = self.tasks[value.node].makes[value.port]
            states = () if step is None else step.by_next.get(value, ())
            read = [place for state in states for place in self._places_of(state.input)]
            shape = shape_of(tensor_of(self._graph, value))
            terms = made if all(state.role.is_sum for state in states) else None
            self._finals[value] = residences(read, shape, terms) if read else (summed(made),)
            for place in self._finals[value]:
                self._reads[value, place, NOT_FETCHED] += 1
                self._wanted[value][place] = None

    def _places_of(self, state: NodeId) -> Iterable[Placement]:
        """The placements between which the residence of a state is chosen."""
        if state in self._resident:
            return (self._resident[state],)
        return self._wanted.get(Value(state, 0), ())

    def _key(self, reader: NodeId, value: Value, want: Placement) -> Key:
        """The tensor that an operator reads in a placement."""
        place = self._resident.get(value.node)
        is_fetched = place is not None and place != want
        return value, want, self._fetch_of[value.node, reader] if is_fetched else NOT_FETCHED

    def _given(self, value: Value) -> Array:
        operator = self._graph[value.node].operator
        return self._inputs[operator.label] if isinstance(operator, Input) else self._folder.value(value)

    def _loaded(self, value: Value) -> Mapping[tuple[int, Kept], A]:
        """The regions of an input or weight on each device."""
        array = self._given(value)
        kept = kept_regions(self._wanted[value], shape_of(tensor_of(self._graph, value)))
        found: dict[tuple[int, Kept], A] = {}
        for device, regions in kept.items():
            for region, is_zero in regions:
                box = box_of(array, region)
                shard = self._machine.put(np.zeros_like(box) if is_zero else box, device)
                found[device, (region, is_zero)] = shard
                self.memory.add(device, shard)
        return found

    def _load_residents(self) -> None:
        for node, place in self._resident.items():
            value = Value(node, 0)
            array = self._given(value)
            shards = {
                device: self._machine.put(box_of(array, region), device)
                for device, region in regions_of(place, array.shape).items()
            }
            self._reads[value, place, NOT_FETCHED] += 1
            self._keep((value, place, NOT_FETCHED), Held(place, array.shape, shards))

    def _operand(self, key: Key, region: Region, device: int) -> A:
        value, want, _ = key
        kept = self._kept.get(value)
        if kept is None:
            return self._held[key].shards[device]
        return kept[device, (region, device not in want.of_terms((0,)).devices)]

    def _moved(self, value: Value, have: Placement, want: Placement) -> Held[A]:
        return self.exchange.moved(self._held[value, have, NOT_FETCHED], want, self._steps(value, have, want))

    def _steps(self, value: Value, have: Placement, want: Placement) -> tuple[CollectiveStep, ...]:
        return self._work.steps(value, have, want)

    def _keep(self, key: Key, held: Held[A]) -> None:
        self._held[key] = held
        for device, shard in held.shards.items():
            self.memory.add(device, shard)

    def _release(self, key: Key) -> None:
        if self._reads[key] == 0 and key in self._held:
            for device, shard in self._held.pop(key).shards.items():
                self.memory.drop(device, shard)


def box_of(array: Array, region: Region) -> Array:
    """A box of an array."""
    return array[tuple(slice(start, stop) for start, stop in region)]
