"""The order in which a step's operations are issued: no device waits for a sum while it could compute."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from statistics import geometric_mean

import pytest

from superopt import zoo
from superopt.errors import InvalidOptionError
from superopt.ir.plan import Plan
from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.streams import timed
from superopt.optimizer.parallel.documents.cluster import named_cluster
from superopt.optimizer.parallel.experts import experts
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulation, Simulator
from superopt.optimizer.parallel.training_plans.sharded_states import DDP, SERVERS
from tests.optimizer.parallel.explicit_steps import ExplicitStep, explicit_step
from tests.optimizer.parallel.fusions import problem

NETWORKS = ("light-bert", "light-resnet18", "light-ncf")
MACHINES = ("4x-t4", "autodist-a2", "dgx-a100")


@cache
def _step(model: str) -> ExplicitStep:
    return explicit_step(zoo.build(model, batch=88), "adam")


@cache
def _simulations(model: str, machine: str) -> dict[str, tuple[Simulation, Simulation]]:
    """Each expert plan in its own order, and by the longest path."""
    step, cluster = _step(model), named_cluster(machine)
    simulator = Simulator(step.graph, cluster, ParallelObjective.LATENCY, step=step.states)
    numbered = tuple(operation.node for operation in simulator.operations.all)
    return {
        name: (simulator.simulate(plan), simulator.simulate(replace(plan, order=numbered)))
        for name, plan in _experts(step, machine).items()
        if not plan.residence
    }


def _experts(step: ExplicitStep, machine: str) -> dict[str, Plan]:
    return {one.name: one.plan for one in experts(step.subject, Mesh.of(named_cluster(machine)))}


@pytest.mark.parametrize("model", NETWORKS)
@pytest.mark.parametrize("machine", MACHINES)
def test_experts_are_faster_than_by_the_longest_path(model: str, machine: str) -> None:
    """In the mean; list scheduling has no guarantee for one plan."""
    gains: list[float] = []
    for name, (own, numbered) in _simulations(model, machine).items():
        assert own.microseconds <= 1.02 * numbered.microseconds, name
        assert own.communication_bytes == numbered.communication_bytes
        assert sorted(own.order) == sorted(numbered.order)
        gains.append(numbered.microseconds / own.microseconds)
    assert geometric_mean(gains) > 1


def test_data_parallelism_computes_or_sends_all_the_time() -> None:
    """No order is faster: one channel, or one device, is always busy."""
    own, numbered = _simulations("light-bert", "4x-t4")[DDP]
    busiest = max(own.busy_microseconds.max(), own.channel_microseconds.max())
    assert own.microseconds < 1.02 * busiest < numbered.microseconds


def test_servers_send_parameters_back_before_the_backward_pass_ends() -> None:
    """Sending takes longer than the update that precedes it."""
    own, _ = _simulations("light-bert", "4x-t4")[SERVERS]
    step = _step("light-bert")
    computed = {operation.node for operation in step.subject.operations}
    updates = {state.next.node for state in step.states.states}
    place = {node: position for position, node in enumerate(own.order)}
    first = min(place[node] for node in updates & computed)
    assert first < len(place) / 2


def test_joint_fusion_without_kernels_is_the_plan_without_an_order() -> None:
    assert timed(Joint.unfused(problem())).microseconds == problem().simulation.microseconds


def test_a_step_is_no_pipeline() -> None:
    """Its microbatches would update the states one after the other."""
    step = _step("light-ncf")
    simulator = Simulator(step.graph, named_cluster("4x-t4"), ParallelObjective.LATENCY, step=step.states)
    plan = _experts(step, "4x-t4")[DDP]
    with pytest.raises(
        InvalidOptionError, match=r"one stage and one microbatch for a training step.* got 1 and 2"
    ):
        simulator.simulate(replace(plan, microbatches=2))
