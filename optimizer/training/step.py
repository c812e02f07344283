"""Build a training step from an inference model: forward pass, loss, gradients and updates in one model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from superopt.equations.adjoints import Adjoint
from superopt.errors import InvalidModelError, InvalidOptionError, UnsupportedError
from superopt.ir.graph import Graph, GraphEditor, Input, Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io import LiftedModel, LoweredModel, ModelSource, SourceModel, lift, load_model
from superopt.onnx_io.bodies.branches import with_known_branches
from superopt.onnx_io.bodies.functions import with_functions_inlined
from superopt.onnx_io.changes.definitions import with_definitions
from superopt.onnx_io.changes.freezing import freeze
from superopt.onnx_io.lowering.extending import Extension, derived, extend, skeleton
from superopt.onnx_io.protos import dtype_of
from superopt.onnx_io.training.parameters import overridable_parameters
from superopt.onnx_io.training.running_statistics import NEXT
from superopt.onnx_io.training.training_mode import ForwardSettings, in_training_mode
from superopt.ops.elementwise.arithmetic import Add, Multiply
from superopt.ops.filled import Full
from superopt.ops.gradients.transposes import SumTo
from superopt.optimizer.parallel.topology import DeviceKind
from superopt.optimizer.pipeline.runnable import loads_lowered, why_refused
from superopt.optimizer.training.advice import advice
from superopt.optimizer.training.builder import StepBuilder
from superopt.optimizer.training.description import (
    PROPERTY,
    ConstantRate,
    Labels,
    LearningRate,
    RateInput,
    Role,
    ScheduledRate,
    State,
    StepDescription,
    require_interface,
)
from superopt.optimizer.training.gradients.one_node_sums import with_sums_in_one_node
from superopt.optimizer.training.gradients.reverse import differentiate, followed_inputs
from superopt.optimizer.training.losses import add_cotangents, add_loss, prediction_of
from superopt.optimizer.training.metadata import is_step
from superopt.optimizer.training.parts import (
    Differentiated,
    Forward,
    NodeNames,
    StepLoss,
    inputs_by_name,
)
from superopt.optimizer.training.precision.casts import MixedGraph
from superopt.optimizer.training.precision.outcome import PrecisionOutcome, checked
from superopt.optimizer.training.precision.planning import planned_by
from superopt.optimizer.training.precision.scaling import INITIAL_SCALE, LOSS_SCALE
from superopt.optimizer.training.updates import MICROSTEP, STEP, AddedUpdates, add_updates
from superopt.step_options import COTANGENTS, RATE_INPUT, StepSettings, UpdateSettings

LOSS = "loss"
"""The output with the loss."""

SEED = "seed"


@dataclass(frozen=True)
class BuiltStep:
    """A training step as a model. ``state_bytes`` are the sizes of states by input, ``adjoints`` counts the
    instances of adjoint statements by name; ``unreached`` are parameters that do not affect the loss and stay
    constants; ``notes`` are sentences for the user. ``graph`` is the step before it is written, with the
    outputs that ``outputs`` names; ``defaults`` are inputs of the model that have one; ``precision`` is what
    was planned where nodes run in low precision."""

    model: LoweredModel
    description: StepDescription
    state_bytes: Mapping[str, int]
    adjoints: Mapping[str, int]
    forward_nodes: int
    unreached: tuple[str, ...]
    notes: tuple[str, ...]
    graph: Graph
    outputs: tuple[str, ...]
    defaults: frozenset[str]
    precision: PrecisionOutcome | None = None

    def require_runnable(self, name: str) -> None:
        """Raises InvalidModelError, with the name of the model, for a step that no command runs: with data
        that has no samples, or an input without a meaning."""
        require_interface(self.model.proto, self.description, name, self.defaults)


def build_step(
    model: ModelSource,
    settings: StepSettings,
    adjoints: Iterable[Adjoint],
    device: DeviceKind | None = None,
) -> BuiltStep:
    """The training step of a model (RAF, section 3.1): plain ONNX that computes from parameters, optimiser
    state and a batch the loss, the next parameters and the next state. Nodes in low precision are priced for
    the ``device``, by default that of the settings.

    Raises InvalidModelError and InvalidOptionError for a model or settings that do not fit, and
    UnsupportedError, which names the node, where a gradient does not exist.
    """
    step = _Step(load_model(model, why_refused), settings, tuple(adjoints), device)
    try:
        return step.build()
    except UnsupportedError as error:
        raise UnsupportedError(f"{error}; {step.advice(error)}") from error


class _Step:
    def __init__(
        self,
        source: SourceModel,
        settings: StepSettings,
        adjoints: tuple[Adjoint, ...],
        device: DeviceKind | None,
    ) -> None:
        if is_step(source.proto):
            raise InvalidModelError(f"{source.name} is a training step already; superopt train runs it")
        if source.fixed_reason is not None:
            raise UnsupportedError(f"{source.name} cannot be trained: {source.fixed_reason}")
        frozen = freeze(source, settings.model.freeze) if settings.model.freeze else source
        self._source = with_known_branches(with_functions_inlined(frozen), loads_lowered)
        self._settings = settings
        self._adjoints = adjoints
        self._device = device
        self._parameters: Mapping[str, Value] = {}

    def advice(self, error: UnsupportedError) -> str:
        """What to try where a gradient does not exist."""
        return advice(error, self._source, self._parameters)

    def build(self) -> BuiltStep:
        forward = self._forward(self._settings.model.frozen)
        loss = self._loss(forward)
        unreached = _unreached(loss, forward.parameters)
        if len(unreached) == len(forward.parameters):
            raise InvalidModelError(
                f"{self._source.name}: expected a loss that depends on parameters, got one that is constant "
                f"in all of {', '.join(unreached)}"
            )
        if unreached:
            forward = self._forward((*self._settings.model.frozen, *unreached))
            loss = self._loss(forward)
        editor = loss.graph.edit()
        cotangent = self._cotangent(editor, loss.value)
        found = differentiate(
            editor.build(),
            forward.parameters.values(),
            {loss.value: cotangent},
            self._adjoints,
            NodeNames(forward.lifted),
        )
        gradients = {name: found.of[value] for name, value in forward.parameters.items()}
        done = Differentiated(forward, loss, found.graph, gradients, cotangent, found.used, unreached)
        return self._in_mixed_precision(done) if self._settings.precision.is_mixed else self._finished(done)

    def _in_mixed_precision(self, done: Differentiated) -> BuiltStep:
        """The step with nodes in low precision. With an error budget, it is checked against the one in
        float32."""
        settings = self._settings.precision
        exact = self._finished(done)
        planned, batches = planned_by(
            settings, settings.low, exact.model, done.subject, self._adjoints, self._device
        )
        outcome = PrecisionOutcome(settings, planned)
        mixed = self._finished(done, planned.mixed, outcome)
        outcome = checked(settings, planned, exact.model, mixed.model, batches)
        return replace(mixed, precision=outcome)

    def _finished(
        self,
        done: Differentiated,
        mixed: MixedGraph | None = None,
        outcome: PrecisionOutcome | None = None,
    ) -> BuiltStep:
        """The step after its gradients; ``mixed`` is their graph with casts."""
        mixed = mixed or MixedGraph(done.graph, {}, 0, 0)
        editor = mixed.graph.edit()
        gradients = {
            name: (value, mixed.value(done.gradients[name]))
            for name, value in done.forward.parameters.items()
        }
        scale = None
        if self._has_scale:
            scale = INITIAL_SCALE if outcome is None else outcome.planned.loss_scale
        updates = add_updates(editor, gradients, self._settings.update, scale)
        outputs = {name: mixed.value(value) for name, value in done.forward.outputs.items()}
        builder, inputs = StepBuilder(editor), inputs_by_name(done.forward.lifted.graph)
        statistics = {
            one.output: builder.chosen(updates.finite, outputs[one.output], inputs[one.input])
            for one in done.forward.statistics
        }
        metadata: Mapping[str, str] = {} if outcome is None else outcome.metadata()
        values = {LOSS: mixed.value(done.loss.value), **statistics}
        return self._written(done, values, updates, editor.build(), metadata)

    @property
    def _has_scale(self) -> bool:
        return self._settings.precision.is_mixed and self._settings.precision.low == "f16"

    def _forward(self, frozen: tuple[str, ...]) -> Forward:
        chosen = self._settings.model
        proto, names = overridable_parameters(skeleton(self._source), chosen.trainable or ("*",), frozen)
        trained = in_training_mode(proto, _forward_settings(self._settings))
        proto = with_definitions(trained.model)
        lifted = lift(derived(self._source, proto), for_gradients=True)
        inputs = inputs_by_name(lifted.graph)
        self._parameters = {name: inputs[name] for name in names}
        return Forward(
            lifted,
            self._parameters,
            trained.statistics,
            SEED if trained.uses_seed else None,
            trained.notes,
        )

    def _loss(self, forward: Forward) -> StepLoss:
        editor = forward.lifted.graph.edit()
        settings, wanted = self._settings.loss, self._settings.model.prediction
        if settings.loss == COTANGENTS:
            if wanted is not None:
                raise InvalidOptionError(
                    f"prediction: expected none, since all outputs have cotangents; got {wanted}"
                )
            own = {statistic.output for statistic in forward.statistics}
            outputs = {name: value for name, value in forward.outputs.items() if name not in own}
            seeds = add_cotangents(editor, outputs).seeds
            total = _total(editor, [_product(editor, outputs[name], seed) for name, seed in seeds.items()])
            return StepLoss(editor.build(), total, {})
        prediction = prediction_of(forward.lifted.graph, forward.outputs, settings.loss, wanted)
        if prediction is None:
            raise InvalidModelError(f"{self._source.name}: expected a floating-point output, got none")
        added = add_loss(editor, prediction, settings)
        return StepLoss(editor.build(), added.value, added.weights, added.labels, added.notes)

    def _cotangent(self, editor: GraphEditor, loss: Value) -> Value:
        """The cotangent of the loss: 1, or the scale of the loss."""
        type_ = editor.type_of(loss)
        if not isinstance(type_, TensorType) or type_.element not in (ElementType.FLOAT, ElementType.DOUBLE):
            raise UnsupportedError(
                f"the loss is {type_}, and gradients are computed in float32 and float64 only"
            )
        if self._has_scale:
            if type_.element is not ElementType.FLOAT:
                raise InvalidOptionError(
                    f"precision: expected bf16 for a loss of {type_}: f16 scales losses in f32"
                )
            return editor.add(Input(LOSS_SCALE, type_)).value
        return StepBuilder(editor).converted(editor.add(Full(1, type_.shape)).value, type_.element)

    def _written(
        self,
        done: Differentiated,
        values: Mapping[str, Value],
        updates: AddedUpdates,
        graph: Graph,
        metadata: Mapping[str, str],
    ) -> BuiltStep:
        forward = done.forward
        lifted = forward.lifted
        outputs = {
            LOSS: values[LOSS],
            **{name + NEXT: value for name, value in updates.new_parameters.items()},
            **{state.name + NEXT: state.output for state in updates.states},
            **{statistic.output: values[statistic.output] for statistic in forward.statistics},
        }
        _require_free(outputs, lifted)
        graph = with_sums_in_one_node(graph, outputs.values())
        description = self._description(forward, updates, graph, done.loss.labels)
        extension = Extension(
            outputs,
            initial={state.input: state.initial for state in updates.states},
            weights={**done.loss.weights, **updates.weights},
            metadata={PROPERTY: description.to_json(), **metadata},
        )
        model = extend(lifted, graph, extension)
        return BuiltStep(
            model,
            description,
            {state.input: _bytes(graph, state.input) for state in description.states},
            done.used,
            len(lifted.source.proto.graph.node),
            done.unreached,
            (*forward.notes, *done.loss.notes),
            _returning(graph, outputs.values()),
            tuple(outputs),
            frozenset(lifted.source.overridable),
        )

    def _description(
        self, forward: Forward, updates: AddedUpdates, graph: Graph, labels: Labels | None
    ) -> StepDescription:
        states = (
            *(State(name, Role.PARAMETER, name, name + NEXT) for name in updates.new_parameters),
            *(State(s.name, s.role, s.input, s.name + NEXT, s.of) for s in updates.states),
            *(State(s.name, Role.STATISTIC, s.input, s.output) for s in forward.statistics),
        )
        settled = {state.input for state in states} | {RATE_NAME} | forward.lifted.source.overridable
        return StepDescription(
            loss=LOSS,
            optimizer=self._settings.update.optimizer,
            states=states,
            data=tuple(name for name in inputs_by_name(graph) if name not in settled),
            learning_rate=_learning_rate(self._settings.update),
            seed=forward.seed,
            labels=labels,
        )


RATE_NAME = "learning_rate"


def _learning_rate(settings: UpdateSettings) -> LearningRate:
    if settings.learning_rate == RATE_INPUT:
        return RateInput(RATE_NAME)
    rate = float(settings.base_rate or 0)
    return (
        ConstantRate(rate)
        if settings.schedule == "constant"
        else ScheduledRate(f"{rate}*{settings.schedule}")
    )


def _bytes(graph: Graph, name: str) -> int:
    """The size of an input of known sizes."""
    type_ = graph.type_of(inputs_by_name(graph)[name])
    assert isinstance(type_, TensorType), "a state"
    return dtype_of(type_.element).itemsize * math.prod(size for size in type_.shape if isinstance(size, int))


def _require_free(outputs: Iterable[str], lifted: LiftedModel) -> None:
    """Raises InvalidModelError for an output of the step with the name of an input or initialiser."""
    graph = lifted.source.proto.graph
    taken = {value.name for value in graph.input} | lifted.source.tensors.keys()
    for name in outputs:
        if name in taken:
            raise InvalidModelError(
                f"training: expected a model without an input or initialiser named {name!r}, which the step "
                "needs as an output; rename the model's"
            )


def _unreached(loss: StepLoss, parameters: Mapping[str, Value]) -> tuple[str, ...]:
    """The parameters on which the loss does not depend, or only in steps, as by integers."""
    graph, needed = loss.graph, {loss.value.node}
    for node_id in reversed(graph.order):
        if node_id in needed:
            needed.update(value.node for value in followed_inputs(graph, node_id))
    return tuple(name for name, value in parameters.items() if value.node not in needed)


def _product(editor: GraphEditor, output: Value, cotangent: Value) -> Value:
    """The inner product of two tensors, 0-d."""
    product = editor.add(Multiply(), (output, cotangent)).value
    return editor.add(SumTo(()), (product,)).value


def _total(editor: GraphEditor, terms: list[Value]) -> Value:
    total, *others = terms
    for term in others:
        total = editor.add(Add(), (total, term)).value
    return total


def _forward_settings(settings: StepSettings) -> ForwardSettings:
    chosen = settings.model
    return ForwardSettings(
        batch_norm=cast("Literal['global', 'local', 'frozen']", chosen.batch_norm),
        dropout=cast("Literal['on', 'off']", chosen.dropout),
        unbiased_statistics=chosen.running_variance == "n-1",
        step=STEP,
        seed=SEED,
        calls_per_step=settings.update.accumulate,
        microstep=MICROSTEP,
    )


def _returning(graph: Graph, outputs: Iterable[Value]) -> Graph:
    """The graph with these outputs."""
    editor = graph.edit()
    editor.set_outputs(tuple(outputs))
    return editor.build()


__all__ = ["BuiltStep", "build_step"]
