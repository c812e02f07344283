"""Training steps on several devices: plans of the graph that computes loss, gradients and updates."""

from __future__ import annotations

import random
import sys
from dataclasses import replace

import numpy as np
import pytest

from superopt import zoo
from superopt.errors import InvalidOptionError
from superopt.ir.graph import NodeId
from superopt.ir.plan import Fetch, Parallelism, Plan, Residence
from superopt.onnx_io import build_model
from superopt.optimizer.parallel.experts import ONE_DEVICE, Assignment, assignments, experts
from superopt.optimizer.parallel.search.candidates import Origin
from superopt.optimizer.parallel.search.choices import COPIED
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.planner import Planner
from superopt.optimizer.parallel.search.subject import Operation
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulation, Simulator, simulate
from superopt.optimizer.parallel.tasks import splits_of
from superopt.optimizer.parallel.terms import TermDimension
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.parallel.training_plans.derived import LayerDivision
from superopt.optimizer.parallel.training_plans.resident_states import prefetched
from superopt.optimizer.parallel.training_plans.sharded_states import DDP, SERVERS, ZERO_1, ZERO_2, ZERO_3
from superopt.optimizer.training.description import Role
from tests.optimizer.parallel.explicit_steps import ExplicitStep, explicit_step
from tests.optimizer.parallel.networks import devices, mlp
from tests.optimizer.parallel.random_plans import DEVICES, random_arrays, random_plan, random_residence
from tests.optimizer.parallel.simulated import cluster

COLUMNS, REDUCED = 1, 2
LATENCY = ParallelObjective.LATENCY
PLANS = 12
MANY_PLANS = 300
TRAINED, RANDOM = 20, 3
CHANGES = 12
READ_TWICE = 4 * (32 * 16 + 16 * 10)
ADAM_STEP = 2e-3
"""Adam divides a gradient by its size: where that is hardly above 0, rounding decides about the direction."""


def _unitys_mlp() -> bytes:
    graph = mlp(64, 784, 512, 10)
    return build_model(graph, random_arrays(graph))


def _data_parallel(step: ExplicitStep, count: int) -> Simulation:
    found = _strategies(step, devices(count))
    return simulate(step.graph, found[DDP], devices(count), LATENCY, step.states)


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


@pytest.mark.parametrize(
    ("labels", "elements", "others"),
    [
        pytest.param((REDUCED, COPIED, COLUMNS), 131_072, 2, id="figure 2b: rows, copies, columns"),
        pytest.param((COLUMNS, COLUMNS, REDUCED), 1_280, 0, id="columns, then rows"),
    ],
)
def test_operator_parallelism_sends_what_unity_says(
    labels: tuple[int, ...], elements: int, others: int
) -> None:
    """Unity's figure 2: the first product, relu, the second; gradients and updates follow. ``others`` are
    elements of the loss."""
    step, machine = explicit_step(_unitys_mlp()), devices(2)
    subject, mesh = step.subject, Mesh.of(machine)

    def without_terms(operation: Operation, dimension: int) -> bool:
        return not isinstance(operation.splits.dimensions[dimension], TermDimension)

    forward = {operation.node: label for operation, label in zip(subject.operations, labels, strict=False)}
    choices = LayerDivision(subject, mesh, without_terms, (0,), forward).choices()
    plan = Assignment(mesh, tuple(choices), {}).plan(subject)
    assert _simulated(step, plan, 2).communication_bytes == 4 * (elements + others)


def test_samples_are_divided_as_far_as_their_number_allows() -> None:
    """Two groups of three devices: 8 samples are not divided into six parts."""
    step = explicit_step(zoo.build("light-mlp", batch=8), loss="cross-entropy")
    assert _data_parallel(step, 6).communication_bytes == 3 * _data_parallel(step, 2).communication_bytes


def test_gradients_of_an_unrolled_network_are_added_before_they_are_reduced() -> None:
    """The rows of the embedding table travel instead of its gradient."""
    step = explicit_step(zoo.build("light-lstm-lm", batch=8), loss="cross-entropy")
    assert _data_parallel(step, 2).communication_bytes < 4 * 2 * step.parameters


def random_step_plan(draw: random.Random, step: ExplicitStep) -> Plan:
    """One with inputs in parts, for every other step."""
    plan = random_plan(draw, step.graph)
    return replace(plan, residence=random_residence(draw, step.graph)) if draw.random() < 0.5 else plan


def check(step: ExplicitStep, seed: int) -> Simulation:
    """One random plan, against the step on one device: values, bytes sent, and the peak of each device."""
    plan = random_step_plan(random.Random(seed), step)
    foretold = simulate(step.graph, plan, cluster(1, DEVICES), LATENCY, step.states)
    whole = step.executed(Plan())
    parallel = step.executed(plan, foretold.order)
    parameters = {state.output for state in step.layout.description.with_role(Role.PARAMETER)}
    for name, expected, got in zip(step.layout.outputs, whole.outputs, parallel.outputs, strict=True):
        slack = ADAM_STEP if name in parameters else 2e-5
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=slack, err_msg=f"plan {seed}, {name}")
    assert parallel.moved_bytes == foretold.communication_bytes, f"plan {seed}"
    peaks = tuple(parallel.peaks.get(device, 0) for device in range(DEVICES))
    assert peaks == foretold.memory_bytes, f"plan {seed}"
    return foretold


def _random_steps() -> tuple[ExplicitStep, ...]:
    return (
        explicit_step(zoo.build("light-mlp", batch=8), "adam", "cross-entropy"),
        explicit_step(zoo.build("light-ncf", batch=8), "momentum"),
        explicit_step(_unitys_mlp(), "sgd"),
    )


def test_random_plans_of_steps_compute_send_and_hold_what_was_foretold() -> None:
    """``python -m tests.optimizer.parallel.test_steps`` checks more of them."""
    steps = _random_steps()
    for seed in range(PLANS):
        check(steps[seed % len(steps)], seed)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_states_of_data_parallelism_stay_where_they_are(count: int) -> None:
    """Every device holds the parameter, its gradient until it is reduced, and its next value."""
    step = explicit_step(_unitys_mlp())
    simulation = _data_parallel(step, count)
    names = _strategies(step, devices(count))
    again = simulate(step.graph, names[DDP], devices(count), LATENCY)
    assert simulation.communication_bytes == again.communication_bytes
    assert min(simulation.memory_bytes) > 2 * 4 * step.parameters


def test_a_state_that_is_updated_elsewhere_is_sent_back() -> None:
    """The next value of a parameter is computed on device 1, and read by the first product on device 0."""
    step = explicit_step(build_model(mlp(4, 8, 8), random_arrays(mlp(4, 8, 8))))
    update = step.graph[next(state.next.node for state in step.states.states if state.name == "w1")]
    splits = splits_of(step.graph, update)
    plan = Plan(parallel={update.id: Parallelism((1,) * len(splits.dimensions), (1,))})
    sent = [simulate(step.graph, plan, devices(2), LATENCY, states) for states in (None, step.states)]
    assert [simulation.communication_bytes for simulation in sent] == [4 * 8 * 8, 2 * 4 * 8 * 8]
    assert step.executed(plan).moved_bytes == sent[1].communication_bytes


def test_the_search_is_not_slower_than_data_parallelism() -> None:
    step = explicit_step(_unitys_mlp())
    planned = Planner(devices(2), LATENCY, layout=step.layout).plan(step.graph)
    assert planned.best.simulation.microseconds <= _data_parallel(step, 2).microseconds


def test_the_estimate_of_the_search_counts_states() -> None:
    """Next values that are sent to where they are read, and what is held throughout a step."""
    step, machine = explicit_step(_unitys_mlp(), "adam"), devices(4)
    mapper = Planner(machine, LATENCY, layout=step.layout).mapper(step.subject, Mesh.of(machine))
    estimates: dict[str, float] = {}
    for name, assignment in assignments(step.subject, Mesh.of(machine)):
        if assignment.residence:
            continue
        estimate = mapper.mapping(name, assignment.choices)
        exact = simulate(step.graph, assignment.plan(step.subject), machine, LATENCY, step.states)
        assert 0.7 * max(exact.memory_bytes) < estimate.memory < 1.1 * max(exact.memory_bytes), name
        assert estimate.estimate > 0.99 * exact.microseconds, name
        estimates[name] = estimate.estimate
    assert estimates[ONE_DEVICE] < estimates[ZERO_2] < estimates[SERVERS] < estimates[DDP]


def test_the_search_divides_states_where_nobody_asks_for_it() -> None:
    step = explicit_step(_unitys_mlp(), "adam")
    planned = Planner(devices(4), LATENCY, layout=step.layout).plan(step.graph)
    mapped = [found for found in planned.candidates if found.proposal.origin is Origin.MAPPING]
    fastest = min(mapped, key=lambda found: found.rank).simulation
    for expert in planned.experts:
        assert fastest.microseconds < expert.simulation.microseconds
        is_gathered = bool(expert.plan.residence)
        assert is_gathered or max(fastest.memory_bytes) < max(expert.simulation.memory_bytes)


def _strategies(step: ExplicitStep, machine: Cluster) -> dict[str, Plan]:
    return {expert.name: expert.plan for expert in experts(step.subject, Mesh.of(machine))}


def test_plans_with_shared_states_send_and_hold_what_they_say() -> None:
    """ZeRO-2 and parameter servers send what data parallelism sends, ZeRO-1 half as much again; both stages
    halve the two moments. ZeRO-3 sends no next parameters, but every one before it is used, and again those
    that the backward pass reads, which are all but biases and the weight of the first layer."""
    step = explicit_step(zoo.build("light-mlp", batch=8), "adam", "cross-entropy")
    sent: dict[str, int] = {}
    held: dict[str, int] = {}
    for name, plan in _strategies(step, devices(2)).items():
        foretold = simulate(step.graph, plan, devices(2), LATENCY, step.states)
        executed = step.executed(plan, foretold.order)
        assert executed.moved_bytes == foretold.communication_bytes, name
        assert tuple(executed.peaks.get(device, 0) for device in range(2)) == foretold.memory_bytes, name
        sent[name], held[name] = foretold.communication_bytes, foretold.memory_bytes[0]
    parameters = 4 * step.parameters
    assert sent[ZERO_2] == sent[SERVERS] == sent[DDP] == 2 * parameters + 4 * 4
    assert sent[ZERO_1] == sent[DDP] + parameters
    assert sent[ZERO_3] == sent[ZERO_2] + READ_TWICE
    assert held[ZERO_3] < held[ZERO_2] < held[ZERO_1] < held[DDP] - parameters


def test_a_plan_with_shared_states_is_found_where_data_parallelism_does_not_fit() -> None:
    step = explicit_step(_unitys_mlp(), "adam")
    plans = _strategies(step, devices(2))
    held = {
        name: max(simulate(step.graph, plans[name], devices(2), LATENCY, step.states).memory_bytes)
        for name in (DDP, ZERO_2)
    }
    machine = devices(2, memory=(held[DDP] + held[ZERO_2]) // 2)
    planned = Planner(machine, LATENCY, layout=step.layout).plan(step.graph)
    assert planned.best.fits
    assert not next(found for found in planned.experts if found.proposal.name == DDP).fits


def test_states_are_kept_in_parts_where_nothing_else_fits() -> None:
    """With memory between what ZeRO-2 and ZeRO-3 need, only plans with states in parts fit; fetches that are
    issued early make them faster."""
    step = explicit_step(_unitys_mlp(), "adam")
    plans = _strategies(step, devices(2))
    needs = {name: _simulated(step, plans[name], 2) for name in (ZERO_2, ZERO_3)}
    limit = max(needs[ZERO_3].memory_bytes) + 4096
    assert limit < max(needs[ZERO_2].memory_bytes)
    planned = Planner(devices(2, memory=limit), LATENCY, layout=step.layout).plan(step.graph)
    assert planned.best.fits
    assert planned.best.plan.residence
    expert = next(found for found in planned.experts if found.proposal.name == ZERO_3)
    assert expert.fits
    assert planned.best.simulation.microseconds <= expert.simulation.microseconds
    assert expert.simulation.microseconds < needs[ZERO_3].microseconds


def test_fetches_that_are_gathered_together_pay_the_latency_once() -> None:
    step = explicit_step(zoo.build("light-mlp", batch=8), "sgd", "cross-entropy")
    machine = cluster(2, 1)
    plan = _strategies(step, machine)[ZERO_3]
    apart = simulate(step.graph, plan, machine, LATENCY, step.states)
    together = simulate(step.graph, prefetched(apart, 1.0, 1 << 20), machine, LATENCY, step.states)
    fetches = [
        sum(1 for event in found.timeline() if event.name.startswith("fetch of"))
        for found in (apart, together)
    ]
    assert fetches[1] < fetches[0]
    assert together.communication_bytes == apart.communication_bytes
    assert together.channel_microseconds.max() < apart.channel_microseconds.max()


def _simulated(step: ExplicitStep, plan: Plan, count: int) -> Simulation:
    return simulate(step.graph, plan, devices(count), LATENCY, step.states)


def test_changes_of_plans_with_states_in_parts_are_simulated_as_a_whole() -> None:
    """An operator that is divided in another way reads other parts, and other fetches."""
    step = explicit_step(zoo.build("light-mlp", batch=8), "momentum", "cross-entropy")
    draw = random.Random(5)
    simulator = Simulator(step.graph, cluster(1, DEVICES), LATENCY, step=step.states)
    plan = replace(random_plan(draw, step.graph), residence=random_residence(draw, step.graph))
    base = simulator.simulate(plan)
    for seed in range(CHANGES):
        other = random_plan(random.Random(seed), step.graph)
        node = draw.choice(list(other.parallel))
        plan = replace(plan, parallel={**plan.parallel, node: other.parallel[node]})
        base = simulator.delta(plan, [node], base)
        anew = simulate(step.graph, plan, cluster(1, DEVICES), LATENCY, step.states)
        assert base.microseconds == anew.microseconds
        assert base.memory_bytes == anew.memory_bytes
        assert base.communication_bytes == anew.communication_bytes


@pytest.mark.parametrize(
    ("kept", "sentence"),
    [
        (Residence((3, 1), (0, 1, 2)), r"the degrees \(3, 1\) do not divide its sizes \(784, 512\)"),
        (Residence((2, 1), (0, 1), fetches=(Fetch((NodeId(99_999),)),)), "which does not read it"),
    ],
)
def test_an_impossible_residence_is_refused(kept: Residence, sentence: str) -> None:
    step = explicit_step(_unitys_mlp())
    plan = Plan(residence={step.states.states[0].input: kept})
    with pytest.raises(InvalidOptionError, match=sentence):
        _simulated(step, plan, 4)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_losses_of_plans_are_those_of_one_device(optimizer: str) -> None:
    """``TRAINED`` steps, each from the states that the last one left."""
    step = explicit_step(zoo.build("light-mlp", batch=8), optimizer, "cross-entropy")
    plans = _strategies(step, cluster(1, DEVICES))
    plans |= {f"random {seed}": random_step_plan(random.Random(seed), step) for seed in range(RANDOM)}
    alone = step.losses(Plan(), TRAINED)
    assert alone[-1] < 0.9 * alone[0]
    for name, plan in plans.items():
        np.testing.assert_allclose(step.losses(plan, TRAINED), alone, rtol=1e-5, err_msg=name)


def check_losses(count: int) -> float:
    """The largest relative difference of the losses of ``TRAINED`` steps under so many random plans from
    those of one device."""
    step = explicit_step(zoo.build("light-mlp", batch=8), "adam", "cross-entropy")
    alone = np.array(step.losses(Plan(), TRAINED))
    apart = 0.0
    for seed in range(count):
        losses = np.array(step.losses(random_step_plan(random.Random(seed), step), TRAINED))
        apart = max(apart, float((abs(losses - alone) / alone).max()))
    return apart


def main() -> int:
    """Checks many plans; with the word ``losses``, losses of training under them."""
    count = next((int(word) for word in sys.argv[1:] if word.isdigit()), MANY_PLANS)
    if "losses" in sys.argv[1:]:
        apart = check_losses(count)
        sys.stdout.write(
            f"{count} plans, {TRAINED} steps: losses differ by up to {apart:.1e} of their value\n"
        )
        return 0 if apart <= 1e-5 else 1
    steps = _random_steps()
    for seed in range(count):
        check(steps[seed % len(steps)], seed)
    sys.stdout.write(f"{count} plans of steps: outputs equal, bytes sent and peaks as foretold\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
