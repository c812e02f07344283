"""DisCo's table 1: joint fusion of operators and AllReduces on its clusters, against rules and full overlap.

    python -m benchmarks disco [NETWORK ...] [--clusters disco-a disco-b] [--seconds 60] [--seed 0]
                               [--ablation]

A row for each network and cluster: simulated microseconds of a training step under each rule, of DisCo's
search as published and of ours; their gains over the best rule; the gain of the least time that data flow
permits with the kernels and collectives that our search found (bound), and of full overlap of these (FO);
DisCo's gain and that of FO in the paper; and the processor seconds that DisCo's search took, and ours.
Networks are those of the paper but Reformer; a cluster is any known machine. ``--ablation`` leaves out the
three methods of DisCo's search one by one, and what ours has besides. ``--seconds`` is the most processor
time of a search.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.plans.disco_bound import lower_bound
from superopt.journeys.planning.plannable_steps import PlannableStep, network_step
from superopt.optimizer.fusion.joint.baselines import baselines
from superopt.optimizer.fusion.joint.published import METHODS, Found, backtracking
from superopt.optimizer.fusion.joint.refined import ORDERS, refined
from superopt.optimizer.fusion.joint.sums import GradientSums
from superopt.optimizer.parallel.documents.cluster import named_cluster
from superopt.optimizer.parallel.search.choices import everything
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulator


@dataclass(frozen=True)
class Case:
    """A network of the zoo, the optimizer of its step, and the samples of each device."""

    network: str
    optimizer: str
    samples: int

    def batch(self, cluster: str) -> int:
        """The samples of all devices of a cluster."""
        return self.samples * len(named_cluster(cluster))

    def sums(self, cluster: str) -> GradientSums:
        """Data parallelism of the step on a cluster."""
        return sums_of(network_step(self.network, self.batch(cluster), self.optimizer), cluster)


CASES = (
    Case("vgg19", "momentum", 8),
    Case("resnet50", "momentum", 32),
    Case("transformer", "adam", 16),
    Case("lstm-lm", "momentum", 64),
    Case("bert-base", "adam", 16),
)
CLUSTERS = ("disco-a", "disco-b")
PAPER = {
    ("vgg19", "disco-a"): (8.6, 18.9),
    ("resnet50", "disco-a"): (12.5, 28.5),
    ("transformer", "disco-a"): (26.7, 34.7),
    ("lstm-lm", "disco-a"): (5.1, 10.9),
    ("bert-base", "disco-a"): (18.5, 27.6),
    ("vgg19", "disco-b"): (10.1, 12.5),
    ("resnet50", "disco-b"): (9.6, 16.8),
    ("transformer", "disco-b"): (20.6, 25.9),
    ("lstm-lm", "disco-b"): (8.6, 12.3),
    ("bert-base", "disco-b"): (13.7, 19.5),
}
"""Gains in percent of DisCo and of full overlap (table 1)."""


def sums_of(step: PlannableStep, cluster: str) -> GradientSums:
    """Data parallelism of a step on a cluster."""
    machine = named_cluster(cluster)
    simulator = Simulator(step.graph, machine, ParallelObjective.LATENCY, step=step.subject.step)
    return GradientSums(step.subject, everything, simulator)


@dataclass(frozen=True)
class Row:
    """Times in microseconds: of the rules by name, of DisCo's search and ours, of the lower bound and of full
    overlap; ``seconds`` are those of DisCo's search and of ours."""

    network: str
    cluster: str
    batch: int
    rules: dict[str, float]
    published: float
    ours: float
    bound: float
    overlapped: float
    seconds: tuple[float, float]

    def gain(self, time: float) -> float:
        """Percent by which the best rule takes longer than a time: the paper's gain."""
        return 100 * (min(self.rules.values()) - time) / time

    def __str__(self) -> str:
        """The row in Markdown."""
        published = PAPER.get((self.network, self.cluster))
        paper = "" if published is None else f"{published[0]} ({published[1]})"
        times = " | ".join(f"{time:,.0f}" for time in self.rules.values())
        return (
            f"| {self.network}, {self.batch} | {self.cluster} | {times} | {self.published:,.0f} | "
            f"{self.ours:,.0f} | {self.gain(self.published):.1f} | {self.gain(self.ours):.1f} | "
            f"{self.gain(self.bound):.1f} | {self.gain(self.overlapped):.1f} | "
            f"{paper} | {self.seconds[0]:.0f}, {self.seconds[1]:.0f} |"
        )


HEADER = (
    "| step, samples | cluster | no fusion | op | AllReduce | both | DDP | DisCo's search | ours | "
    "gain of DisCo's, % | ours, % | bound, % | FO, % | paper (FO), % | seconds |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
)


def row(case: Case, cluster: str, seconds: float, seed: int) -> Row:
    """One row."""
    sums = case.sums(cluster)
    problem = sums.problem()
    rules = baselines(problem)
    ours, own_seconds = _clocked(lambda over: refined(problem, rules, seed, is_over=over, sums=sums), seconds)
    published, published_seconds = _clocked(lambda over: backtracking(problem, seed, is_over=over), seconds)
    return Row(
        case.network,
        cluster,
        case.batch(cluster),
        {name: rule.timed.microseconds for name, rule in rules.items()},
        published.timed.microseconds,
        ours.timed.microseconds,
        lower_bound(ours.joint),
        ours.timed.overlapped,
        (published_seconds, own_seconds),
    )


def ablation(case: Case, cluster: str, seconds: float, seed: int) -> Iterator[tuple[str, float]]:
    """Microseconds of what DisCo's search finds with all methods, and with each of them left out; then of
    what ours finds, and without turns of kernels or sums apart."""
    sums = case.sums(cluster)
    problem = sums.problem()
    for left_out in (None, *METHODS):
        methods = [method for method in METHODS if method is not left_out]
        found, _ = _clocked(
            lambda over, kept=methods: backtracking(problem, seed, kept, is_over=over), seconds
        )
        name = "DisCo's" if left_out is None else f"DisCo's without {left_out.__name__}"
        yield name, found.timed.microseconds
    rules = baselines(problem)
    for name, own_sums, orders in (
        ("ours", sums, ORDERS),
        ("ours without turns", sums, ()),
        ("ours without sums apart", None, ORDERS),
        ("ours without either", None, ()),
    ):
        found, _ = _clocked(
            lambda over, s=own_sums, o=orders: refined(problem, rules, seed, over, sums=s, orders=o), seconds
        )
        yield name, found.timed.microseconds


def _clocked(search: Callable[[Callable[[], bool]], Found], seconds: float) -> tuple[Found, float]:
    """What a search finds in so many seconds of processor time, and how many it took."""
    began = time.process_time()
    found = search(lambda: time.process_time() - began > seconds)
    return found, time.process_time() - began


def main() -> None:
    """Prints the table in Markdown, row by row."""
    parser = argparse.ArgumentParser(prog="benchmarks disco", description=__doc__)
    known = {case.network: case for case in CASES}
    parser.add_argument("networks", nargs="*", default=[*known])
    parser.add_argument("--clusters", nargs="+", default=CLUSTERS)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ablation", action="store_true")
    given = parser.parse_args()
    for network in given.networks:
        if network not in known:
            parser.error(f"networks: expected some of {', '.join(known)}, got {network!r}")
    if given.ablation:
        sys.stdout.write("| step | cluster | methods | us |\n|---|---|---|---|\n")
    else:
        sys.stdout.write(HEADER)
    for case in (known[network] for network in given.networks):
        for cluster in given.clusters:
            if given.ablation:
                for name, microseconds in ablation(case, cluster, given.seconds, given.seed):
                    sys.stdout.write(f"| {case.network} | {cluster} | {name} | {microseconds:,.0f} |\n")
            else:
                sys.stdout.write(f"{row(case, cluster, given.seconds, given.seed)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
