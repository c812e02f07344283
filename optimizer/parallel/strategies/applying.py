"""Apply a strategy that delays or compresses gradients to a training step, which becomes another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from superopt.errors import InvalidModelError, InvalidOptionError
from superopt.ir.graph import Graph, Value
from superopt.ir.types import ElementType
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.subject import plannable
from superopt.optimizer.parallel.strategies.cutting import Cutter
from superopt.optimizer.parallel.strategies.inexact import Inexactness, inexact
from superopt.optimizer.parallel.strategies.merging import Merging
from superopt.optimizer.parallel.strategies.model import Compressor, Strategy
from superopt.optimizer.parallel.strategies.plans import StrategyPlanner
from superopt.optimizer.parallel.strategies.variables import Variable, fitting
from superopt.optimizer.parallel.tasks import shape_of, tensor_of
from superopt.optimizer.parallel.training_plans.sharded_states import ShardedStates
from superopt.optimizer.parallel.training_plans.states import StepLayout
from superopt.optimizer.training.builder import NewState
from superopt.optimizer.training.compared_losses import STEPS
from superopt.optimizer.training.description import Role, State
from superopt.optimizer.training.synchronisation import GradientChange, with_changed_gradients


@dataclass(frozen=True)
class ChangedStep:
    """A step with other gradients: its graph, what its inputs and outputs are, and its new states."""

    graph: Graph
    layout: StepLayout
    states: tuple[NewState, ...]

    @staticmethod
    def of(graph: Graph, layout: StepLayout, changes: Sequence[GradientChange]) -> ChangedStep:
        """Raises InvalidModelError for the name of a new tensor that is taken."""
        changed = with_changed_gradients(graph, changes)
        following = {f"{state.name}.next": state for state in changed.states}
        for name in layout.outputs:
            if name in following:
                raise InvalidModelError(f"strategy: expected a step without an output named {name!r}")
        states = tuple(State(one.name, one.role, one.input, name, one.of) for name, one in following.items())
        description = replace(
            layout.description,
            states=(*layout.description.states, *states),
            compressed=(
                *layout.description.compressed,
                *(one.parameter for one in changes if one.compressed),
            ),
        )
        editor = changed.graph.edit()
        editor.set_outputs([*changed.graph.outputs, *(state.output for state in changed.states)])
        return ChangedStep(
            editor.build(), StepLayout(description, (*layout.outputs, *following)), changed.states
        )

    def planner(self, before: StrategyPlanner) -> StrategyPlanner:
        """The planner of this step where ``before`` is that of the step without changes."""
        return replace(before, graph=plannable(self.graph), layout=self.layout)


@dataclass(frozen=True)
class InexactStrategy:
    """A strategy with delayed or compressed gradients, what it changes, the planner of the step that it
    trains, and by variable why others cannot be changed."""

    strategy: Strategy
    changes: tuple[GradientChange, ...]
    planner: StrategyPlanner
    defects: Mapping[str, str]


@dataclass(frozen=True)
class GradientSums:
    """The gradients of a step that are sums over the devices of a cluster, each the only one from which its
    parameter is updated: these can be delayed and compressed."""

    planner: StrategyPlanner

    def changes(self, strategy: Strategy) -> tuple[GradientChange, ...]:
        """What a strategy changes of the gradients; nothing if it trains as one device does. Raises
        InvalidOptionError for a strategy that does not fit the step or the cluster, and for a gradient that
        cannot be delayed or compressed."""
        variables = self.planner.variables
        configs = fitting(strategy, variables, self.planner.cluster).by_name
        asked = {one.name: Inexactness.asked_by(configs[one.name]) for one in variables}
        return tuple(
            self._change(variable, asked[variable.name])
            for variable in variables
            if asked[variable.name] != Inexactness()
        )

    def inexact(self, strategy: Strategy, asked: Inexactness) -> InexactStrategy:
        """The strategy with as many gradients changed as can be, of those that its servers or all-reduces
        sum."""
        names = [variable.name for variable in self.planner.variables]
        found = {one.name: self._defect(one, asked) for one in self.planner.variables}
        defects = {name: defect for name, defect in found.items() if defect is not None}
        changed = inexact(strategy, asked, set(names) - defects.keys())
        changes = self.changes(changed)
        step = ChangedStep.of(self.planner.graph, self.planner.layout, changes)
        return InexactStrategy(changed, changes, step.planner(self.planner), defects)

    def _change(self, variable: Variable, asked: Inexactness) -> GradientChange:
        defect = self._defect(variable, asked)
        gradient = self._merging.gradient(variable)
        if defect is not None or gradient is None:
            raise InvalidOptionError(f"strategy: variable {variable.name!r}: {defect}")
        start = self._before_factors(gradient)
        updates = self._sharded.updates
        return GradientChange(
            variable.name,
            start,
            [
                node
                for node in self.planner.graph.users(start.node)
                if start != gradient
                or (node not in self._sharded.computed and updates.get(node) in (None, variable.state))
            ],
            asked.delay,
            asked.compressor is not Compressor.NONE,
            asked.compressor is Compressor.CAST_WITH_FEEDBACK,
        )

    def _defect(self, variable: Variable, asked: Inexactness) -> str | None:
        planner = self.planner
        present = Inexactness.of_step(variable, planner.subject, planner.layout.description.compressed)
        if present != Inexactness():
            return "expected a step with gradients as they are computed, got delayed or compressed ones"
        if any(state.role is Role.SCALE for state in planner.layout.description.states):
            return f"expected a step that does not scale its loss (--precision f32 or bf16) for {asked}"
        if asked.delay >= STEPS:
            return f"expected a staleness below {STEPS}, the number of losses that are compared, got {asked}"
        if variable.is_sparse or self._merging.gradient(variable) is None:
            why = "rows of it are exchanged" if variable.is_sparse else "it is not one sum over devices"
            return f"expected a gradient that is summed whole for {asked}, and {why}"
        if asked.compressor is not Compressor.NONE and variable.element is not ElementType.FLOAT:
            return f"expected float32 for {asked}, got {variable.element.value}"
        return None

    @cached_property
    def _sharded(self) -> ShardedStates:
        return self.planner.timetable(Mesh.of(self.planner.cluster)).sharded

    @cached_property
    def _merging(self) -> Merging:
        return Merging(self.planner.subject, self._sharded, Cutter(self.planner.graph.edit()))

    def _before_factors(self, value: Value) -> Value:
        """The gradient of which the value is a multiple: devices multiply their terms by the learning rate,
        after which half precision has no digits left."""
        graph, computed = self.planner.graph, self._sharded.computed
        while True:
            terms = {operand for operand in graph[value.node].inputs if operand.node in computed}
            if len(terms) != 1:
                return value
            (operand,) = terms
            shapes = {shape_of(tensor_of(graph, one)) for one in (value, operand)}
            if len(shapes) > 1 or set(graph.users(operand.node)) != {value.node}:
                return value
            value = operand


__all__ = ["ChangedStep", "GradientSums", "InexactStrategy"]
