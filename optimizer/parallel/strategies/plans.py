"""Plan of a training step by a strategy: the graph with its parts and groups, and who runs what.

The graph computes the same; gradients that are exchanged together are laid end to end, and variables whose
parts differ in size or share a server are updated part by part. Everything else is a matter of the plan:
operations are divided by samples, as in data parallelism, and updates run on the servers. A sparse variable
on a server is looked up there, unless devices hold copies: indices and rows travel, the table does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from superopt.ir.graph import Graph, GraphEditor, Input, NodeId, Value
from superopt.ir.plan import Parallelism, Plan
from superopt.optimizer.parallel.boxes import Region
from superopt.optimizer.parallel.search.choices import COPIED, Choice, Licence, everything, parallelism
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.subject import Operation, Subject, plannable
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.strategies.cutting import Cutter
from superopt.optimizer.parallel.strategies.inexact import RoundedGradients, compressed_by, require_applied
from superopt.optimizer.parallel.strategies.merging import Merging, Piece
from superopt.optimizer.parallel.strategies.model import (
    Collective,
    Server,
    Strategy,
    Synchronizer,
    VariableSync,
)
from superopt.optimizer.parallel.strategies.parts import PartState, PartUpdates
from superopt.optimizer.parallel.strategies.timetable import Timetable
from superopt.optimizer.parallel.strategies.variables import (
    DeviceNames,
    Variable,
    fitting,
    in_equal_parts,
    serves_rows,
    variables_of,
)
from superopt.optimizer.parallel.terms import admits, trimmed
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.parallel.training_plans.row_sums import row_sums
from superopt.optimizer.parallel.training_plans.sharded_states import ShardedStates
from superopt.optimizer.parallel.training_plans.states import StepLayout
from superopt.optimizer.training.description import State


@dataclass(frozen=True)
class DividedState:
    """A new state of a planned step: the input of the given step whose initial value it is a box of."""

    input: str
    whole: str
    region: Region


@dataclass(frozen=True)
class PlannedStep:
    """A step planned by a strategy. ``divided`` are the states that replace those of variables that are
    updated part by part."""

    graph: Graph
    layout: StepLayout
    subject: Subject
    plan: Plan
    divided: tuple[DividedState, ...]


@dataclass
class StrategyPlanner:
    """Plans one step by strategies on the cluster of the ``prices``. ``graph`` is one returned by
    ``plannable``; ``whole`` are operations that all devices run alike in any case."""

    graph: Graph
    layout: StepLayout
    prices: Prices
    licence: Licence = everything
    whole: frozenset[NodeId] = frozenset()
    _timetables: dict[Mesh, Timetable] = field(default_factory=dict[Mesh, Timetable], init=False)

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.prices.cluster

    @cached_property
    def subject(self) -> Subject:
        """The step."""
        return Subject.of(self.graph, self.layout)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Its variables."""
        return self.timetable(Mesh.of(self.cluster)).variables

    def timetable(self, mesh: Mesh) -> Timetable:
        """The timetable of the step on a machine."""
        known = self._timetables.get(mesh)
        if known is None:
            assert self.subject.step is not None, "strategies are for training steps"
            sharded = ShardedStates(
                self.subject, self.subject.step, mesh, self.licence, row_sums(self.subject) | self.whole
            )
            known = Timetable(self.subject, sharded, variables_of(self.subject, sharded), self.prices)
            self._timetables[mesh] = known
        return known

    def planned(self, strategy: Strategy) -> PlannedStep:
        """The step by that strategy. Raises InvalidOptionError for one that does not fit the step or the
        cluster, or that delays or compresses gradients otherwise than the step."""
        strategy = fitting(strategy, self.variables, self.cluster)
        require_applied(strategy, self.variables, self.subject, self.layout.description.compressed)
        compressed = compressed_by(strategy)
        planner = self._rounding(compressed) if compressed else self
        names = DeviceNames(self.cluster)
        mesh = Mesh.of(self.cluster, sorted(names.numbers[name] for name in strategy.replicas))
        return _Planning(planner, strategy, names, planner.timetable(mesh)).planned()

    def _rounding(self, compressed: Sequence[str]) -> StrategyPlanner:
        """The planner whose devices round their gradients of these parameters."""
        rounded = RoundedGradients.of(self.subject, self.licence, compressed)
        return StrategyPlanner(
            rounded.graph, self.layout, self.prices, rounded.licence, self.whole | rounded.whole
        )


@dataclass
class _Planning:
    """One strategy: changes the graph, and collects who runs what beside data parallelism. ``alone`` are
    operations on one device, ``apart`` those that are divided, by partition and devices."""

    planner: StrategyPlanner
    strategy: Strategy
    names: DeviceNames
    timetable: Timetable
    alone: dict[NodeId, int] = field(default_factory=dict[NodeId, int])
    apart: dict[NodeId, tuple[tuple[int, ...], tuple[int, ...]]] = field(
        default_factory=dict[NodeId, tuple[tuple[int, ...], tuple[int, ...]]]
    )
    everywhere: set[NodeId] = field(default_factory=set[NodeId])
    states: list[PartState] = field(default_factory=list[PartState])

    def __post_init__(self) -> None:
        self.editor: GraphEditor = self.planner.graph.edit()
        self.cutter = Cutter(self.editor)
        self.sharded = self.timetable.sharded
        self.mesh = self.sharded.mesh
        self.looked_up = {node for variable in self.timetable.variables for node in variable.lookups}

    def planned(self) -> PlannedStep:
        merging = Merging(self.planner.subject, self.sharded, self.cutter)
        pieces = merging.pieces(self.strategy, self.timetable.variables)
        self.everywhere |= merging.everywhere
        for variable in self.timetable.variables:
            self._synchronised(variable, pieces.get(variable.name, []))
        return self._finished(self.editor.build())

    def _synchronised(self, variable: Variable, pieces: Sequence[Piece]) -> None:
        config = self.strategy.by_name[variable.name]
        synchronizers = config.synchronizers
        if all(isinstance(one, Collective) for one in synchronizers):
            self._reduced(config, pieces)
        elif not config.is_partitioned:
            self._served(variable, synchronizers[0])
        elif in_equal_parts(variable, config, self.names):
            devices = tuple(self._device(one) for one in synchronizers)
            looked_up = variable.lookups if serves_rows(variable, config, self.names) else ()
            for node in (*self._updates(variable), *looked_up):
                self.apart[node] = (config.partition, devices)
        else:
            self._in_parts(variable, config, pieces)

    def _updates(self, variable: Variable) -> tuple[NodeId, ...]:
        return self.sharded.updates_of.get(variable.name, ())

    def _device(self, synchronizer: Synchronizer) -> int:
        assert isinstance(synchronizer, Server), "only servers have a device"
        return self.names.numbers[synchronizer.destination]

    def _reduced(self, config: VariableSync, pieces: Sequence[Piece]) -> None:
        """All devices read the sum, joined from its parts."""
        if not pieces:
            return
        value, gradient = pieces[0].value, pieces[0].gradient
        if config.is_partitioned:
            value, added = self.cutter.joined([piece.value for piece in pieces], config.partition)
            self.everywhere.update(added)
        if value != gradient:
            readers = self.planner.graph.users(gradient.node)
            updating = [node for node in readers if node not in self.sharded.computed]
            self.editor.redirect({gradient: value}, updating)

    def _served(self, variable: Variable, synchronizer: Synchronizer) -> None:
        device = self._device(synchronizer)
        self.alone.update(dict.fromkeys(self._updates(variable), device))
        if serves_rows(variable, self.strategy.by_name[variable.name], self.names):
            self.alone.update(dict.fromkeys(variable.lookups, device))

    def _in_parts(self, variable: Variable, config: VariableSync, pieces: Sequence[Piece]) -> None:
        updates = PartUpdates(self.planner.subject, self.sharded, self.cutter, variable, config, pieces)
        following = updates.parameter()
        self.states.extend(updates.moments())
        self.everywhere |= updates.everywhere
        for node, number in updates.owners.items():
            synchronizer = config.synchronizers[number]
            if isinstance(synchronizer, Server):
                self.alone[node] = self._device(synchronizer)
            else:
                self.everywhere.add(node)
        self.editor.redirect({variable.state.next: following}, ())

    def _finished(self, graph: Graph) -> PlannedStep:
        graph, layout = self._with_part_states(graph)
        graph = plannable(graph)
        subject = Subject.of(graph, layout)
        assert subject.step is not None
        sums, licence = row_sums(subject) | self.planner.whole, self.planner.licence
        base = ShardedStates(subject, subject.step, self.mesh, licence, sums).replicated
        how: dict[NodeId, Parallelism] = {
            operation.node: self._mapping(operation, choice)
            for operation, choice in zip(subject.operations, base, strict=True)
        }
        divided = tuple(
            DividedState(state.name, self._label(state.whole.input), state.region) for state in self.states
        )
        return PlannedStep(graph, layout, subject, Plan(parallel=MappingProxyType(how)), divided)

    def _mapping(self, operation: Operation, choice: Choice) -> Parallelism:
        node, splits = operation.node, operation.splits
        if node in self.alone:
            return Parallelism(trimmed(splits, (1,) * len(splits.dimensions)), (self.alone[node],))
        if node in self.apart:
            partition, devices = self.apart[node]
            degrees = [1] * len(splits.dimensions)
            axes = splits.inputs[0] if node in self.looked_up else splits.outputs[0]
            for axis, parts in enumerate(partition):
                dimension = axes[axis]
                if dimension is not None:
                    degrees[dimension] = parts
            is_allowed = all(
                parts == 1 or self.planner.licence(operation, number) for number, parts in enumerate(degrees)
            )
            if is_allowed and math.prod(degrees) == len(devices) and admits(splits, tuple(degrees)):
                return Parallelism(trimmed(splits, tuple(degrees)), devices)
            choice = (COPIED,) * len(self.mesh.sizes)
        if node in self.everywhere:
            choice = (COPIED,) * len(self.mesh.sizes)
        return parallelism(operation, choice, self.mesh)

    def _with_part_states(self, graph: Graph) -> tuple[Graph, StepLayout]:
        """The graph and its layout with the states of parts in place of the whole ones."""
        layout = self.planner.layout
        if not self.states:
            return graph, layout
        replaced: dict[str, list[PartState]] = {}
        for state in self.states:
            replaced.setdefault(state.whole.name, []).append(state)
        gone = {state.whole.input for state in self.states}
        described = {state.output: state for state in layout.description.states}
        names: list[str] = []
        values: list[Value] = []
        for name, value in zip(layout.outputs, graph.outputs, strict=True):
            parts = replaced.get(described[name].name, []) if name in described else []
            names.extend([_following(part.name) for part in parts] or [name])
            values.extend([part.next for part in parts] or [value])
        states = tuple(
            new
            for state in layout.description.states
            for new in (
                [
                    State(part.name, state.role, part.name, _following(part.name), state.of)
                    for part in replaced.get(state.name, [])
                ]
                or [state]
            )
        )
        inputs = tuple(node for node in graph.inputs if node not in gone)
        edited = graph.edit()
        edited.set_outputs(values)
        kept = edited.build()
        nodes = {node.id: node for node in kept if node.id not in gone or kept.users(node.id)}
        description = replace(layout.description, states=states)
        return Graph(nodes, inputs, tuple(values), kept.next_id), StepLayout(description, tuple(names))

    def _label(self, node: NodeId) -> str:
        operator = self.planner.graph[node].operator
        assert isinstance(operator, Input), "states are inputs"
        return operator.label


def _following(name: str) -> str:
    return f"{name}.next"
