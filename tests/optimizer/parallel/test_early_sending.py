"""Turns of kernels and gradients whose terms are reduced apart, with which joint fusion sends early."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import onnx
import pytest
from numpy.random import default_rng
from onnx import TensorProto, helper, numpy_helper

from benchmarks.plans.disco_bound import Job, lower_bound, on_channel, preemptive
from superopt.ir.plan import Plan
from superopt.optimizer.cost.machine import bytes_of
from superopt.optimizer.fusion.joint.baselines import baselines
from superopt.optimizer.fusion.joint.collectives import Collective
from superopt.optimizer.fusion.joint.plans import plan_of
from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.fusion.joint.refined import refined
from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.strategies import JOINT_FUSION, joint_plans
from superopt.optimizer.fusion.joint.streams import Timed, timed
from superopt.optimizer.fusion.joint.sums import GradientSums
from superopt.optimizer.fusion.joint.turns import densest_first, send_earlier_somewhere, shortest_first
from superopt.optimizer.parallel.documents.cluster import parse_cluster
from superopt.optimizer.parallel.search.choices import everything
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulator
from tests.optimizer.parallel.explicit_steps import ExplicitStep, explicit_step
from tests.optimizer.parallel.fusions import problem, random_joint, simulator
from tests.optimizer.parallel.fusions import sums as sums_of_gradients

SLOW_LINK = """
nodes:
  - {devices: 2, memory: 4 GiB, link: {bandwidth: 2 GB/s, latency: 1 us},
     device: {flops: 0.1 TFLOP/s, memory_bandwidth: 300 GB/s, launch: 0 us}}
"""
WORDS, WIDTH, LAYERS = 512, 32, 6


def _tied() -> onnx.ModelProto:
    """Dense layers between the look-up of words and a product with the same table."""
    numbers = default_rng(0)
    shapes = {"table": (WORDS, WIDTH)} | {f"w{layer}": (WIDTH, WIDTH) for layer in range(LAYERS)}
    weights = [
        numpy_helper.from_array(numbers.standard_normal(shape).astype(np.float32) / np.float32(6), name)
        for name, shape in shapes.items()
    ]
    nodes = [helper.make_node("Gather", ["table", "words"], ["h0"])]
    for layer in range(LAYERS):
        nodes += [
            helper.make_node("MatMul", [f"h{layer}", f"w{layer}"], [f"m{layer}"]),
            helper.make_node("Tanh", [f"m{layer}"], [f"h{layer + 1}"]),
        ]
    nodes += [
        helper.make_node("Transpose", ["table"], ["columns"], perm=[1, 0]),
        helper.make_node("MatMul", [f"h{LAYERS}", "columns"], ["y"]),
    ]
    words = helper.make_tensor_value_info("words", TensorProto.INT64, [8, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 16, WORDS])
    graph = helper.make_graph(nodes, "tied", [words], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@cache
def _step() -> ExplicitStep:
    return explicit_step(_tied(), "sgd", "cotangents")


@cache
def _sums() -> GradientSums:
    cluster = parse_cluster(SLOW_LINK, "slow")
    step = _step()
    simulated = Simulator(step.graph, cluster, ParallelObjective.LATENCY, step=step.states)
    return GradientSums(step.subject, everything, simulated)


def test_terms_of_a_tied_table_are_reduced_apart() -> None:
    """The product's term hides behind the backward pass; rows of the look-up are gathered. Executed, the plan
    computes the same, and sends what was foretold."""
    sums = _sums()
    together = sums.problem()
    rules = baselines(together)
    without = refined(together, rules, 0)
    found = refined(together, rules, 0, sums=sums)
    assert found.joint.problem is not together
    assert found.timed.microseconds < 0.95 * without.timed.microseconds
    simulated = sums.simulator.simulate(plan_of(found.joint))
    assert simulated.microseconds == found.timed.microseconds
    step = _step()
    executed, whole = step.executed(simulated.plan, simulated.order), step.executed(Plan())
    assert executed.moved_bytes == simulated.communication_bytes
    for one, other in zip(executed.outputs, whole.outputs, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def test_every_division_computes_the_same() -> None:
    """Rows of the look-up are gathered first; then its table is reduced, too."""
    sums, step = _sums(), _step()
    whole = step.executed(Plan())
    divisions = [*sums.apart(sums.problem())]
    names = [sorted(sums.subject.graph[node].operator.name for node in nodes) for nodes in divisions]
    assert names == [["add", "lookup_gradient", "transpose"], ["add", "transpose"]]
    for nodes in divisions:
        simulated = sums.simulator.simulate(plan_of(Joint.unfused(sums.problem(nodes))))
        executed = step.executed(simulated.plan, simulated.order)
        assert executed.moved_bytes == simulated.communication_bytes
        for one, other in zip(executed.outputs, whole.outputs, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def test_the_largest_value_is_divided_first_and_a_divided_one_no_more() -> None:
    """Of a network in which gradients are joined from parts, and one after another."""
    sums = sums_of_gradients("light-resnet18")
    problem = sums.problem()
    made = {one.node: sum(map(bytes_of, one.outputs)) for one in problem.simulation.operations.all}
    divisions = [*sums.apart(problem)]
    sizes = [max(made[node] for node in one) for one in divisions]
    assert len(set(sizes)) > 1
    assert sizes == sorted(sizes, reverse=True)
    assert divisions[0] not in [*sums.apart(sums.problem(divisions[0]))]


def test_turns_let_the_upper_layer_be_sent_first() -> None:
    """In a language model of two recurrent layers, the upper one's gradients are there before the lower one's
    if its kernels go first; in the order of time steps all are there at the end."""
    joint = Joint.unfused(_recurrent())
    before = timed(joint)
    for order in (densest_first, shortest_first):
        ordered = joint.copy()
        ordered.turns = order(joint)
        after = timed(ordered)
        assert after.computing == before.computing
        assert sorted(after.order) == sorted(before.order)
        assert _half_ready(after) < 0.8 * _half_ready(before)
        assert simulator("light-lstm-lm").simulate(plan_of(ordered)).microseconds == after.microseconds
        assert ordered.copy().turns == ordered.turns


def test_the_densest_bucket_is_next() -> None:
    """First the one with the most sending for its computing; the shortest one first is another order."""
    joint = Joint.unfused(_recurrent())
    first = {order: _first(joint, order(joint)) for order in (densest_first, shortest_first)}
    sent = {one: joint.problem.collective(terms).microseconds for one, terms in joint.buckets.items()}
    waits = {one: sum(joint.nodes[head].kernel.microseconds for head in _needed(joint, one)) for one in sent}
    density = {one: sent[one] / (waits[one] + 1e-3) for one in sent}
    assert waits[first[shortest_first]] == min(waits.values())
    assert density[first[densest_first]] == max(density.values())


def test_a_change_of_turns_that_is_none_leaves_all_as_it_is() -> None:
    changed = 0
    for seed in range(40):
        joint = random_joint(seed)
        known = timed(joint)
        turns = joint.turns
        is_changed = send_earlier_somewhere(joint, known, random.Random(seed))
        changed += is_changed
        assert is_changed or (joint.turns is turns and timed(joint) == known)
    assert 0 < changed < 40


def test_the_end_of_the_time_leaves_the_fastest_rule() -> None:
    rules = baselines(problem())
    found = refined(problem(), rules, 0, lambda: True, sums=sums_of_gradients())
    assert found.timed == min((rule.timed for rule in rules.values()), key=lambda time: time.microseconds)
    assert found.tried == len(rules)


def test_a_plan_that_does_not_fit_is_followed_by_simpler_ones() -> None:
    plans = [*joint_plans(problem(), sums_of_gradients(), JOINT_FUSION, 0, lambda: False, lambda *_: None)]
    times = [simulator().simulate(one.plan).microseconds for one in plans]
    rules = sorted(plans[0].baselines.values())
    assert times[2:] == rules
    assert times[0] <= times[1] <= rules[0]


def test_no_candidate_is_faster_than_the_bound() -> None:
    for seed in range(8):
        joint = random_joint(seed)
        bound = lower_bound(joint)
        assert timed(joint).computing <= bound <= timed(joint).microseconds * (1 + 1e-9)


def test_a_bound_knows_what_comes_before_and_after_a_bucket() -> None:
    """One reduction waits for everything: the bound is the sum of computing and sending."""
    joint = Joint.unfused(_sums().problem())
    for other in range(1, len(joint.bucket)):
        joint.combine(joint.bucket[0], joint.bucket[other])
    (number,) = (one for one, terms in joint.buckets.items() if len(terms) > 1)
    needed, size = _needed(joint, number), joint.problem.size
    after = [head for head in joint.nodes if size + number in _ancestors(joint, head)]
    heads = sum(joint.nodes[head].kernel.microseconds for head in (*needed, *after))
    sent = joint.problem.collective(joint.buckets[number]).microseconds
    assert lower_bound(joint) == pytest.approx(heads + sent)


def test_the_machine_of_a_bound_interrupts_jobs() -> None:
    assert preemptive([]) == 0
    assert preemptive([Job(0, 4, 0), Job(1, 2, 9)]) == 12
    assert preemptive([Job(0, 4, 0), Job(1, 2, 1)]) == 6
    assert preemptive([Job(5, 1, 0), Job(0, 1, 0)]) == 6


def test_phases_before_a_channel_is_used_are_no_tail() -> None:
    collective = Collective(((10.0, ((1, 10.0),)), (10.0, ((0, 10.0),)), (5.0, ())))
    assert on_channel(collective, 0) == Job(10.0, 10.0, 5.0)
    assert on_channel(collective, 1) == Job(0.0, 10.0, 15.0)
    assert on_channel(collective, 2) is None


@cache
def _recurrent() -> Problem:
    return sums_of_gradients("light-lstm-lm").problem()


def _half_ready(time: Timed) -> float:
    """When half of all buckets are ready."""
    return sorted(time.ready.values())[len(time.ready) // 2]


def _first(joint: Joint, turns: tuple[int, ...]) -> int:
    """The bucket all of whose kernels have the first turn."""
    return next(
        one
        for one in joint.buckets
        if all(turns[number] == 0 for head in _needed(joint, one) for number in joint.nodes[head].owned)
    )


def _needed(joint: Joint, bucket: int) -> list[int]:
    """The kernels that a bucket waits for."""
    size = joint.problem.size
    return [node for node in _ancestors(joint, size + bucket) if node < size]


def _ancestors(joint: Joint, node: int) -> set[int]:
    found = set[int]()
    waiting = [node]
    while waiting:
        new = joint.before(waiting.pop()) - found
        found |= new
        waiting.extend(new)
    return found
