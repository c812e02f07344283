"""Strategies that delay or compress gradients: the step that is made trains what they say, and its plans send
what is foretold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from superopt.domains import Array
from superopt.ir.plan import Plan
from superopt.journeys.planning.lifted_steps import LiftedStep
from superopt.optimizer.parallel.execution.program import run_program, save_program
from superopt.optimizer.parallel.shards import programmed
from superopt.optimizer.parallel.strategies.auto import simulated
from superopt.optimizer.parallel.strategies.inexact import Inexactness, exact
from superopt.optimizer.training.running import Step
from tests.optimizer.parallel.explicit_steps import ExplicitStep
from tests.optimizer.parallel.inexact_steps import (
    CAST,
    FEEDBACK,
    RATE,
    SAMPLES,
    content_of,
    given_step,
    step_of_equal_shapes,
    step_of_strategy,
    strategy_for,
)
from tests.optimizer.parallel.networks import devices

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
    strategy = strategy_for(given_step(optimizer), machine, builder, asked)
    step = step_of_strategy(given_step(optimizer), machine, strategy)
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
    step = Step(content_of(given), threads=1)
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
    step = Step(content_of(given), threads=1)
    for name, value in parameters.items():
        step.states[name][...] = value
    before = _parameters(step)
    step.run(batch)
    after = _parameters(step)
    return {name: (before[name] - after[name]) / RATE for name in parameters}


@pytest.mark.parametrize("delay", [1, 3])
@pytest.mark.parametrize("given", [given_step, partial(given_step, "sgd", 0.01), step_of_equal_shapes])
def test_a_gradient_is_applied_that_many_steps_later(given: Callable[[], ExplicitStep], delay: int) -> None:
    """Beside gradients of the given step in a queue; the norm is that of the gradients that are applied."""
    machine = devices(2)
    strategy = strategy_for(given(), machine, "PS", Inexactness(delay))
    step = Step(content_of(step_of_strategy(given(), machine, strategy)), threads=1)
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
    strategy = strategy_for(given_step(), machine, "AllReduce", asked)
    step = step_of_strategy(given_step(), machine, strategy)
    planned = LiftedStep(step.lifted, step.layout).planner(machine).planned(strategy)
    own = step.by_strategy(planned)
    (batch,) = _batches(given_step(), 1)
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
    strategy = strategy_for(given_step(), machine, "PS", Inexactness(1))
    step = Step(content_of(step_of_strategy(given_step(), machine, strategy)), threads=1)
    names = list(_parameters(step))
    step.run({name: np.concatenate([array, np.zeros_like(array)]) for name, array in batch.items()})
    return {name: step.states[f"{name}.delayed"][0].copy() for name in names}


@pytest.mark.parametrize(
    ("builder", "asked"), [("PS", Inexactness(2)), ("AllReduce", CAST), ("AllReduce", FEEDBACK)], ids=str
)
def test_programs_of_devices_compute_the_same(builder: str, asked: Inexactness, tmp_path: Path) -> None:
    """States that are sums stay on their devices."""
    machine = devices(2)
    strategy = strategy_for(given_step(), machine, builder, asked)
    step = step_of_strategy(given_step(), machine, strategy)
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
    given = LiftedStep(given_step().lifted, given_step().layout).planner(machine)
    strategy = strategy_for(given_step(), machine, "AllReduce", CAST)
    before = simulated(given.planned(exact(strategy)), given).communication_bytes
    step = step_of_strategy(given_step(), machine, strategy)
    planner = LiftedStep(step.lifted, step.layout).planner(machine)
    after = simulated(planner.planned(strategy), planner).communication_bytes
    gradients = 4 * 2 * 2 * given_step().parameters
    assert before - after == gradients // 2


def test_delayed_gradients_leave_nothing_to_wait_for() -> None:
    """Computing and sending overlap entirely: the step takes what the longer one takes, or nearly."""
    machine = devices(3)
    given = LiftedStep(given_step().lifted, given_step().layout).planner(machine)
    strategy = strategy_for(given_step(), machine, "PSLoadBalancing", Inexactness(1))
    step = step_of_strategy(given_step(), machine, strategy)
    planner = LiftedStep(step.lifted, step.layout).planner(machine)
    before = simulated(given.planned(exact(strategy)), given).microseconds
    assert simulated(planner.planned(strategy), planner).microseconds < before
