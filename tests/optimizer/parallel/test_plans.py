"""The search for plans, the plans of experts, and plans from outside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from superopt.equations import parse_equation
from superopt.errors import InvalidFileError, InvalidModelError
from superopt.ir.dimensions import symbol
from superopt.ir.graph import Graph, Input
from superopt.ir.types import ElementType, TensorType
from superopt.ops.elementwise.activation import Relu
from superopt.ops.elementwise.arithmetic import Add
from superopt.ops.filled import Ones
from superopt.ops.matrix import Matmul
from superopt.optimizer.parallel.cluster_advice import repeated, suggest_cluster
from superopt.optimizer.parallel.documents.plan_text import plan_from_json, plan_to_json
from superopt.optimizer.parallel.search.branches import blocks
from superopt.optimizer.parallel.search.candidates import Origin
from superopt.optimizer.parallel.search.mcmc import Metropolis
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.planner import Planner
from superopt.optimizer.parallel.search.subject import Subject, plannable
from superopt.optimizer.parallel.search.substitution import Substitutions
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulator
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.search import RuleSet
from superopt.rewriting import substitutions_of
from tests.optimizer.graphs import Builder
from tests.optimizer.parallel.networks import devices, mlp, twins

LATENCY, THROUGHPUT = ParallelObjective.LATENCY, ParallelObjective.THROUGHPUT


@pytest.mark.parametrize("objective", [LATENCY, THROUGHPUT])
@pytest.mark.parametrize("graph", [mlp(48, 64, 256, 64), mlp(1, 64, 64), twins(6, 512)])
def test_no_expert_and_no_sample_is_faster(graph: Graph, objective: ParallelObjective) -> None:
    cluster = devices(6)
    planned = Planner(cluster, objective).plan(graph)
    ours = planned.best.simulation.microseconds
    assert planned.best.fits
    assert {"one device", "data parallel"} <= {expert.proposal.name for expert in planned.experts}
    assert all(ours <= expert.simulation.microseconds for expert in planned.experts)
    simulator = Simulator(graph, cluster, objective)
    sampler = Metropolis(
        planned.subject,
        Mesh.of(cluster),
        lambda plan, changed: simulator.delta(plan, changed).microseconds,
    )
    assert ours <= sampler.run([planned.experts[0].plan], 0, proposals=100).microseconds


def test_a_rewritten_graph_has_a_better_plan() -> None:
    builder = Builder()
    x = builder.input("x", 64, 1024)
    left, right = (builder.add(Matmul(), x, builder.weight(1024, 128)) for _ in range(2))
    graph = builder.graph(builder.add(Relu(), builder.add(Add(), left, right)))
    rule = parse_equation("add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))")
    planner = Planner(devices(6), LATENCY)
    found = Substitutions(RuleSet(substitutions_of(rule, "sum")), planner.estimate, lambda: False).run(graph)
    assert [step.rule for step in found[0].trace] == ["sum"]
    plain, joint = (planner.plan(other).best.simulation.microseconds for other in (graph, found[0].graph))
    assert joint < 0.8 * plain


def test_a_search_that_is_late_says_so_and_is_no_slower_than_experts() -> None:
    planner = Planner(devices(6), LATENCY, deadline=0.0)
    planned = planner.plan(mlp(48, 64, 256, 64))
    assert planner.was_cut
    assert planned.best.rank == planned.experts[0].rank
    assert {candidate.proposal.origin for candidate in planned.candidates} == {Origin.EXPERT}


def test_dense_layers_are_divided_by_columns_then_rows_as_in_megatron() -> None:
    planned = Planner(devices(4), LATENCY).plan(mlp(8, 4096, 16384, 4096))
    degrees = [planned.best.plan.parallel[operation.node].degrees for operation in planned.subject.operations]
    assert degrees[:2] == [(1, 4, 1), (1, 4)]
    assert degrees[2][2] > 1


def test_branches_run_on_shares_of_the_machine() -> None:
    graph = twins(1, 256)
    assert [len(block.branches) for block in blocks(Subject.of(graph))] == [2]
    planned = Planner(devices(2), LATENCY).plan(graph)
    used = {how.devices for how in planned.best.plan.parallel.values()}
    assert {(0,), (1,)} <= used


def test_plans_stay_within_memory_and_say_what_would_be_enough() -> None:
    graph = mlp(8, 1024, 1024, 1024, 1024, 1024)
    weights = 4 * 4 * 1024 * 1024
    fitting = Planner(devices(4, memory=weights // 2), LATENCY).plan(graph)
    assert fitting.best.fits
    assert not any(expert.fits for expert in fitting.experts if expert.proposal.name == "data parallel")
    planner = Planner(devices(2, memory=weights // 6), LATENCY)
    planned = planner.plan(graph)
    assert not planned.best.fits
    answer = suggest_cluster(planned.subject, planner, 2**30)
    assert answer.startswith("8 such devices would be enough, or 1.00 GiB on each of its devices")


def test_no_number_of_devices_is_said_to_be_too_small_that_was_not_tried() -> None:
    for count, graph, answer in (
        (513, mlp(8, 1024, 1024), "more than 513 such devices are needed"),
        (2, mlp(1, 1, 1), "more devices are not enough, because no plan divides it further"),
    ):
        planner = Planner(repeated(devices(1, memory=2), count), LATENCY)
        assert suggest_cluster(Subject.of(graph), planner, 2**30).startswith(answer)


def _uneven(*memory: int) -> Cluster:
    """Devices with so much memory each."""
    cluster = devices(len(memory))
    pairs = zip(cluster.devices, memory, strict=True)
    return replace(cluster, devices=tuple(replace(each, memory_bytes=own) for each, own in pairs))


@pytest.mark.parametrize("memory", [(3, 40), (40, 3)])
def test_a_model_that_fits_on_one_device_of_several_kinds_is_planned_for_it(memory: tuple[int, int]) -> None:
    graph = mlp(1, 1024, 1024, 1024)
    cluster = _uneven(*(size << 20 for size in memory))
    planned = Planner(cluster, LATENCY).plan(graph)
    assert planned.best.fits
    (alone,) = [expert for expert in planned.experts if expert.proposal.name == "one device"]
    assert alone.fits
    assert {how.devices for how in alone.plan.parallel.values()} == {(memory.index(40),)}
    assert Planner(cluster, LATENCY).least_memory_plan(Subject.of(graph)).fits


def test_the_baseline_of_speed_ups_is_the_fastest_device() -> None:
    cluster = devices(2)
    slow, fast = cluster.devices
    slow = replace(slow, kind=replace(fast.kind, flops=fast.kind.flops / 100))
    planned = Planner(replace(cluster, devices=(slow, fast)), LATENCY).plan(mlp(64, 512, 512))
    (alone,) = [expert for expert in planned.experts if expert.proposal.name == "one device"]
    assert {how.devices for how in alone.plan.parallel.values()} == {(1,)}


def test_tensors_too_large_to_be_counted_are_refused() -> None:
    with pytest.raises(InvalidModelError, match=r"tensors of at most 1048576.00 GiB, got f32"):
        plannable(mlp(2**50, 8, 8))


def test_sizes_are_given_to_operators_too() -> None:
    editor = Graph.empty().edit()
    x = editor.add(Input("x", TensorType(ElementType.FLOAT, (symbol("batch"), 3))))
    ones = editor.add(Ones((symbol("batch"), 3)), ())
    editor.set_outputs([editor.add(Add(), (x.value, ones.value)).value])
    sized = plannable(editor.build(), {"batch": 8})
    assert sized[ones.id].operator == Ones((8, 3))
    assert sized.type_of(ones.value) == TensorType(ElementType.FLOAT, (8, 3))


def test_pipelines_are_among_the_plans_for_a_deep_network() -> None:
    planned = Planner(devices(2), THROUGHPUT).plan(mlp(64, *(256 for _ in range(9))))
    piped = [found for found in planned.candidates if found.proposal.origin is Origin.PIPELINE]
    assert {how.stage for how in piped[0].plan.parallel.values()} == {0, 1}
    assert piped[0].plan.microbatches > 1


def test_a_plan_is_what_is_read_back_from_its_text() -> None:
    cluster = devices(2)
    planned = Planner(cluster, LATENCY).plan(mlp(8, 512, 512, 512))
    text = json.dumps(plan_to_json(planned.best.plan, planned.subject))
    assert plan_from_json(json.loads(text), planned.subject, 2) == planned.best.plan


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"node": 77}, "plan: operators.0: the graph has no operator 77"),
        ({"node": "first"}, "plan: operators.0.node: Input should be a valid integer, got 'first'"),
        ({"stage": -1}, "plan: operators.0.stage: Input should be greater than or equal to 0, got -1"),
        ({"degrees": [3, 1, 1], "devices": [0, 1, 2]}, "cannot be divided by .3, 1, 1.: its task dimensions"),
        ({"degrees": [2, 1, 1], "devices": [0, 9]}, "there is no device 9 among 2"),
        ({"degrees": [2, 1, 1], "devices": [0, 0]}, "expected 2 different devices"),
        ({"degrees": None}, "plan: operators.0.degrees: Input should be a valid list, got None"),
    ],
)
def test_a_bad_plan_is_one_clear_error(changed: Mapping[str, object], message: str) -> None:
    subject = Subject.of(mlp(8, 64, 64))
    entry = {"node": subject.operations[0].node, "degrees": [1, 1, 1], "devices": [0], **changed}
    with pytest.raises(InvalidFileError, match=message):
        plan_from_json({"operators": [entry]}, subject, 2)


def test_a_plan_needs_sizes() -> None:
    editor = Graph.empty().edit()
    x = editor.add(Input("x", TensorType(ElementType.FLOAT, (symbol("batch"), 4)))).value
    editor.set_outputs([editor.add(Relu(), (x,)).value])
    with pytest.raises(InvalidModelError, match="needs the size of batch: give it with --dim batch=SIZE"):
        plannable(editor.build())
    assert plannable(editor.build(), {"batch": 8}).type_of(x) == TensorType(ElementType.FLOAT, (8, 4))
