"""Strategies that delay or compress gradients: the step that is made trains what they say, and its plans send
what is foretold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from superopt import zoo
from superopt.domains import Array
from superopt.errors import InvalidOptionError
from superopt.ir.plan import Plan
from superopt.journeys.planning.applied_strategy import PROPERTY, apply_strategy, write_changed
from superopt.journeys.planning.lifted_steps import LiftedStep
from superopt.journeys.planning.strategies import BuiltStrategy, build_strategy
from superopt.onnx_io import build_model
from superopt.ops.activation import Relu
from superopt.ops.matrix import Matmul
from superopt.optimizer.parallel.execution.program import run_program, save_program
from superopt.optimizer.parallel.search.subject import plannable
from superopt.optimizer.parallel.shards import programmed
from superopt.optimizer.parallel.strategies.applying import ChangedStep, GradientSums
from superopt.optimizer.parallel.strategies.auto import simulated
from superopt.optimizer.parallel.strategies.builders import BUILDERS, Setting, build
from superopt.optimizer.parallel.strategies.inexact import Inexactness, exact, inexact
from superopt.optimizer.parallel.strategies.model import (
    Collective,
    Compressor,
    Part,
    Server,
    Strategy,
    VariableSync,
)
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.training.running import Step
from superopt.step_options import UpdateSettings
from tests.optimizer.graphs import Builder
from tests.optimizer.parallel.explicit_steps import ExplicitStep, explicit_step
from tests.optimizer.parallel.networks import devices
from tests.optimizer.parallel.random_plans import random_arrays

CAST, FEEDBACK = Inexactness(0, Compressor.CAST), Inexactness(0, Compressor.CAST_WITH_FEEDBACK)
SAMPLES = 6
RATE = float(UpdateSettings(optimizer="sgd").base_rate or 0)


@cache
def _given(optimizer: str = "sgd", clip_norm: float | None = None) -> ExplicitStep:
    return explicit_step(zoo.build("light-mlp", batch=SAMPLES), optimizer, clip_norm=clip_norm)


@cache
def _equal_shapes() -> ExplicitStep:
    """Two parameters of one shape, and clipping by the norm of both gradients."""
    b = Builder()
    x = b.add(Relu(), b.add(Matmul(), b.input("x", SAMPLES, 8), b.weight(8, 8)))
    graph = b.graph(b.add(Matmul(), x, b.weight(8, 8)))
    return explicit_step(build_model(graph, random_arrays(graph)), clip_norm=0.01)


def _content(step: ExplicitStep) -> bytes:
    return step.lifted.source.proto.SerializeToString()


def _strategy(step: ExplicitStep, machine: Cluster, builder: str, asked: Inexactness) -> Strategy:
    planner = LiftedStep(step.lifted, step.layout).planner(machine)
    names = [variable.name for variable in planner.variables]
    return inexact(build(builder, planner.variables, Setting(machine, chunk=4)), asked, names)


def _applied(step: ExplicitStep, machine: Cluster, strategy: Strategy) -> ExplicitStep:
    """The step of a strategy, written and read again."""
    lifted = LiftedStep(step.lifted, step.layout)
    planner = lifted.planner(machine)
    changes = GradientSums(planner).changes(strategy)
    model = write_changed(lifted, ChangedStep.of(step.lifted.graph, step.layout, changes), changes)
    again = LiftedStep.of(model.to_bytes())
    return ExplicitStep(again.lifted, plannable(again.lifted.graph), again.layout)


PLANS = [
    *((builder, Inexactness(delay)) for builder in ("PS", "UnevenPartitionedPS") for delay in (1, 3)),
    ("PSLoadBalancing", Inexactness(2)),
    ("PartitionedPS", Inexactness(1)),
    *((builder, asked) for builder in ("AllReduce", "PartitionedAR") for asked in (CAST, FEEDBACK)),
    ("RandomAxisPartitionAR", CAST),
]


@pytest.mark.parametrize(("builder", "asked"), PLANS, ids=str)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_plan_trains_as_its_step_and_sends_what_is_foretold(
    builder: str, asked: Inexactness, optimizer: str
) -> None:
    machine = devices(3)
    strategy = _strategy(_given(optimizer), machine, builder, asked)
    step = _applied(_given(optimizer), machine, strategy)
    planner = LiftedStep(step.lifted, step.layout).planner(machine)
    planned = planner.planned(strategy)
    foretold = simulated(planned, planner)
    own = step.by_strategy(planned)
    rounding = 1e-5 if asked.delay else 1e-3
    np.testing.assert_allclose(own.losses(planned.plan, 4), step.losses(Plan(), 4), rtol=rounding)
    executed = own.executed(planned.plan, foretold.order)
    assert executed.moved_bytes == foretold.communication_bytes
    peaks = tuple(executed.peaks.get(device, 0) for device in range(len(machine)))
    assert peaks == foretold.memory_bytes


def _parameters(step: Step) -> dict[str, Array]:
    names = [state.name for state in step.description.states if state.role == "parameter"]
    return {name: step.states[name].astype(np.float64) for name in names}


def _batches(given: ExplicitStep, count: int) -> list[dict[str, Array]]:
    random = np.random.default_rng(3)
    step = Step(_content(given), threads=1)
    return [
        {
            port.name: random.uniform(0, 1, (SAMPLES, *(port.shape or ())[1:])).astype(port.dtype)
            for port in step.data
        }
        for _ in range(count)
    ]


def _gradients(
    given: ExplicitStep, parameters: Mapping[str, Array], batch: Mapping[str, Array]
) -> dict[str, Array]:
    """The gradients of a step at these parameters, clipped as it does, from what it adds to them."""
    step = Step(_content(given), threads=1)
    for name, value in parameters.items():
        step.states[name][...] = value
    before = _parameters(step)
    step.run(batch)
    after = _parameters(step)
    return {name: (before[name] - after[name]) / RATE for name in parameters}


@pytest.mark.parametrize("delay", [1, 3])
@pytest.mark.parametrize("given", [_given, partial(_given, "sgd", 0.01), _equal_shapes])
def test_a_gradient_is_applied_that_many_steps_later(given: Callable[[], ExplicitStep], delay: int) -> None:
    """Beside gradients of the given step in a queue; the norm is that of the gradients that are applied."""
    machine = devices(2)
    strategy = _strategy(given(), machine, "PS", Inexactness(delay))
    step = Step(_content(_applied(given(), machine, strategy)), threads=1)
    expected = _parameters(step)
    waiting = [dict.fromkeys(expected, np.float64(0)) for _ in range(delay)]
    for number, batch in enumerate(_batches(given(), 6)):
        waiting.append(_gradients(given(), expected, batch))
        due = waiting.pop(0)
        expected = {name: value - RATE * due[name] for name, value in expected.items()}
        step.run(batch)
        for name, value in _parameters(step).items():
            np.testing.assert_allclose(value, expected[name], atol=2e-6, err_msg=f"{name}, step {number}")


@pytest.mark.parametrize("asked", [CAST, FEEDBACK], ids=str)
def test_each_device_rounds_its_gradient(asked: Inexactness) -> None:
    """Two devices with three samples each, beside the sum of what numpy rounds of their gradients."""
    machine = devices(2)
    strategy = _strategy(_given(), machine, "AllReduce", asked)
    step = _applied(_given(), machine, strategy)
    planned = LiftedStep(step.lifted, step.layout).planner(machine).planned(strategy)
    own = step.by_strategy(planned)
    (batch,) = _batches(_given(), 1)
    feeds = {**own.feeds(), **batch}
    halves = [
        _gradients_of_half({name: array[part] for name, array in batch.items()})
        for part in (slice(0, 3), slice(3, 6))
    ]
    outputs = own.outputs(planned.plan, feeds)
    for name in halves[0]:
        own_gradients = [half[name] for half in halves]
        rounded = [own.astype(np.float16) for own in own_gradients]
        total = (rounded[0] + rounded[1]).astype(np.float32)
        expected = feeds[name] - np.float32(RATE) * total
        np.testing.assert_allclose(outputs[f"{name}.next"], expected, atol=1e-7, rtol=1e-6)
        if asked is FEEDBACK:
            left = sum(own - part for own, part in zip(own_gradients, rounded, strict=True))
            atol = 2e-5 * np.abs(own_gradients).max()
            np.testing.assert_allclose(outputs[f"{name}.residual.next"], left, atol=atol)
            assert np.abs(left).max() > 5 * atol


def _gradients_of_half(batch: Mapping[str, Array]) -> dict[str, Array]:
    """The gradients, as a step that delays them hands them on, of fewer samples: those of a batch whose other
    cotangents are zero."""
    machine = devices(2)
    strategy = _strategy(_given(), machine, "PS", Inexactness(1))
    step = Step(_content(_applied(_given(), machine, strategy)), threads=1)
    names = list(_parameters(step))
    step.run({name: np.concatenate([array, np.zeros_like(array)]) for name, array in batch.items()})
    return {name: step.states[f"{name}.delayed"][0].copy() for name in names}


@pytest.mark.parametrize(
    ("builder", "asked"), [("PS", Inexactness(2)), ("AllReduce", CAST), ("AllReduce", FEEDBACK)], ids=str
)
def test_programs_of_devices_compute_the_same(builder: str, asked: Inexactness, tmp_path: Path) -> None:
    """States that are sums stay on their devices."""
    machine = devices(2)
    strategy = _strategy(_given(), machine, builder, asked)
    step = _applied(_given(), machine, strategy)
    planned = LiftedStep(step.lifted, step.layout).planner(machine).planned(strategy)
    own = step.by_strategy(planned)
    save_program(programmed(own.graph, planned.plan, own.states), own.lifted, own.graph, tmp_path / "program")
    feeds = own.feeds()
    for state in step.layout.description.states:
        if state.role.is_sum:
            feeds[state.input] = np.random.default_rng(1).normal(0, 1e-3, feeds[state.input].shape)
            feeds[state.input] = feeds[state.input].astype(np.float32)
    result = run_program(tmp_path / "program", feeds)
    for name, got in zip(own.layout.outputs, result.outputs, strict=True):
        np.testing.assert_allclose(got, own.outputs(planned.plan, feeds)[name], rtol=2e-4, atol=2e-5)


def test_half_the_bytes_of_gradients_are_sent() -> None:
    machine = devices(3)
    given = LiftedStep(_given().lifted, _given().layout).planner(machine)
    strategy = _strategy(_given(), machine, "AllReduce", CAST)
    before = simulated(given.planned(exact(strategy)), given).communication_bytes
    step = _applied(_given(), machine, strategy)
    planner = LiftedStep(step.lifted, step.layout).planner(machine)
    after = simulated(planner.planned(strategy), planner).communication_bytes
    gradients = 4 * 2 * 2 * _given().parameters
    assert before - after == gradients // 2


def test_delayed_gradients_leave_nothing_to_wait_for() -> None:
    """Computing and sending overlap entirely: the step takes what the longer one takes, or nearly."""
    machine = devices(3)
    given = LiftedStep(_given().lifted, _given().layout).planner(machine)
    strategy = _strategy(_given(), machine, "PSLoadBalancing", Inexactness(1))
    step = _applied(_given(), machine, strategy)
    planner = LiftedStep(step.lifted, step.layout).planner(machine)
    before = simulated(given.planned(exact(strategy)), given).microseconds
    assert simulated(planner.planned(strategy), planner).microseconds < before


def _one(strategy: Strategy, synchronizer: Server | Collective) -> Strategy:
    first = replace(strategy.variables[0], synchronizer=synchronizer, partition=(), parts=())
    return replace(strategy, variables=(first, *strategy.variables[1:]))


def _parts(strategy: Strategy) -> Strategy:
    parts = (Part("a", Server("node0:GPU:0")), Part("b", Server("node0:GPU:1", staleness=2)))
    first = VariableSync(strategy.variables[0].name, None, (2, 1), parts)
    return replace(strategy, variables=(first, *strategy.variables[1:]))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda s: _one(s, Server("node0:GPU:0", sync=False)),
            "variable 'dense_0.kernel': sync is false, so that nothing bounds how late",
        ),
        (_parts, "variable 'dense_0.kernel': expected one staleness and compressor for all parts, got "),
        (lambda s: s, "it trains as one device does, with no staleness and no compressor"),
        (
            lambda s: _one(s, Server("node9:GPU:0", staleness=1)),
            "the cluster has no device 'node9:GPU:0'",
        ),
    ],
)
def test_what_cannot_be_applied_is_one_sentence(change: object, sentence: str) -> None:
    machine = devices(2)
    strategy = change(_strategy(_given(), machine, "PS", Inexactness()))  # pyright: ignore[reportCallIssue]
    with pytest.raises(InvalidOptionError) as caught:
        apply_strategy(_content(_given()), strategy, machine, None, 1.0)
    assert str(caught.value).startswith(f"strategy: {sentence}")
    assert "\n" not in str(caught.value)


def test_a_sparse_parameter_has_no_delayed_rows() -> None:
    step = explicit_step(zoo.build("light-ncf", batch=10))
    machine = devices(2)
    strategy = _strategy(step, machine, "Parallax", Inexactness(1))
    with pytest.raises(InvalidOptionError, match="expected a gradient that is summed whole for staleness 1"):
        apply_strategy(_content(step), strategy, machine, None, 1.0)


def _built(step: ExplicitStep, builder: str, asked: Inexactness) -> BuiltStrategy:
    machine = devices(2)
    return build_strategy(LiftedStep(step.lifted, step.layout), machine, builder, Setting(machine), asked)


def test_builders_without_servers_or_all_reduces_say_so() -> None:
    both = Inexactness(1, Compressor.CAST)
    for builder, asked, sentence in (
        ("AllReduce", Inexactness(1), "staleness: expected parameter servers, and AllReduce has none"),
        ("PS", CAST, "compressor: expected all-reduces, and PS has none"),
        ("PS", both, "compressor: expected all-reduces, and PS has none"),
        ("PS", Inexactness(50), "staleness: expected a staleness below 50, the number of losses"),
    ):
        with pytest.raises(InvalidOptionError, match=sentence):
            _built(_given(), builder, asked)


def test_clipping_leaves_no_gradient_out() -> None:
    """Not even of the first parameter of each shape."""
    assert _built(_equal_shapes(), "PS", Inexactness(1)).unchanged == 0


def test_a_scaled_loss_is_refused() -> None:
    """Gradients that wait, and residuals, would have the scale of another step."""
    step = explicit_step(zoo.build("light-mlp", batch=8), loss="cross-entropy", precision="f16")
    for builder, asked in (("PS", Inexactness(1)), ("AllReduce", FEEDBACK)):
        with pytest.raises(InvalidOptionError, match="expected a step that does not scale its loss"):
            _built(step, builder, asked)


def test_gradients_of_a_step_in_bfloat16_are_compressed() -> None:
    step = explicit_step(zoo.build("light-mlp", batch=8), loss="cross-entropy", precision="bf16")
    built = _built(step, "AllReduce", CAST)
    exactly = _built(step, "AllReduce", Inexactness())
    saved = exactly.simulation.communication_bytes - built.simulation.communication_bytes
    assert saved == 2 * 2 * step.parameters  # two bytes of each, sent twice


def test_one_device_has_no_sums() -> None:
    machine = devices(1)
    step = LiftedStep(_given().lifted, _given().layout)
    assert build_strategy(step, machine, "PS", Setting(machine), Inexactness()).unchanged == 0
    with pytest.raises(InvalidOptionError, match="staleness: expected a gradient that is summed whole"):
        build_strategy(step, machine, "PS", Setting(machine), Inexactness(1))


def test_strategies_can_be_applied_one_after_the_other() -> None:
    """The first one compresses the gradient of one parameter, the second delays that of another."""
    machine = devices(2)
    names = [
        variable.name for variable in LiftedStep(_given().lifted, _given().layout).planner(machine).variables
    ]
    servers, reduced = (
        exact(_strategy(_given(), machine, builder, Inexactness())) for builder in ("PS", "AllReduce")
    )
    first = _applied(_given(), machine, inexact(reduced, CAST, names[:1]))
    second = _applied(first, machine, inexact(servers, Inexactness(2), names[1:2]))
    assert second.layout.description.compressed == (names[0],)
    properties = [e.value for e in second.lifted.source.proto.metadata_props if e.key == PROPERTY]
    assert [one["parameter"] for one in json.loads(properties[0])["changes"]] == names[:2]
    assert len(properties) == 1
    with pytest.raises(InvalidOptionError, match="expected a step with gradients as they are computed"):
        _applied(second, machine, inexact(reduced, CAST, names[:1]))


def test_builders_leave_gradients_that_are_no_single_sum() -> None:
    """Tables of which rows are exchanged; the others are delayed."""
    step = explicit_step(zoo.build("light-ncf", batch=10))
    built = _built(step, "PS", Inexactness(2))
    delays = {one.name: Inexactness.asked_by(one).delay for one in built.strategy.variables}
    assert built.unchanged == 4
    assert sorted(delays.values()) == [0] * 4 + [2] * (len(delays) - 4)
    apply_strategy(_content(step), built.strategy, devices(2), None, 0.5)


def test_gradients_that_are_not_compressed_have_groups_of_their_own() -> None:
    step = explicit_step(zoo.build("light-ncf", batch=10))
    built = _built(step, "AllReduce", CAST)
    groups: dict[Compressor, set[int]] = {Compressor.NONE: set(), Compressor.CAST: set()}
    for variable in built.strategy.variables:
        for one in variable.synchronizers:
            assert isinstance(one, Collective)
            groups[one.compressor].add(one.group)
    assert groups == {Compressor.NONE: {1}, Compressor.CAST: {0}}


def test_losses_that_differ_too_much_are_refused() -> None:
    machine = devices(2)
    strategy = _strategy(_given(), machine, "PS", Inexactness(2))
    with pytest.raises(InvalidOptionError, match=r"tolerance: expected at least .* got 0"):
        apply_strategy(_content(_given()), strategy, machine, None, 0.0)
    found = apply_strategy(_content(_given()), strategy, machine, None, 0.5)
    assert 0 < found.losses.error <= 0.5
    assert "6 gradients applied 2 steps later; not equal to the given step" in found.sentence()


def test_a_strategy_is_planned_on_its_own_step_only() -> None:
    machine = devices(2)
    asked = {delay: _strategy(_given(), machine, "PS", Inexactness(delay)) for delay in (1, 2)}
    step = _applied(_given(), machine, asked[1])
    planner = LiftedStep(step.lifted, step.layout).planner(machine)
    planner.planned(exact(asked[1]))
    for wrong in (asked[2], _strategy(_given(), machine, "AllReduce", CAST)):
        with pytest.raises(InvalidOptionError, match="changes what is trained: write the step"):
            planner.planned(wrong)
    with pytest.raises(InvalidOptionError, match="expected a step with gradients as they are computed"):
        apply_strategy(_content(step), asked[1], machine, None, 1.0)


@pytest.mark.parametrize("builder", sorted(BUILDERS))
def test_every_builder_is_planned_on_a_step_with_delays(builder: str) -> None:
    """Without the delays of its own: the step keeps them."""
    machine = devices(3)
    step = _applied(_given(), machine, _strategy(_given(), machine, "PS", Inexactness(2)))
    planner = LiftedStep(step.lifted, step.layout).planner(machine)
    planned = planner.planned(build(builder, planner.variables, Setting(machine, chunk=3)))
    foretold = simulated(planned, planner)
    own = step.by_strategy(planned)
    np.testing.assert_allclose(own.losses(planned.plan, 4), step.losses(Plan(), 4), rtol=1e-5)
    executed = own.executed(planned.plan, foretold.order)
    assert executed.moved_bytes == foretold.communication_bytes
    peaks = tuple(executed.peaks.get(device, 0) for device in range(len(machine)))
    assert peaks == foretold.memory_bytes


def test_samples_of_another_shape_are_refused(tmp_path: Path) -> None:
    samples = tmp_path / "samples.npz"
    np.savez(samples, x=np.zeros((3, 2), np.float32))
    machine = devices(2)
    strategy = _strategy(_given(), machine, "PS", Inexactness(1))
    with pytest.raises(Exception, match="expected"):
        apply_strategy(_content(_given()), strategy, machine, samples, 1.0)
