"""Updates of a variable in parts: AutoDist's partitioner (section 2.3).

Each part of the variable is updated by itself, from its part of the gradient and of the optimiser's state.
The parameter remains one state, joined from its parts wherever it is read; a moment becomes one state for
each part, which stays where the part is updated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from superopt.ir.graph import Input, NodeId, Value
from superopt.ops.base import Operator
from superopt.ops.sharded.splits import Splits
from superopt.optimizer.parallel.boxes import Region
from superopt.optimizer.parallel.search.subject import Operation, Subject
from superopt.optimizer.parallel.strategies.cutting import Cutter, regions_of_partition
from superopt.optimizer.parallel.strategies.merging import Piece
from superopt.optimizer.parallel.strategies.model import VariableSync
from superopt.optimizer.parallel.strategies.variables import Variable
from superopt.optimizer.parallel.tasks import part_type, tensor_of
from superopt.optimizer.parallel.terms import TermDimension
from superopt.optimizer.parallel.training_plans.sharded_states import ShardedStates
from superopt.optimizer.parallel.training_plans.states import StateTensor


@dataclass(frozen=True, slots=True)
class PartState:
    """A moment of one part: its name, the state that it is a box of, its input, and its next value."""

    name: str
    whole: StateTensor
    region: Region
    input: NodeId
    next: Value


@dataclass
class PartUpdates:
    """Updates one variable in parts. Afterwards ``owners`` are the nodes of each part's update,
    ``everywhere`` the nodes that run on all devices."""

    subject: Subject
    sharded: ShardedStates
    cutter: Cutter
    variable: Variable
    config: VariableSync
    pieces: Sequence[Piece]
    everywhere: set[NodeId] = field(default_factory=set[NodeId])
    owners: dict[NodeId, int] = field(default_factory=dict[NodeId, int])
    _cut: dict[Value, list[Value]] = field(default_factory=dict[Value, list[Value]])
    _made: dict[tuple[Value, int], Value] = field(default_factory=dict[tuple[Value, int], Value])
    _inputs: dict[tuple[NodeId, int], NodeId] = field(default_factory=dict[tuple[NodeId, int], NodeId])

    def __post_init__(self) -> None:
        self.regions = list(regions_of_partition(self.variable.shape, self.config.partition))
        if self.pieces:
            self._cut[self.pieces[0].gradient] = [piece.value for piece in self.pieces]

    def parameter(self) -> Value:
        """The next value of the parameter, joined."""
        values = [self._part(self.variable.state.next, number) for number in range(len(self.regions))]
        joined, added = self.cutter.joined(values, self.config.partition)
        self.everywhere.update(added)
        return joined

    def moments(self) -> Iterator[PartState]:
        """The states of the parts."""
        for state in self._moments:
            for number, region in enumerate(self.regions):
                following = self._part(state.next, number)
                input_ = self._input(state, number)
                yield PartState(self._name(state, number), state, region, input_, following)

    @cached_property
    def _moments(self) -> tuple[StateTensor, ...]:
        """The states of the shape of the variable that belong to it."""
        assert self.subject.step is not None
        return tuple(
            state
            for state in self.subject.step.states
            if state.of == self.variable.name
            and self.cutter.shape(Value(state.input)) == self.variable.shape
            and state.next.node in self.sharded.updates
        )

    def _name(self, state: StateTensor, number: int) -> str:
        name = f"{self.variable.name}/part_{number}"
        suffix = state.name.removeprefix(self.variable.name)
        return f"{name}{suffix}" if suffix != state.name else f"{state.name}/part_{number}"

    def _input(self, state: StateTensor, number: int) -> NodeId:
        key = (state.input, number)
        if key not in self._inputs:
            whole = tensor_of(self.subject.graph, Value(state.input))
            type_ = part_type(whole, self.regions[number])
            node = self.cutter.editor.add(Input(self._name(state, number), type_))
            self._inputs[key] = node.id
        return self._inputs[key]

    def _part(self, value: Value, number: int) -> Value:
        """The part of a value of the variable's shape."""
        key = (value, number)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._new_part(value, number)
        return found

    def _new_part(self, value: Value, number: int) -> Value:
        for state in self._moments:
            if value == Value(state.input):
                return Value(self._input(state, number))
        if value.node in self.sharded.updates and value not in self._cut:
            operation = self.subject.operations[self.subject.numbers[value.node]]
            if _is_elementwise(operation):
                return self._updated(value.node, operation.operator, operation.splits, number)
        if value not in self._cut:
            self._cut[value], added = self.cutter.parts(value, self.config.partition)
            if value.node not in self.sharded.computed:
                self.everywhere.update(added)
        return self._cut[value][number]

    def _updated(self, node: NodeId, operator: Operator, splits: Splits, number: int) -> Value:
        """The node for one part."""
        graph, region = self.subject.graph, self.regions[number]
        operands: list[Value] = []
        for slot, value in enumerate(graph[node].inputs):
            axes = splits.inputs[slot]
            if axes == splits.outputs[0] and self.cutter.shape(value) == self.variable.shape:
                operands.append(self._part(value, number))
                continue
            wanted = tuple(
                region[splits.outputs[0].index(axis)] if axis in splits.outputs[0] else (0, size)
                for axis, size in zip(axes, self.cutter.shape(value), strict=True)
            )
            operand, added = self.cutter.box(value, wanted)
            self.everywhere.update(added)
            operands.append(operand)
        type_ = part_type(tensor_of(graph, Value(node)), region)
        made = self.cutter.editor.add(operator.task((type_,)), operands, types=(type_,))
        self.owners[made.id] = number
        return made.value


def _is_elementwise(operation: Operation) -> bool:
    """Whether each box of the only result needs the same box of all operands, as far as they have its
    axes."""
    if len(operation.outputs) != 1:
        return False
    splits, (axes,) = operation.splits, operation.splits.outputs
    own = [n for n, dimension in enumerate(splits.dimensions) if not isinstance(dimension, TermDimension)]
    sizes = tuple(None if axis is None else splits.dimensions[axis].size for axis in axes)
    return set(own) <= set(axes) and sizes == operation.outputs[0].shape
