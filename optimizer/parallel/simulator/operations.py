"""Operations of a graph by the longest path, and the tensors that connect them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from superopt.ir.graph import Graph, GraphOperator, Input, Node, NodeId, Value
from superopt.ir.types import ElementType, TensorType, ValueType
from superopt.ops.sharded.splits import Splits
from superopt.ops.traits import ALIASES
from superopt.optimizer.cost.sizes import Sizes
from superopt.optimizer.parallel.task_costs import Types, roofline_microseconds
from superopt.optimizer.parallel.tasks import splits_of
from superopt.optimizer.parallel.topology import DeviceKind
from superopt.optimizer.parallel.training_plans.states import StepStates


@dataclass(frozen=True, slots=True)
class Operation:
    """A node that is executed. ``sources`` gives for every input the number of its producer and the port;
    None for weights and graph inputs, which are available wherever needed."""

    node: NodeId
    operator: GraphOperator
    inputs: Types
    outputs: Types
    splits: Splits
    weights: tuple[int, ...]
    sources: tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """A reader of an output: the port, the reader's number and its slot."""

    port: int
    reader: int
    slot: int


@dataclass(frozen=True, slots=True)
class WeightUses:
    """A constant tensor, and its readers: numbers and slots, in order."""

    type: TensorType
    users: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class StateUses:
    """A state that is computed: the input with its present value, its readers, as of a weight, the number and
    port of its next value, and whether devices may hold terms of it."""

    input: NodeId
    type: TensorType
    users: tuple[tuple[int, int], ...]
    made: tuple[int, int]
    is_sum: bool


class Operations:
    """The simulated operations of a graph. Operations that depend only on weights are computed beforehand.
    They are numbered in the order in which they could start on an unlimited machine: by the longest path of
    single-device costs from the inputs, so that branches alternate. Those of a model that is no training
    step, and those of a pipeline's stage, are issued in this order."""

    def __init__(
        self, graph: Graph, sizes: Mapping[str, int], kind: DeviceKind, step: StepStates | None = None
    ) -> None:
        self.graph = graph
        self.step = step
        self._sizes = Sizes(graph, sizes)
        self._kind = kind
        order = self._by_longest_path()
        self.numbers: dict[NodeId, int] = {node: number for number, node in enumerate(order)}
        self.all: tuple[Operation, ...] = self._operations(order)

    @cached_property
    def uses(self) -> tuple[tuple[Use, ...], ...]:
        """The readers of each operation's outputs, by number."""
        found: list[list[Use]] = [[] for _ in self.all]
        for number, operation in enumerate(self.all):
            for slot, source in enumerate(operation.sources):
                if source is not None:
                    found[source[0]].append(Use(source[1], number, slot))
        return tuple(map(tuple, found))

    @cached_property
    def outputs(self) -> tuple[tuple[int, ...], ...]:
        """The ports of each operation that are graph outputs."""
        found: list[list[int]] = [[] for _ in self.all]
        for node, port in dict.fromkeys(self.graph.outputs):
            if node in self.numbers:
                found[self.numbers[node]].append(port)
        return tuple(map(tuple, found))

    @cached_property
    def weights(self) -> tuple[WeightUses, ...]:
        """The weights that operations read."""
        users: dict[Value, list[tuple[int, int]]] = defaultdict(list)
        for number, operation in enumerate(self.all):
            for slot in operation.weights:
                users[self.graph[operation.node].inputs[slot]].append((number, slot))
        return tuple(
            WeightUses(self.all[found[0][0]].inputs[found[0][1]], tuple(found)) for found in users.values()
        )

    @cached_property
    def inputs(self) -> Mapping[NodeId, WeightUses]:
        """The graph inputs that operations read."""
        users: dict[NodeId, list[tuple[int, int]]] = defaultdict(list)
        for number, operation in enumerate(self.all):
            for slot, source in enumerate(operation.sources):
                if source is None and slot not in operation.weights:
                    users[self.graph[operation.node].inputs[slot].node].append((number, slot))
        return {
            node: WeightUses(self.all[found[0][0]].inputs[found[0][1]], tuple(found))
            for node, found in users.items()
        }

    @cached_property
    def states(self) -> tuple[StateUses, ...]:
        """The states whose next values operations compute, and that others read."""
        step = self.step
        return tuple(
            StateUses(
                state.input,
                self.inputs[state.input].type,
                self.inputs[state.input].users,
                made,
                state.role.is_sum,
            )
            for state in (() if step is None else step.states)
            if state.input in self.inputs and state.next.node in self.numbers
            for made in ((self.numbers[state.next.node], state.next.port),)
        )

    @cached_property
    def states_made(self) -> Mapping[tuple[int, int], tuple[StateUses, ...]]:
        """The states by the number and port of their next value."""
        found: dict[tuple[int, int], tuple[StateUses, ...]] = {}
        for state in self.states:
            found[state.made] = (*found.get(state.made, ()), state)
        return found

    @cached_property
    def states_read(self) -> Mapping[int, tuple[int, ...]]:
        """The operations that compute the next values of the states that each operation reads."""
        found: dict[int, dict[int, None]] = defaultdict(dict)
        for state in self.states:
            for user, _ in state.users:
                found[user][state.made[0]] = None
        return {user: tuple(makers) for user, makers in found.items()}

    def _operations(self, order: list[NodeId]) -> tuple[Operation, ...]:
        free = self.graph.weight_only
        found: list[Operation] = []
        for node_id in order:
            node = self.graph[node_id]
            sources = tuple(
                (self.numbers[value.node], value.port) if value.node in self.numbers else None
                for value in node.inputs
            )
            found.append(
                Operation(
                    node_id,
                    node.operator,
                    tuple(self._type(self.graph.type_of(value)) for value in node.inputs),
                    tuple(map(self._type, node.types)),
                    splits_of(self.graph, node),
                    tuple(slot for slot, value in enumerate(node.inputs) if value.node in free),
                    sources,
                )
            )
        return tuple(found)

    def _type(self, type_: ValueType) -> TensorType:
        if isinstance(type_, TensorType):
            return self._sizes.type(type_)
        return TensorType(ElementType.OTHER, ())

    def _by_longest_path(self) -> list[NodeId]:
        graph = self.graph
        free = graph.weight_only
        starts: dict[NodeId, float] = {}
        ends: dict[NodeId, float] = {}
        for node_id in graph.order:
            node = graph[node_id]
            if node_id in free or isinstance(node.operator, Input):
                continue
            before = [ends[value.node] for value in node.inputs if value.node in ends]
            before += [ends[other] for other in node.after if other in ends]
            starts[node_id] = max(before, default=0.0)
            ends[node_id] = starts[node_id] + self._cost(node)
        return sorted(starts, key=lambda node_id: (starts[node_id], graph.position[node_id]))

    def _cost(self, node: Node) -> float:
        if node.operator.name in ALIASES:
            return 0.0
        inputs = tuple(self._type(self.graph.type_of(value)) for value in node.inputs)
        outputs = tuple(map(self._type, node.types))
        return roofline_microseconds(node.operator, inputs, outputs, self._kind, ())
