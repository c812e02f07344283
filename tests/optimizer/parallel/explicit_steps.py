"""Training steps as graphs to be planned, with contents for their inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import onnx

from superopt.domains import Array
from superopt.ir.graph import Graph, Input, NodeId
from superopt.ir.plan import Plan
from superopt.ir.types import TensorType
from superopt.journeys.training import train_graph
from superopt.onnx_io import LiftedModel, lift, load_model
from superopt.onnx_io.protos import dtype_of
from superopt.optimizer.parallel.execution import Execution, Executor, HostMachine, execute
from superopt.optimizer.parallel.search.subject import Subject, plannable
from superopt.optimizer.parallel.strategies.plans import DividedState, PlannedStep
from superopt.optimizer.parallel.training_plans.states import StepLayout, StepStates
from superopt.optimizer.training.description import Role
from superopt.step_options import StepSettings


@dataclass(frozen=True)
class ExplicitStep:
    """A step that was written and read again."""

    lifted: LiftedModel
    graph: Graph
    layout: StepLayout
    divided: tuple[DividedState, ...] = ()

    def by_strategy(self, planned: PlannedStep) -> ExplicitStep:
        """The step with the graph of a strategy's plan."""
        return replace(self, graph=planned.graph, layout=planned.layout, divided=planned.divided)

    @cached_property
    def subject(self) -> Subject:
        return Subject.of(self.graph, self.layout)

    @cached_property
    def states(self) -> StepStates:
        return StepStates.of(self.graph, self.layout)

    def executed(self, plan: Plan, order: Sequence[NodeId] | None = None) -> Execution:
        """One step on virtual devices, from the initial states."""
        return execute(
            self.graph, plan, self.weights, self.feeds(), self._machine, step=self.states, order=order
        )

    def losses(self, plan: Plan, steps: int) -> list[float]:
        """The losses of so many steps on one batch."""
        feeds = self.feeds()
        executor = Executor(self.graph, plan, self.weights, self._machine, step=self.states)
        found: list[float] = []
        for _ in range(steps):
            outputs = dict(zip(self.layout.outputs, executor.run(feeds).outputs, strict=True))
            found.append(float(outputs[self.layout.description.loss]))
            states = self.layout.description.states
            feeds |= {state.input: outputs[state.output] for state in states}
        return found

    def outputs(self, plan: Plan, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """All outputs of one step by name."""
        executor = Executor(self.graph, plan, self.weights, self._machine, step=self.states)
        return dict(zip(self.layout.outputs, executor.run(feeds).outputs, strict=True))

    @cached_property
    def _machine(self) -> HostMachine:
        return HostMachine(self.lifted.source)

    @cached_property
    def weights(self) -> Mapping[str, Array]:
        """The constants by label."""
        labels = {label: self.lifted.weight(label) for label in self.lifted.source.constants}
        return labels | dict(self.lifted.numbers)

    @property
    def parameters(self) -> int:
        """The number of trained numbers."""
        initial = {tensor.name: tensor for tensor in self.lifted.source.proto.graph.initializer}
        states = self.layout.description.with_role(Role.PARAMETER)
        return sum(int(np.prod(initial[state.input].dims)) for state in states)

    def feeds(self, seed: int = 0) -> dict[str, Array]:
        """Initial states, and a random batch: numbers below 1, classes below 2."""
        random = np.random.default_rng(seed)
        initial = {t.name: onnx.numpy_helper.to_array(t) for t in self.lifted.source.proto.graph.initializer}
        for state in self.divided:
            initial[state.input] = initial[state.whole][tuple(slice(*axis) for axis in state.region)]
        found: dict[str, Array] = {}
        for node in self.graph.inputs:
            operator, (type_,) = self.graph[node].operator, self.graph[node].types
            assert isinstance(operator, Input)
            assert isinstance(type_, TensorType)
            shape = [int(str(size)) for size in type_.shape]
            number = random.uniform(0, 1, shape) if type_.element.is_float else random.integers(0, 2, shape)
            found[operator.label] = initial.get(operator.label, number.astype(dtype_of(type_.element)))
        return found


def explicit_step(
    model: onnx.ModelProto | bytes,
    optimizer: str = "sgd",
    loss: str = "cotangents",
    *,
    clip_norm: float | None = None,
    precision: str = "f32",
) -> ExplicitStep:
    """The step that ``train-graph`` writes for a model; the last ones are kept."""
    content = model if isinstance(model, bytes) else model.SerializeToString()
    return _step_of(content, optimizer, loss, clip_norm, precision)


@lru_cache(maxsize=16)
def _step_of(
    model: bytes, optimizer: str, loss: str, clip_norm: float | None, precision: str
) -> ExplicitStep:
    settings = StepSettings()
    settings = replace(
        settings,
        update=replace(settings.update, optimizer=optimizer, clip_norm=clip_norm),
        loss=replace(settings.loss, loss=loss),
        precision=replace(settings.precision, precision=precision),
    )
    source = load_model(train_graph(model, settings).step.model.to_bytes())
    lifted = lift(source)
    layout = StepLayout.of(source.proto, "the step")
    assert layout is not None
    return ExplicitStep(lifted, plannable(lifted.graph), layout)
