"""Turns of kernels and gradients whose terms are reduced apart, with which joint fusion sends early."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
from numpy.random import default_rng
from onnx import TensorProto, helper, numpy_helper

from benchmarks.plans.disco_bound import Job, lower_bound, preemptive
from superopt.ir.plan import Plan
from superopt.optimizer.fusion.joint.baselines import baselines
from superopt.optimizer.fusion.joint.greedy import by_savings
from superopt.optimizer.fusion.joint.plans import plan_of
from superopt.optimizer.fusion.joint.refined import refined
from superopt.optimizer.fusion.joint.state import Joint
from superopt.optimizer.fusion.joint.streams import timed
from superopt.optimizer.fusion.joint.sums import GradientSums
from superopt.optimizer.fusion.joint.turns import densest_first, shortest_first
from superopt.optimizer.parallel.documents.cluster import parse_cluster
from superopt.optimizer.parallel.search.choices import everything
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulator
from tests.optimizer.parallel.explicit_steps import ExplicitStep, explicit_step
from tests.optimizer.parallel.fusions import problem, random_joint, simulator

SLOW_LINK = """
nodes:
  - {devices: 2, memory: 4 GiB, link: {bandwidth: 2 GB/s, latency: 1 us},
     device: {flops: 0.1 TFLOP/s, memory_bandwidth: 300 GB/s, launch: 0 us}}
"""
WORDS, WIDTH, LAYERS = 512, 32, 6


def _tied() -> onnx.ModelProto:
    """Dense layers between the look-up of words and a product with the same table."""
    random = default_rng(0)
    shapes = {"table": (WORDS, WIDTH)} | {f"w{layer}": (WIDTH, WIDTH) for layer in range(LAYERS)}
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) / np.float32(6), name)
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


def test_the_largest_sum_is_divided_first_and_every_division_computes_the_same() -> None:
    sums, step = _sums(), _step()
    whole = step.executed(Plan())
    divisions = list(sums.apart(sums.problem()))
    assert [len(nodes) for nodes in divisions] == sorted((len(nodes) for nodes in divisions), reverse=True)
    assert len(divisions) == 2
    for nodes in divisions:
        simulated = sums.simulator.simulate(plan_of(Joint.unfused(sums.problem(nodes))))
        executed = step.executed(simulated.plan, simulated.order)
        assert executed.moved_bytes == simulated.communication_bytes
        for one, other in zip(executed.outputs, whole.outputs, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def test_turns_fill_the_channels_early() -> None:
    """In a language model of two recurrent layers, the upper one's gradients are there before the lower one's
    if its kernels go first."""
    fused = by_savings(Joint.unfused(problem("light-lstm-lm")))
    times = [timed(fused).microseconds]
    for order in (densest_first, shortest_first):
        ordered = fused.copy()
        ordered.turns = order(fused)
        time = timed(ordered)
        times.append(time.microseconds)
        assert time.computing == timed(fused).computing
        assert sorted(time.order) == sorted(timed(fused).order)
        assert simulator("light-lstm-lm").simulate(plan_of(ordered)).microseconds == time.microseconds
    assert min(times[1:]) <= times[0]


def test_no_candidate_is_faster_than_the_bound() -> None:
    for seed in range(8):
        joint = random_joint(seed)
        bound = lower_bound(joint)
        assert timed(joint).computing <= bound <= timed(joint).microseconds * (1 + 1e-9)


def test_the_machine_of_a_bound_interrupts_jobs() -> None:
    assert preemptive([]) == 0
    assert preemptive([Job(0, 4, 0), Job(1, 2, 9)]) == 12
    assert preemptive([Job(0, 4, 0), Job(1, 2, 1)]) == 6
    assert preemptive([Job(5, 1, 0), Job(0, 1, 0)]) == 6
