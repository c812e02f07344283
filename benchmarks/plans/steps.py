"""Plans of training steps by Adam: those of experts, and ours.

    python -m benchmarks steps [NETWORK:BATCH:LOSS ...] [--devices 4 8] [--machine dgx-a100] [--seconds 60]

A row for each plan: simulated microseconds of a step, bytes sent, and peak bytes of the fullest device.
Data parallelism is there in the order of the longest paths, too, ZeRO-3 with fetches just before their
readers, and with each by itself. Ours is planned twice: with the memory of the machine, and with 60% of what
data parallelism needs. ``--seconds`` is the time for each search.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.plans.graphs import machine, planned_step
from superopt.journeys.planning.plannable_steps import PlannableStep
from superopt.optimizer.parallel.experts import assignments
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.planner import Planner
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulation, simulate
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.parallel.training_plans.resident_states import prefetched
from superopt.optimizer.parallel.training_plans.sharded_states import DDP, ZERO_3

NETWORKS = ("candle-uno:256:mse", "bert-base:8:cotangents", "light-ncf:1024:cotangents")
HEADER = "| step | devices | plan | us | sent, MB | fullest device, MB |\n|---|---|---|---|---|---|"
LIMIT = 0.6
"""Memory of a device in the second search, as a share of what data parallelism needs."""


@dataclass(frozen=True)
class Row:
    """One plan."""

    network: str
    devices: int
    plan: str
    microseconds: float
    sent: int
    fullest: int

    def __str__(self) -> str:
        """The row in Markdown."""
        return (
            f"| {self.network} | {self.devices} | {self.plan} | {self.microseconds:,.0f} | "
            f"{self.sent / 1e6:,.2f} | {self.fullest / 1e6:,.2f} |"
        )


def rows(network: str, step: PlannableStep, cluster: Cluster, seconds: float) -> Iterator[Row]:
    """The baselines that a search compares with, and what it finds, for the step of a network."""
    for plan, simulation in _plans(step, cluster, seconds):
        sent, fullest = simulation.communication_bytes, max(simulation.memory_bytes)
        yield Row(network, len(cluster), plan, simulation.microseconds, sent, fullest)


def _plans(step: PlannableStep, cluster: Cluster, seconds: float) -> Iterator[tuple[str, Simulation]]:
    free = _planner(step, cluster, seconds).plan(step.graph)
    for expert in free.experts:
        yield expert.proposal.name, expert.simulation
    yield from _ablated(step, cluster)
    yield "ours", free.best.simulation
    needed = next(expert for expert in free.experts if expert.proposal.name == DDP)
    limit = int(LIMIT * max(needed.simulation.memory_bytes))
    small = replace(cluster, devices=tuple(replace(one, memory_bytes=limit) for one in cluster.devices))
    best = _planner(step, small, seconds).plan(step.graph).best
    says = "" if best.fits else ", does not fit"
    yield f"ours within {limit / 1e6:,.2f} MB{says}", best.simulation


def _ablated(step: PlannableStep, cluster: Cluster) -> Iterator[tuple[str, Simulation]]:
    """Data parallelism in the order of the longest paths, and ZeRO-3 without what the planner does to its
    fetches; nothing on one device."""
    subject = step.subject
    found = dict(assignments(subject, Mesh.of(cluster)))
    if ZERO_3 not in found:
        return
    numbered = replace(found[DDP].plan(subject), order=tuple(one.node for one in subject.operations))
    waiting = simulate(step.graph, numbered, cluster, ParallelObjective.LATENCY, subject.step)
    yield f"{DDP}, issued by the longest path", waiting
    plan = found[ZERO_3].plan(subject)
    late = simulate(step.graph, plan, cluster, ParallelObjective.LATENCY, subject.step)
    yield f"{ZERO_3}, fetched just before use", late
    early = prefetched(late, 1.0, 0)
    apart = simulate(step.graph, early, cluster, ParallelObjective.LATENCY, subject.step)
    yield f"{ZERO_3}, each fetched by itself", apart


def _planner(step: PlannableStep, cluster: Cluster, seconds: float) -> Planner:
    deadline = time.monotonic() + seconds
    return Planner(cluster, ParallelObjective.LATENCY, deadline=deadline, layout=step.layout)


def main() -> None:
    """Prints the table in Markdown, row by row."""
    parser = argparse.ArgumentParser(prog="benchmarks steps", description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--devices", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--machine", default="dgx-a100")
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    networks: Sequence[str] = given.networks
    sys.stdout.write(f"{HEADER}\n")
    for text in networks:
        step, network = planned_step(text), text.rpartition(":")[0].replace(":", ", ")
        for count in given.devices:
            for row in rows(network, step, machine(given.machine, count), given.seconds):
                sys.stdout.write(f"{row}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
