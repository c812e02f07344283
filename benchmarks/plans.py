"""Plans for clusters: ours beside those of experts, of Metropolis sampling with 10 times the time, and of
rewriting first; how long the search takes.

    python -m benchmarks plans [NETWORK ...] [--devices 2 6 12 24 48 96 192] [--machine summit-node]
        [--objective training] [--sampling 10] [--seconds 120] [--rewrite 20] [--figure2]

Networks and batches are those of Unity (section 6.1): 64 samples on each device for images, 4 for BERT, 1024
for recommendations, 256 for the others. Times are simulated microseconds, ``search`` processor seconds,
``x expert`` the best expert's time over ours. ``--sampling 0``
leaves sampling out, ``--rewrite 0`` rewriting.
``--figure2`` prints what Unity's figure 2 sends by plan instead.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.plans_graphs import figure2, network_graph, part
from optimizer.parallel.cluster import named_cluster
from optimizer.parallel.experts import Assignment
from optimizer.parallel.search.candidates import Planned
from optimizer.parallel.search.choices import choices_on
from optimizer.parallel.search.mcmc import Metropolis
from optimizer.parallel.search.mesh import Mesh
from optimizer.parallel.search.planner import Planner
from optimizer.parallel.search.subject import Subject, plannable
from optimizer.parallel.search.substitution import Substitutions
from optimizer.parallel.simulator import ParallelObjective, Simulator
from optimizer.parallel.topology import Cluster
from optimizer.search import RuleSet
from superopt.equations import parse_equation
from superopt.ir.graph import Graph, NodeId
from superopt.ir.plan import Plan
from superopt.rewriting import Substitution, substitutions_of

BATCHES = {
    "resnext50": 64, "resnet50": 64, "inception-v3": 64, "bert-large": 4, "dlrm": 1024, "xdl": 1024,
    "candle-uno": 256, "mlp": 256,
}  # fmt: skip
"""Samples on each device (Unity, section 6.1)."""

UNITY = {
    "resnext50": 1.0, "inception-v3": 1.3, "mlp": 2.0, "xdl": 1.9, "dlrm": 3.6, "candle-uno": 1.6,
    "bert-large": 1.0,
}  # fmt: skip
"""Unity's gain over the best existing approach (section 6.2, figure 14)."""

HEADER = (
    "network", "devices", "ours us", "by", "best expert", "expert us", "x expert", "Unity", "sampling us",
    "proposals", "sequential us", "one device us", "search s",
)  # fmt: skip


@dataclass(frozen=True)
class Arguments:
    """What to measure, and how long."""

    machine: str
    objective: ParallelObjective
    sampling: float
    seconds: float
    rewrite: float
    rules: Sequence[Substitution]


def main() -> None:
    """Prints a table in Markdown, row by row."""
    parser = argparse.ArgumentParser(prog="benchmarks plans", description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(BATCHES))
    parser.add_argument("--devices", type=int, nargs="+", default=[2, 6, 12, 24, 48, 96, 192])
    parser.add_argument("--machine", default="summit-node")
    parser.add_argument("--objective", default="training")
    parser.add_argument("--sampling", type=float, default=10.0, help="times our processor seconds")
    parser.add_argument("--seconds", type=float, default=120.0, help="wall seconds for a search at the most")
    parser.add_argument("--rewrite", type=float, default=20.0, help="wall seconds for rewriting")
    parser.add_argument("--figure2", action="store_true")
    given = parser.parse_args()
    if given.figure2:
        _print_figure2()
        return
    arguments = Arguments(
        given.machine,
        ParallelObjective(given.objective),
        given.sampling,
        given.seconds,
        given.rewrite,
        _rules() if given.rewrite else (),
    )
    _print_row(HEADER)
    _print_row(["---"] * len(HEADER))
    for name in given.networks:
        for devices in given.devices:
            _print_row(_measured(name, devices, arguments))


def _measured(name: str, devices: int, arguments: Arguments) -> list[str]:
    graph = plannable(network_graph(name, BATCHES.get(name, 16) * devices))
    cluster = _cluster(arguments.machine, devices)
    planner = Planner(cluster, arguments.objective, deadline=time.monotonic() + arguments.seconds)
    began = time.process_time()
    planned = planner.plan(graph)
    best, sequential = planned, None
    if arguments.rewrite:
        for other in _rewritten(planner, graph, arguments):
            joint = planner.plan(other)
            best = min(best, joint, key=lambda found: found.best.rank)
    seconds = time.process_time() - began
    if arguments.rewrite:
        sequential = _sequential(cluster, graph, arguments)
    sampled = None
    if arguments.sampling:
        sampled = _sampled(planned, cluster, arguments, arguments.sampling * seconds)
    experts = [expert for expert in planned.experts if expert.fits]
    alone = Simulator(graph, cluster, arguments.objective).simulate(Plan()).microseconds
    ours = best.best.simulation.microseconds
    expert = experts[0] if experts else None
    return [
        name,
        str(devices),
        f"{ours:,.0f}" if best.best.fits else "does not fit",
        best.best.proposal.origin.value,
        "none fits" if expert is None else expert.proposal.name,
        "" if expert is None else f"{expert.simulation.microseconds:,.0f}",
        "" if expert is None else f"{expert.simulation.microseconds / ours:.3f}",
        f"{UNITY[name]}" if name in UNITY else "",
        "" if sampled is None else f"{sampled[0]:,.0f}",
        "" if sampled is None else str(sampled[1]),
        "" if sequential is None else f"{sequential.best.simulation.microseconds:,.0f}",
        f"{alone:,.0f}",
        f"{seconds:.1f}",
    ]


def _rewritten(planner: Planner, graph: Graph, arguments: Arguments) -> list[Graph]:
    """Graphs whose plans are estimated to be faster than that of the given one."""
    end = time.monotonic() + arguments.rewrite
    search = Substitutions(RuleSet(arguments.rules), planner.estimate, lambda: time.monotonic() > end)
    return [found.graph for found in search.run(graph) if found.trace]


def _sequential(cluster: Cluster, graph: Graph, arguments: Arguments) -> Planned:
    """The graph that is fastest on one device, planned for all."""
    single = Planner(part(cluster, 1), arguments.objective)
    (best, *_) = (*_rewritten(single, graph, arguments), graph)
    deadline = time.monotonic() + arguments.seconds
    return Planner(cluster, arguments.objective, deadline=deadline).plan(best)


def _sampled(planned: Planned, cluster: Cluster, arguments: Arguments, seconds: float) -> tuple[float, int]:
    """Metropolis sampling from data parallelism, the best expert plan, and a plan at random."""
    simulator = Simulator(planned.subject.graph, cluster, arguments.objective)

    def delta(plan: Plan, changed: Sequence[NodeId]) -> float:
        simulation = simulator.delta(plan, changed)
        fits = all(
            used <= device.memory_bytes
            for used, device in zip(simulation.memory_bytes, cluster.devices, strict=True)
        )
        return simulation.microseconds if fits else 100 * simulation.microseconds

    mesh = Mesh.of(cluster)
    starts = [planned.experts[0].plan, _first(planned.subject, mesh)]
    found = Metropolis(planned.subject, mesh, delta).run(starts, seconds)
    return found.microseconds, found.proposals


def _first(subject: Subject, mesh: Mesh) -> Plan:
    """Every operation divided in the first way there is."""
    choices = [
        choices_on(operation, range(len(operation.splits.dimensions)), mesh, ())[-1]
        for operation in subject.operations
    ]
    return Assignment(mesh, tuple(choices), {}).plan(subject)


def _cluster(machine: str, devices: int) -> Cluster:
    single = named_cluster(machine)
    if devices < len(single):
        return part(single, devices)
    return named_cluster(machine, devices // len(single))


def _rules() -> tuple[Substitution, ...]:
    """The verified rules of the shipped library."""
    path = Path(__file__).parent.parent / "substitution_db" / "library.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return tuple(
        substitution
        for row in rows
        if row.get("status") == "verified"
        for substitution in substitutions_of(parse_equation(row["equation"]), row["id"])
    )


def _print_figure2() -> None:
    _print_row(("plan of Unity's MLP on 2 devices", "elements sent", "us"))
    _print_row(["---"] * 3)
    for name, elements, microseconds in figure2():
        _print_row((name, f"{elements:,}", f"{microseconds:,.1f}"))


def _print_row(cells: Sequence[str]) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
