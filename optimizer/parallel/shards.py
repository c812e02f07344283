"""Compile a plan into per-device programs: ONNX models for each device, and the transfers between them.

ONNX has no communication operators, so a device's part of a graph is cut wherever a tensor has to move: a
segment is what one device computes between two transfers. Segments and transfers are listed in an order that
is valid for sequential execution; segments of different devices may run concurrently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from superopt.ir.graph import Graph, GraphEditor, Input, Node, Value, Weight
from superopt.ir.plan import Plan
from superopt.ir.types import TensorType
from superopt.optimizer.parallel.boxes import Region
from superopt.optimizer.parallel.communication import CollectiveStep, communication, summed
from superopt.optimizer.parallel.fetches import START, IssuedFetch, issued_fetches, resident
from superopt.optimizer.parallel.placement import Placement, regions_of
from superopt.optimizer.parallel.residence import residences
from superopt.optimizer.parallel.tasks import divided, part_type, shape_of, tensor_of
from superopt.optimizer.parallel.training_plans.states import StepStates


@dataclass(frozen=True, slots=True)
class Feed:
    """An input of a segment: a part of an input of the model, or a tensor in a placement."""

    label: str
    value: Value
    region: Region
    placement: Placement | None


@dataclass(frozen=True, eq=False)
class Segment:
    """What a device computes without waiting for others; ``graph`` has its feeds as inputs. ``weights`` are
    parts of weights and of values that depend only on weights: the value and the box, by label; those in
    ``zeros`` are terms of a sum whose first term, on another device, is the whole. ``made`` are the values of
    which its outputs are parts (or terms), in order."""

    device: int
    graph: Graph
    feeds: tuple[Feed, ...]
    weights: Mapping[str, tuple[Value, Region]]
    zeros: frozenset[str]
    made: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Delivery:
    """Moves a tensor from one placement to another by the given steps; no steps if that is local."""

    value: Value
    type: TensorType
    have: Placement
    want: Placement
    steps: tuple[CollectiveStep, ...]


@dataclass(frozen=True, slots=True)
class Output:
    """An output of the graph: its final placement, None for an input that is returned unchanged."""

    value: Value
    shape: tuple[int, ...]
    placement: Placement | None


@dataclass(frozen=True, eq=False)
class Program:
    """Segments and deliveries in order, and the final placements of the graph's outputs."""

    entries: tuple[Segment | Delivery, ...]
    outputs: tuple[Output, ...]


def programmed(graph: Graph, plan: Plan, step: StepStates | None = None) -> Program:
    """The programs of all devices. The next value of a state of ``step`` ends where the state is resident, by
    default where it is read. Raises UnsupportedError and InvalidOptionError as ``execute`` does."""
    order = [
        node
        for node in graph.order
        if not isinstance(graph[node].operator, Input) and node not in graph.weight_only
    ]
    building = _Building(graph, plan, step)
    fetches: dict[int, list[IssuedFetch]] = defaultdict(list)
    for fetch in issued_fetches(graph, plan, order):
        fetches[fetch.position].append(fetch)
    building.fetch(fetches[START])
    for position, node in enumerate(order):
        building.add(graph[node])
        building.fetch(fetches[position])
    return building.program()


_Key = tuple[Value, Placement | None, Region, bool]


@dataclass(eq=False)
class _Open:
    """A segment under construction."""

    device: int
    editor: GraphEditor = field(default_factory=lambda: Graph.empty().edit())
    feeds: list[Feed] = field(default_factory=list[Feed])
    weights: dict[str, tuple[Value, Region]] = field(default_factory=dict[str, "tuple[Value, Region]"])
    zeros: set[str] = field(default_factory=set[str])
    values: dict[_Key, Value] = field(default_factory=dict["_Key", Value])
    made: dict[Value, Value] = field(default_factory=dict[Value, Value])
    read: dict[Value, None] = field(default_factory=dict[Value, None])

    def closed(self) -> Segment:
        self.editor.set_outputs(self.made[value] for value in self.read)
        return Segment(
            self.device,
            self.editor.build(),
            tuple(self.feeds),
            self.weights,
            frozenset(self.zeros),
            tuple(self.read),
        )


class _Building:
    def __init__(self, graph: Graph, plan: Plan, step: StepStates | None) -> None:
        self._graph = graph
        self._step = step
        self._read: dict[Value, dict[Placement, None]] = defaultdict(dict)
        self._plan = plan
        self._entries: list[_Open | Delivery] = []
        self._open: dict[int, _Open] = {}
        self._made: dict[tuple[Value, int], _Open] = {}
        self._places: dict[Value, Placement] = {}
        self._delivered: set[tuple[Value, Placement]] = set()
        self._resident = resident(graph, plan)

    def add(self, node: Node) -> None:
        """Adds all tasks of an operator."""
        tasks = divided(self._graph, self._plan, node)
        for value, want in zip(node.inputs, tasks.needs, strict=True):
            self._read[value][want] = None
            self._deliver(value, want)
        self._places.update(zip(node.values, tasks.makes, strict=True))
        for device in tasks.how.devices:
            segment = self._segment(device)
            operands = [
                self._operand(segment, value, want, regions[device])
                for value, want, regions in zip(node.inputs, tasks.needs, tasks.input_regions, strict=True)
            ]
            task = tasks.task(device)
            added = segment.editor.add(task.operator, operands, types=task.outputs)
            for value, own in zip(node.values, added.values, strict=True):
                segment.made[value] = own
                self._made[value, device] = segment

    def fetch(self, fetches: Sequence[IssuedFetch]) -> None:
        """Brings inputs that are kept in parts to where their readers read them."""
        for fetch in fetches:
            have = self._resident[fetch.input]
            wanted = dict.fromkeys(
                (value, want)
                for reader in fetch.readers
                for value, want in zip(
                    self._graph[reader].inputs,
                    divided(self._graph, self._plan, self._graph[reader]).needs,
                    strict=True,
                )
                if value.node == fetch.input
            )
            for value, want in wanted:
                self._move(value, have, want)

    def program(self) -> Program:
        """The complete program, after all operators are added."""
        outputs: list[Output] = []
        for value in self._graph.outputs:
            shape = shape_of(tensor_of(self._graph, value))
            made = self._places.get(value)
            if made is None:
                outputs.append(Output(value, shape, None))
                continue
            ends = self._ends(value, made, shape)
            outputs.append(Output(value, shape, ends[0]))
            for place in ends:
                self._deliver(value, place)
            for device in made.devices:
                self._made[value, device].read[value] = None
        return Program(
            tuple(
                entry.closed() if isinstance(entry, _Open) else entry
                for entry in self._entries
                if isinstance(entry, Delivery) or entry.read
            ),
            tuple(outputs),
        )

    def _ends(self, value: Value, made: Placement, shape: tuple[int, ...]) -> tuple[Placement, ...]:
        """The placements in which an output ends."""
        states = () if self._step is None else self._step.by_next.get(value, ())
        read = [
            place
            for state in states
            for place in (
                [self._resident[state.input]]
                if state.input in self._resident
                else self._read.get(Value(state.input, 0), ())
            )
        ]
        terms = made if all(state.role.is_sum for state in states) else None
        return residences(read, shape, terms) if read else (summed(made),)

    def _segment(self, device: int) -> _Open:
        if device not in self._open:
            self._open[device] = _Open(device)
            self._entries.append(self._open[device])
        return self._open[device]

    def _deliver(self, value: Value, want: Placement) -> None:
        """Moves a value into a placement, unless every device already computed its part."""
        have = self._places.get(value)
        if have is None or (value, want) in self._delivered or not self._move(value, have, want):
            return
        for device in have.devices:
            self._made[value, device].read[value] = None

    def _move(self, value: Value, have: Placement, want: Placement) -> bool:
        """Adds a delivery, unless every device has its part; tells whether it did."""
        if have == want:
            return False
        type_ = tensor_of(self._graph, value)
        shape = shape_of(type_)
        steps = communication(have, want, shape, type_.element.bytes_per_element)
        if not steps and have.partial == want.partial == 1:
            mine = regions_of(have, shape)
            if all(mine[device] == region for device, region in regions_of(want, shape).items()):
                return False
        self._delivered.add((value, want))
        for device in {*have.devices, *want.devices}:
            self._open.pop(device, None)
        self._entries.append(Delivery(value, type_, have, want, steps))
        return True

    def _operand(self, segment: _Open, value: Value, want: Placement, region: Region) -> Value:
        """The part of a value that a task reads, in its segment."""
        operator = self._graph[value.node].operator
        local = value in self._places and (value, want) not in self._delivered
        is_moved = value in self._places or (value, want) in self._delivered
        place = self._places[value] if local else want if is_moved else None
        if local and value in segment.made:
            return segment.made[value]
        is_zero = place is None and segment.device not in want.of_terms((0,)).devices
        key = (value, place, region, is_zero)
        if key in segment.values:
            return segment.values[key]
        type_ = part_type(tensor_of(self._graph, value), region)
        label = f"{operator.name}_{value.node}_{value.port}_{len(segment.values)}"
        if is_zero:
            segment.zeros.add(label)
        if is_zero or value.node in self._graph.weight_only:
            segment.weights[label] = (value, region)
            own = segment.editor.add(Weight(label, type_)).value
        else:
            if local:
                self._made[value, segment.device].read[value] = None
            segment.feeds.append(Feed(label, value, region, place))
            own = segment.editor.add(Input(label, type_)).value
        segment.values[key] = own
        return own
