"""Plans for clusters: ours beside those of experts, of rewriting first, and of Metropolis sampling with up to
10 times the time.

    python -m benchmarks plans [NETWORK ...] [--devices 192 6 48 2 12 24 96] [--machine summit-node]
        [--mcmc-factor 10] [--mcmc-most 600] [--rewrite 40] [--seed 0]
        [--cells FILE.jsonl] [--table] [--figure2]

Networks and batches are those of Unity (section 6.1): 64 samples on each device for images, 4 for BERT, 1024
for recommendations, 256 for the others. Planned is a training step by Adam, whose loss is the sum of all
outputs times an input. Times are simulated microseconds, seconds those of the processor.
``--cells`` keeps every finished cell as a line of a file and leaves out those that are there already, so that
a run that was ended goes on; ``--table`` prints what is there. Sampling has ``--mcmc-factor`` times our time,
but at most ``--mcmc-most`` seconds: a cell that this cut says so. ``--mcmc-factor 0`` leaves sampling out,
``--rewrite 0`` (graphs whose plans are estimated) rewriting. ``--figure2``: what Unity's figure 2 sends.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.plans.cells import Cell, append, known_cells, table
from benchmarks.plans.graphs import figure2, machine, verified_rules
from superopt.ir.graph import Graph, NodeId
from superopt.ir.plan import Plan
from superopt.journeys.planning.plannable_steps import network_step
from superopt.optimizer.parallel.experts import Assignment
from superopt.optimizer.parallel.search.candidates import Planned
from superopt.optimizer.parallel.search.choices import choices_on
from superopt.optimizer.parallel.search.mcmc import Metropolis
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.planner import Planner
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.search.substitution import Substitutions
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulator, simulate
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.search import RuleSet
from superopt.rewriting import Substitution

BATCHES = {
    "mlp": 256, "xdl": 1024, "dlrm": 1024, "candle-uno": 256, "resnext50": 64, "inception-v3": 64,
    "bert-large": 4,
}  # fmt: skip
"""Samples on each device (Unity, section 6.1)."""

LATENCY = ParallelObjective.LATENCY
"""One call of a step is one iteration."""

DEVICES = (192, 6, 48, 2, 12, 24, 96)


@dataclass(frozen=True)
class Arguments:
    """What to measure, and how long: seconds of the processor, and graphs that rewriting may price."""

    machine: str
    factor: float
    most: float
    rewrite: int
    seed: int
    rules: Sequence[Substitution]


def main() -> None:
    """Measures cell by cell, then prints a table in Markdown."""
    parser = argparse.ArgumentParser(prog="benchmarks plans", description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(BATCHES))
    parser.add_argument("--devices", type=int, nargs="+", default=list(DEVICES))
    parser.add_argument("--machine", default="summit-node")
    parser.add_argument("--mcmc-factor", type=float, default=10.0, help="times our processor seconds")
    parser.add_argument("--mcmc-most", type=float, default=600.0, help="processor seconds at the most")
    parser.add_argument("--rewrite", type=int, default=40, help="graphs that rewriting may price")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", type=Path, help="JSON lines of finished cells")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--figure2", action="store_true")
    given = parser.parse_args()
    if given.figure2:
        _print_figure2()
        return
    cells: list[Cell] = known_cells(given.cells)
    arguments = Arguments(
        given.machine,
        given.mcmc_factor,
        given.mcmc_most,
        given.rewrite,
        given.seed,
        verified_rules() if given.rewrite and not given.table else (),
    )
    done = {(cell.network, cell.devices, cell.machine) for cell in cells}
    wanted = [(network, devices) for devices in given.devices for network in given.networks]
    for network, devices in () if given.table else wanted:
        if (network, devices, given.machine) in done:
            continue
        cell = _measured(network, devices, arguments)
        cells.append(cell)
        append(given.cells, cell)
        sys.stderr.write(f"{cell.line()}\n")
    sys.stdout.write(table(cells))


def _measured(network: str, devices: int, arguments: Arguments) -> Cell:
    step = network_step(network, BATCHES.get(network, 16) * devices, "adam")
    cluster = machine(arguments.machine, devices)
    began = time.process_time()
    planner = Planner(cluster, LATENCY, seed=arguments.seed, layout=step.layout)
    planned = planner.plan(step.graph)
    planning = time.process_time() - began
    alone = _rewritten(Planner(cluster.first, LATENCY, layout=step.layout), step.graph, arguments)
    sequential = planner.plan(alone[0]) if alone else planned
    best = min(planned, sequential, key=lambda found: found.best.rank)
    for other in (*_rewritten(planner, step.graph, arguments), *alone[1:]):
        best = min(best, planner.plan(other), key=lambda found: found.best.rank)
    seconds = time.process_time() - began
    allowed = min(arguments.factor * seconds, arguments.most)
    sampled, proposals = _sampled(planned, cluster, arguments, allowed) if allowed else (None, 0)
    experts = {
        expert.proposal.name: expert.simulation.microseconds for expert in planned.experts if expert.fits
    }
    return Cell(
        network=network,
        devices=devices,
        machine=arguments.machine,
        seed=arguments.seed,
        operators=len(planned.subject.operations),
        ours=best.best.simulation.microseconds,
        fits=best.best.fits,
        plain=planned.best.simulation.microseconds,
        by=best.best.proposal.origin.value,
        experts=experts,
        sequential=sequential.best.simulation.microseconds if arguments.rewrite else None,
        sampled=sampled,
        proposals=proposals,
        sampling_factor=round(allowed / seconds, 2),
        is_cut=arguments.factor * seconds > arguments.most,
        alone=simulate(step.graph, Plan(), cluster, LATENCY, step.subject.step).microseconds,
        planning_seconds=round(planning, 2),
        seconds=round(seconds, 2),
    )


def _rewritten(planner: Planner, graph: Graph, arguments: Arguments) -> list[Graph]:
    """Graphs that a planner estimates to be faster than the given one, the fastest first."""
    if not arguments.rewrite:
        return []
    search = Substitutions(
        RuleSet(arguments.rules), planner.estimate, lambda: search.tried >= arguments.rewrite
    )
    return [found.graph for found in search.run(graph) if found.trace]


def _sampled(planned: Planned, cluster: Cluster, arguments: Arguments, seconds: float) -> tuple[float, int]:
    """Metropolis sampling from the best plan of experts, and from a plan without thought; how many plans it
    simulated."""
    simulator = Simulator(planned.subject.graph, cluster, LATENCY, step=planned.subject.step)

    def delta(plan: Plan, changed: Sequence[NodeId]) -> float:
        simulation = simulator.delta(plan, changed)
        fits = all(
            used <= device.memory_bytes
            for used, device in zip(simulation.memory_bytes, cluster.devices, strict=True)
        )
        return simulation.microseconds if fits else 100 * simulation.microseconds

    mesh = Mesh.of(cluster)
    starts = [planned.experts[0].plan, _first(planned.subject, mesh)]
    found = Metropolis(planned.subject, mesh, delta, seed=arguments.seed).run(starts, seconds)
    return found.microseconds, found.proposals


def _first(subject: Subject, mesh: Mesh) -> Plan:
    """Every operation divided in the first way there is."""
    choices = [
        choices_on(operation, range(len(operation.splits.dimensions)), mesh, ())[-1]
        for operation in subject.operations
    ]
    return Assignment(mesh, tuple(choices), {}).plan(subject)


def _print_figure2() -> None:
    sys.stdout.write("| plan of Unity's MLP on 2 devices | elements sent | us |\n| --- | --- | --- |\n")
    for name, elements, microseconds in figure2():
        sys.stdout.write(f"| {name} | {elements:,} | {microseconds:,.1f} |\n")


if __name__ == "__main__":
    main()
