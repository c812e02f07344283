"""Simulated plans: full and delta simulation of single edits (NMT, 64 devices), and 192 devices in full."""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from superopt import zoo
from superopt.ir.graph import Graph, NodeId
from superopt.ir.plan import Parallelism, Plan
from superopt.onnx_io import lift, load_model
from superopt.optimizer.parallel.communication import communication
from superopt.optimizer.parallel.documents.cluster import named_cluster, parse_cluster
from superopt.optimizer.parallel.experts import experts
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.subject import Operation, Subject, plannable
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulation, Simulator
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.topology import Cluster

P100 = """
name: 16 nodes of 4 P100
nodes: [{count: 16, devices: 4, device: p100-sxm2, link: {bandwidth: 20 GB/s, latency: 2 us}}]
network: {bandwidth: 100 Gb/s, latency: 5 us}
"""
"""FlexFlow's first cluster (dissertation, section 3.7.1), with 16 nodes instead of 4."""


def graph_of(name: str, batch: int) -> Graph:
    """A network of the zoo."""
    return plannable(lift(load_model(zoo.build(name, batch=batch))).graph)


def edits(subject: Subject, plan: Plan, devices: int, count: int, seed: int) -> Iterator[tuple[NodeId, Plan]]:
    """A random walk as MCMC makes it: one operator at a time gets another mapping."""
    draw = random.Random(seed)
    for _ in range(count):
        operation = draw.choice(subject.operations)
        how: Mapping[NodeId, Parallelism] = {
            **plan.parallel,
            operation.node: _mapping(operation, devices, draw),
        }
        plan = Plan(parallel=MappingProxyType(how))
        yield operation.node, plan


def _mapping(operation: Operation, devices: int, draw: random.Random) -> Parallelism:
    degrees = [1] * len(operation.splits.dimensions)
    for _ in range(draw.randint(0, devices.bit_length())):
        axis = draw.randrange(len(degrees)) if degrees else 0
        if degrees and operation.splits.dimensions[axis].size % (2 * degrees[axis]) == 0:  # type: ignore[operator]
            degrees[axis] *= 2 if 2 * math.prod(degrees) <= devices else 1
    tasks = math.prod(degrees)
    first = draw.randrange(devices // tasks) * tasks
    return Parallelism(tuple(degrees), tuple(range(first, first + tasks)))


class Stopwatch:
    """CPU milliseconds, added up; steps between placements are found anew each time."""

    def __init__(self) -> None:
        self.total = 0.0

    def __enter__(self) -> None:
        communication.cache_clear()
        self._start = time.process_time()

    def __exit__(self, *_: object) -> None:
        self.total += 1000 * (time.process_time() - self._start)


def compare(graph: Graph, cluster: Cluster, objective: ParallelObjective, count: int, seed: int) -> None:
    """Times single edits in full and by delta, and insists that they agree.

    All know what tasks and collectives cost. A full simulation makes the task graph anew; one that remembers
    takes from earlier plans whatever they have in common, as delta simulation does.
    """
    subject = Subject.of(graph)
    plan = next(e.plan for e in experts(subject, Mesh.of(cluster)) if e.name == "data parallel")
    simulator, remembering = Simulator(graph, cluster, objective), Simulator(graph, cluster, objective)
    base = simulator.simulate(plan)
    remembering.simulate(plan)
    full, remembered, delta = Stopwatch(), Stopwatch(), Stopwatch()
    for node, edited in edits(subject, plan, len(cluster), count, seed):
        with delta:
            base = simulator.delta(edited, [node], base)
        with remembered:
            second = remembering.simulate(edited)
        prices = Prices(cluster)
        prices.tasks, prices.collectives = simulator.prices.tasks, simulator.prices.collectives
        fresh = Simulator(graph, cluster, objective, prices=prices)
        with full:
            first = fresh.simulate(edited)
        if not _told(base) == _told(first) == _told(second):
            raise SystemExit(f"delta simulation says something else for {edited.parallel[node]}")
    print_line(
        f"{objective.value:10} {len(base.timing.passes):5} passes: full {full.total / count:6.1f} ms, "
        f"remembering {remembered.total / count:5.1f} ms, delta {delta.total / count:5.1f} ms: "
        f"{full.total / delta.total:.1f}x and {remembered.total / delta.total:.1f}x faster"
    )


def _told(simulation: Simulation) -> tuple[float, int]:
    return simulation.microseconds, simulation.communication_bytes


def print_line(text: str) -> None:
    """Writes a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(prog="benchmarks simulator", description=__doc__)
    parser.add_argument("--edits", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    cluster = parse_cluster(P100, "benchmark")
    graph = graph_of("nmt", 64 * len(cluster))
    print_line(
        f"nmt, {len(cluster)} devices, {options.edits} random edits of single operators, CPU time of each:"
    )
    for objective in ParallelObjective:
        compare(graph, cluster, objective, options.edits, options.seed)
    cluster = named_cluster("summit-node:32")
    graph = graph_of("inception-v3", 64 * len(cluster))
    print_line(f"\ninception-v3, {len(cluster)} devices, in full and from nothing:")
    for expert in experts(Subject.of(graph), Mesh.of(cluster)):
        watch = Stopwatch()
        with watch:
            found = Simulator(graph, cluster, ParallelObjective.LATENCY).simulate(expert.plan)
        print_line(
            f"{expert.name:16} {found.microseconds / 1000:10.1f} ms simulated in {watch.total:6.0f} ms of CPU"
        )


if __name__ == "__main__":
    main()
