"""Plan the precision of a training step that is stored as a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from superopt.equations.adjoints import Adjoint
from superopt.errors import InvalidOptionError
from superopt.ir.graph import Graph, NodeId, Value
from superopt.ir.plan import Plan
from superopt.onnx_io import LiftedModel, LoweredModel, SourceModel, lift, lower
from superopt.ops.elementwise.arithmetic import Subtract
from superopt.optimizer.parallel.topology import DeviceKind
from superopt.optimizer.training.compared_losses import RATE
from superopt.optimizer.training.description import Role, State, StepDescription, read_description
from superopt.optimizer.training.parts import inputs_by_name
from superopt.optimizer.training.precision.casts import with_casts, without_casts
from superopt.optimizer.training.precision.outcome import PROPERTY, PrecisionOutcome, checked
from superopt.optimizer.training.precision.planning import planned_by
from superopt.optimizer.training.precision.sensitivity import is_product
from superopt.optimizer.training.precision.subject import Subject
from superopt.optimizer.training.trial_batches import Feeds
from superopt.step_options import PrecisionSettings
from superopt.traversal import postorder

_OF_GRADIENTS = (Role.ACCUMULATOR, Role.MOMENT, Role.SECOND_MOMENT)
"""Roles of states that are functions of gradients alone if they were zero before, the most direct first."""


def with_precision(
    source: SourceModel,
    settings: PrecisionSettings,
    adjoints: Sequence[Adjoint],
    device: DeviceKind | None = None,
) -> tuple[LoweredModel, PrecisionOutcome]:
    """A stored step with nodes in low precision, in place of those that it had; where only a budget is given,
    in float16 if it scales its loss. Errors of gradients are those of what the optimiser keeps of them: an
    accumulator, else a moment that was zero before, else the change of the parameter.

    Raises InvalidModelError for a model that is no step, InvalidOptionError where the budget is not held or
    the step does not scale its loss as float16 needs.
    """
    step = _Stored.of(source)
    if settings.precision == "f16" and step.scale is None:
        raise InvalidOptionError(
            f"precision: expected bf16 for {source.name}, which does not scale its loss as "
            "`superopt train-graph --precision f16` makes it, got f16"
        )
    exact = lower(step.lifted, step.graph, Plan())
    low = "f16" if settings.precision == "f32" and step.scale is not None else settings.low
    planned, batches = planned_by(settings, low, exact, step.subject, adjoints, device)
    mixed = lower(step.lifted, with_casts(step.graph, planned.plan).graph, Plan())
    outcome = checked(settings, planned, exact, mixed, batches)
    return _with_metadata(mixed, outcome), outcome


@dataclass(frozen=True)
class _Stored:
    """A step's graph without casts, and what its inputs and outputs are."""

    lifted: LiftedModel
    graph: Graph
    description: StepDescription

    @staticmethod
    def of(source: SourceModel) -> _Stored:
        description = read_description(source.proto, source.name)
        lifted = lift(source)
        return _Stored(lifted, without_casts(lifted.graph), description)

    @property
    def scale(self) -> State | None:
        """The state that is the scale of the loss."""
        return next(iter(self.description.with_role(Role.SCALE)), None)

    def subject(self, samples: Sequence[Feeds]) -> Subject:
        """What is planned: products, and the nodes on which they depend; updates are not among them."""
        editor = self.graph.edit()
        gradients: dict[str, Value] = {}
        for parameter in self.description.with_role(Role.PARAMETER):
            state = self._observed(parameter)
            value = self._outputs[state.output]
            if state is parameter:
                value = editor.add(Subtract(), (value, self._inputs[state.input])).value
            gradients[parameter.name] = value
        graph = editor.build()
        scale = self.scale
        tensors = self.lifted.source.tensors
        moments = self.description.with_role(*_OF_GRADIENTS)
        first = {state.input: np.zeros_like(tensors[state.input].numpy()) for state in moments}
        if self.description.rate_input is not None:
            first[self.description.rate_input] = np.asarray(RATE, np.float32)
        fixed = None
        if scale is not None:
            fixed = float(tensors[scale.input].numpy().reshape(())[()])
            first[scale.input] = np.asarray(1, np.float32)
        return Subject(
            self.lifted,
            graph,
            self._outputs[self.description.loss],
            gradients,
            _leading_to_products(graph),
            tuple({**first, **sample} for sample in samples),
            scale=None if scale is None else self._inputs[scale.input],
            fixed_scale=fixed,
        )

    def _observed(self, parameter: State) -> State:
        """The state whose next value tells the gradient."""
        own = [state for state in self.description.states if state.of == parameter.name]
        for role in _OF_GRADIENTS:
            for state in own:
                if state.role is role:
                    return state
        return parameter

    @property
    def _outputs(self) -> Mapping[str, Value]:
        names = (value.name for value in self.lifted.source.proto.graph.output)
        return dict(zip(names, self.graph.outputs, strict=True))

    @property
    def _inputs(self) -> Mapping[str, Value]:
        return inputs_by_name(self.graph)


def _leading_to_products(graph: Graph) -> frozenset[NodeId]:
    """The products, and the nodes on which one depends."""
    products = (node.id for node in graph if is_product(node.operator))
    return frozenset(postorder(products, lambda node: (value.node for value in graph[node].inputs)))


def _with_metadata(model: LoweredModel, outcome: PrecisionOutcome) -> LoweredModel:
    proto = type(model.proto)()
    proto.CopyFrom(model.proto)
    for entry in [entry for entry in proto.metadata_props if entry.key == PROPERTY]:
        proto.metadata_props.remove(entry)
    if outcome.planned.plan.low:
        for key, value in outcome.metadata().items():
            proto.metadata_props.add(key=key, value=value)
    return replace(model, proto=proto, unchanged=False)


__all__ = ["with_precision"]
