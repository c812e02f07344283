"""Simulations: as a slow one has it, the same by delta, and as formulas say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.errors import InvalidOptionError
from superopt.ir.graph import Graph, NodeId
from superopt.ir.plan import Parallelism, Plan
from superopt.optimizer.parallel.documents.cluster import named_cluster
from superopt.optimizer.parallel.simulator import (
    ParallelObjective,
    Simulation,
    Simulator,
    simulate,
    write_trace,
)
from superopt.optimizer.parallel.topology import Cluster
from tests.optimizer.parallel.simulated import cluster, graphs, mappings, mlp, plan_of, plans, running
from tests.optimizer.parallel.slow_simulation import slow_ends

LATENCY, THROUGHPUT = ParallelObjective
TWO_NODES = cluster(2, 4)


@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from(list(ParallelObjective)))
def test_random_plans_take_what_a_slow_simulation_says(
    data: st.DataObject, objective: ParallelObjective
) -> None:
    graph = data.draw(graphs())
    simulation = simulate(graph, data.draw(plans(graph, 8)), TWO_NODES, objective)
    for fast, slow in zip(simulation.timing.passes, slow_ends(simulation), strict=True):
        assert {device: fast.end[device] for device in slow} == slow


@settings(max_examples=20, deadline=None)
@given(st.data(), st.sampled_from(list(ParallelObjective)))
def test_delta_simulation_is_full_simulation(data: st.DataObject, objective: ParallelObjective) -> None:
    graph = data.draw(graphs())
    plan = data.draw(plans(graph, 8))
    simulator = Simulator(graph, TWO_NODES, objective)
    base = simulator.simulate(plan)
    for _ in range(3):
        changed = data.draw(st.lists(st.sampled_from(running(graph)), min_size=1, max_size=2, unique=True))
        how = dict(plan.parallel)
        for node in changed:
            found = data.draw(mappings(graph, node, 8))
            how[node] = Parallelism(found.degrees, found.devices, found.copies, how[node].stage)
        plan = plan_of(how, plan.microbatches)
        base = simulator.delta(plan, changed, base)
        assert told(base) == told(simulate(graph, plan, TWO_NODES, objective))


def told(simulation: Simulation) -> object:
    return (
        simulation.microseconds,
        simulation.busy_microseconds.tolist(),
        simulation.channel_microseconds.tolist(),
        simulation.communication_bytes,
        simulation.memory_bytes,
        list(simulation.timeline()),
    )


def data_parallel(graph: Graph, count: int) -> Plan:
    return plan_of(
        {
            node: Parallelism(
                (count, 1, 1) if graph[node].operator.name == "matmul" else (count, 1), tuple(range(count))
            )
            for node in running(graph)
        }
    )


def by_columns(graph: Graph, count: int) -> Plan:
    """The columns of every product on another device; each gathers the rows that it reads."""
    products = (node for node in running(graph) if graph[node].operator.name == "matmul")
    devices = tuple(range(count))
    return plan_of({node: Parallelism((1, count, 1), devices) for node in products})


def test_one_device_adds_its_tasks_up() -> None:
    graph = mlp(100, 1000, 1000, 1000)
    products = 2 * 2 * 100 * 1000 * 1000 / 1e6
    found = simulate(graph, Plan(), cluster(1, 1), LATENCY)
    assert found.microseconds == pytest.approx(products + 100 * 1000 / 1e6, abs=0.01)


def pipeline(graph: Graph, microbatches: int) -> Plan:
    """A stage and a device for every product, with what comes before it."""
    products = [node.id for node in graph if node.operator.name == "matmul"]
    how: dict[NodeId, Parallelism] = {}
    for node in running(graph):
        stage = sum(product < node for product in products)
        how[node] = Parallelism((1,) * (3 if node in products else 2), (stage,), stage=stage)
    return plan_of(how, microbatches)


@pytest.mark.parametrize("whole", [TWO_NODES, named_cluster("summit-node:2"), named_cluster("disco-a")])
def test_the_first_device_by_itself_takes_what_it_takes_in_the_cluster(whole: Cluster) -> None:
    graph = mlp(8, 16, 32, 8)
    alone, there = (simulate(graph, Plan(), one, LATENCY) for one in (whole.first, whole))
    assert len(whole.first) == 1
    assert alone.microseconds == there.microseconds
    assert alone.memory_bytes[0] == there.memory_bytes[0]
    assert whole.first.devices[0].memory_bytes == whole.devices[0].memory_bytes


@pytest.mark.parametrize(("stages", "microbatches"), [(2, 2), (4, 8), (4, 2), (3, 1)])
def test_a_pipeline_fills_and_drains(stages: int, microbatches: int) -> None:
    graph = mlp(64, *(512,) * (stages + 1))
    plan, machine = pipeline(graph, microbatches), cluster(1, stages, link="1 PB/s")
    product = 2 * 64 * 512 * 512 / 1e6 / microbatches
    turns = microbatches + stages - 1
    latency = simulate(graph, plan, machine, LATENCY)
    assert latency.microseconds == pytest.approx(turns * product, rel=0.02)
    throughput = simulate(graph, plan, machine, THROUGHPUT)
    assert throughput.microseconds == pytest.approx(microbatches * product, rel=0.02)


def test_memory_is_weights_and_what_is_alive() -> None:
    graph = mlp(10, 20, 30, 40)
    weights, given, hidden, last = 4 * (20 * 30 + 30 * 40), 4 * 10 * 20, 4 * 10 * 30, 4 * 10 * 40
    one = cluster(1, 1)
    held = weights + given + hidden + max(hidden, last)
    assert simulate(graph, Plan(), one, LATENCY).memory_bytes == (held,)
    halved = simulate(graph, data_parallel(graph, 2), cluster(1, 2), LATENCY)
    assert halved.memory_bytes == (weights + (held - weights) // 2,) * 2


def test_memory_holds_what_was_sent_until_it_is_read() -> None:
    graph = mlp(10, 20, 30)
    product = next(node.id for node in graph if node.operator.name == "matmul")
    plan = plan_of({product: Parallelism((1, 1, 2), (0, 1))})
    weights, given, output = 4 * 20 * 30 // 2, 4 * 10 * 20 // 2, 4 * 10 * 30
    found = simulate(graph, plan, cluster(1, 2), LATENCY)
    assert found.memory_bytes == (weights + given + 2 * output,) * 2
    assert found.communication_bytes == 2 * output


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (
            {1: Parallelism((1, 3, 1), (0, 1, 2))},
            "the degrees (1, 3, 1) do not divide",
        ),
        (
            {1: Parallelism((2, 1, 1), (7, 8))},
            "expected devices from 0 to 7, those of the cluster, got (7, 8)",
        ),
        (
            {0: Parallelism((1, 1, 1), (0,), stage=1)},
            "expected at least stage 1, that of what it reads, got 0",
        ),
    ],
)
def test_a_plan_that_does_not_fit_is_one_sentence(plan: dict[int, Parallelism], sentence: str) -> None:
    graph = mlp(8, 8, 8, 8)
    products = [node.id for node in graph if node.operator.name == "matmul"]
    how = {products[number]: found for number, found in plan.items()}
    with pytest.raises(InvalidOptionError) as caught:
        simulate(graph, plan_of(how), TWO_NODES, LATENCY)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("plan, ")


def test_a_trace_has_the_fields_that_its_format_asks_for(tmp_path: Path) -> None:
    graph = mlp(64, 64, 64, 64)
    simulation = simulate(graph, by_columns(graph, 8), TWO_NODES, LATENCY)
    path = tmp_path / "trace.json"
    write_trace(simulation, path)
    document = json.loads(path.read_text())
    assert document["displayTimeUnit"] == "ms"
    last = 0.0
    for event in document["traceEvents"]:
        assert isinstance(event["name"], str)
        assert {type(event["pid"]), type(event["tid"])} == {int}
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
        else:
            assert event["ph"] == "X"
            assert isinstance(event["cat"], str)
            assert event["ts"] >= 0 < event["dur"]
            last = max(last, event["ts"] + event["dur"])
    assert last == pytest.approx(simulation.microseconds)
    threads = {event["tid"] for event in document["traceEvents"] if event["ph"] == "X"}
    assert threads == set(range(16))


def test_a_device_does_one_thing_at_a_time() -> None:
    graph = mlp(64, 64, 64, 64)
    simulation = simulate(graph, by_columns(graph, 8), TWO_NODES, LATENCY)
    ends = dict.fromkeys(range(8), 0.0)
    for event in simulation.timeline():
        if not event.is_communication:
            assert event.start >= ends[event.device]
            ends[event.device] = event.start + event.duration
    assert max(ends.values()) == simulation.microseconds > simulation.busy_microseconds.max()
