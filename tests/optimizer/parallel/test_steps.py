"""Training steps on several devices: plans of the graph that computes loss, gradients and updates."""

from __future__ import annotations

import random

import numpy as np
import pytest

from superopt import zoo
from superopt.ir.plan import Plan
from superopt.onnx_io import build_model
from superopt.optimizer.parallel.execution import HostMachine, execute
from superopt.optimizer.parallel.experts import DATA_PARALLEL_STEP, experts
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.planner import Planner
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulation, simulate
from tests.optimizer.parallel.explicit_steps import ExplicitStep, explicit_step
from tests.optimizer.parallel.networks import devices, mlp
from tests.optimizer.parallel.random_plans import DEVICES, random_arrays, random_plan
from tests.optimizer.parallel.simulated import cluster

LATENCY = ParallelObjective.LATENCY
PLANS = 12


def _unitys_mlp() -> bytes:
    graph = mlp(64, 784, 512, 10)
    return build_model(graph, random_arrays(graph))


def _data_parallel(step: ExplicitStep, count: int) -> Simulation:
    found = {expert.name: expert.plan for expert in experts(step.subject, Mesh.of(devices(count)))}
    return simulate(step.graph, found[DATA_PARALLEL_STEP], devices(count), LATENCY)


@pytest.mark.parametrize(
    ("model", "loss", "gradients", "others"),
    [
        ("Unity's", "cotangents", 813_056, 2),
        ("candle-uno", "mse", 2 * 21_275_001, 4),
        ("light-mlp", "cross-entropy", 2 * 2_778, 4),
    ],
)
def test_data_parallelism_sends_every_gradient_once(
    model: str, loss: str, gradients: int, others: int
) -> None:
    """A weight that several operators share has one gradient; ``others`` are elements of losses."""
    built = _unitys_mlp() if model == "Unity's" else zoo.build(model, batch=4)
    step = explicit_step(built, loss=loss)
    assert gradients == 2 * step.parameters
    assert _data_parallel(step, 2).communication_bytes == 4 * (gradients + others)


def test_gradients_of_an_unrolled_network_are_added_before_they_are_reduced() -> None:
    """The rows of the embedding table travel instead of its gradient."""
    step = explicit_step(zoo.build("light-lstm-lm", batch=8), loss="cross-entropy")
    assert _data_parallel(step, 2).communication_bytes < 4 * 2 * step.parameters


def test_random_plans_of_a_step_compute_what_it_computes_and_move_what_was_foretold() -> None:
    step = explicit_step(zoo.build("light-mlp", batch=8), "adam", "cross-entropy")
    machine = HostMachine(step.lifted.source)
    whole = execute(step.graph, Plan(), step.weights, step.feeds(), machine)
    for seed in range(PLANS):
        plan = random_plan(random.Random(seed), step.graph)
        parallel = execute(step.graph, plan, step.weights, step.feeds(), machine)
        for expected, got in zip(whole.outputs, parallel.outputs, strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)
        foretold = simulate(step.graph, plan, cluster(1, DEVICES), LATENCY)
        assert parallel.moved_bytes == foretold.communication_bytes


def test_the_search_is_not_slower_than_data_parallelism() -> None:
    step = explicit_step(_unitys_mlp())
    planned = Planner(devices(2), LATENCY, layout=step.layout).plan(step.graph)
    assert planned.best.simulation.microseconds <= _data_parallel(step, 2).microseconds
