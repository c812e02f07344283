"""AutoDist's strategies: simulated times of a step by every builder and by the automatic strategy.

    python -m benchmarks autodist [NETWORK:SAMPLES ...] [--clusters a2 b7 b11] [--trials 48] [--seeds 1]
    python -m benchmarks autodist --ablations [NETWORK:SAMPLES ...] [--clusters a2 b7 b11] [--trials 48]
    python -m benchmarks autodist --inexact [NETWORK:SAMPLES ...] [--clusters a2 b7 b11]

SAMPLES are those of each device. Every row is one step by SGD on one cluster of AutoDist's table 1. Batch
normalisation uses fixed statistics, since means over all samples would gather whole activations. ``ratio`` is
the time of the best builder divided by that of the automatic strategy; ``ranking`` is the share of pairs of
all trials that the learned ranking orders correctly, ``in a round`` that of pairs of the same round, which it
has chosen for their good scores. With
``--ablations`` a row has the time of the best strategy that the search draws, the builders left out: with all
aspects of strategies, where it also varies those of the builders, and with one aspect switched off in turn.
With ``--inexact`` a row has the times of builders with gradients that are delayed by one step, or compressed:
that trains something else.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from superopt.errors import InvalidOptionError
from superopt.journeys.planning.plannable_steps import PlannableStep, network_step
from superopt.optimizer.parallel.documents.cluster import named_cluster
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.strategies.applying import GradientSums
from superopt.optimizer.parallel.strategies.auto import AutoStrategy, Effort, Found, simulated
from superopt.optimizer.parallel.strategies.builders import BUILDERS, Setting, build
from superopt.optimizer.parallel.strategies.inexact import Inexactness
from superopt.optimizer.parallel.strategies.model import Compressor, Strategy
from superopt.optimizer.parallel.strategies.plans import StrategyPlanner
from superopt.optimizer.parallel.strategies.ranking import Ranking
from superopt.optimizer.parallel.strategies.sampling import EVERY_ASPECT, Aspect

NETWORKS = ("ncf:1024", "vgg16:32", "resnet101:32", "densenet121:32", "bert-large:8")
CLUSTERS = ("a2", "b7", "b11")


@dataclass(frozen=True)
class Measured:
    """A search, the ranking accuracy over all trials, and its processor seconds."""

    found: Found
    overall: float
    seconds: float

    @property
    def ratio(self) -> float:
        """The time of the best builder divided by the best time."""
        return self.found.best_builder.microseconds / self.found.best.microseconds

    @property
    def accuracy(self) -> float:
        """The mean ranking accuracy over the rounds."""
        return statistics.fmean(self.found.accuracies or (0.0,))


def searched(planner: StrategyPlanner, effort: Effort) -> Measured:
    """One search."""
    began = time.process_time()
    found = AutoStrategy(planner, effort).search()
    features, times = [one.features for one in found.trials], [one.microseconds for one in found.trials]
    overall = Ranking().accuracy(features, times)
    return Measured(found, overall or 0.0, time.process_time() - began)


def cells(names: Sequence[str], clusters: Sequence[str]) -> Iterator[tuple[str, str, StrategyPlanner]]:
    """Every network on every cluster."""
    for text in names:
        name, _, count = text.partition(":")
        if not count.isdecimal():
            raise InvalidOptionError(f"network: expected NETWORK:SAMPLES, got {text!r}")
        steps: dict[int, PlannableStep] = {}
        for which in clusters:
            cluster = named_cluster(f"autodist-{which}")
            samples = int(count) * len(cluster)
            if samples not in steps:
                steps[samples] = network_step(name, samples, "sgd")
            step = steps[samples]
            yield text, which, StrategyPlanner(step.graph, step.layout, Prices(cluster))


def table(names: Sequence[str], clusters: Sequence[str], effort: Effort, seeds: int) -> Iterator[str]:
    """The rows of the table: milliseconds of every builder and of the automatic strategy."""
    yield f"| network | cluster | {' | '.join(BUILDERS)} | auto | ratio | ranking | in a round | CPU s |"
    yield "|" + "---|" * (len(BUILDERS) + 7)
    for name, which, planner in cells(names, clusters):
        for seed in range(effort.seed, effort.seed + seeds):
            measured = searched(planner, replace(effort, seed=seed))
            builders = {trial.name: f"{trial.microseconds / 1000:,.1f}" for trial in measured.found.builders}
            best = measured.found.best.microseconds / 1000
            yield (
                f"| {name} | {which} | {' | '.join(builders[one] for one in BUILDERS)} | {best:,.1f} "
                f"| {measured.ratio:.2f}x | {measured.overall:.0%} | {measured.accuracy:.0%} "
                f"| {measured.seconds:.0f} |"
            )


def ablations(names: Sequence[str], clusters: Sequence[str], effort: Effort) -> Iterator[str]:
    """The rows of the table: milliseconds of the best strategy that is drawn, without one aspect each."""
    kinds = {"all": EVERY_ASPECT} | {f"no {one}": EVERY_ASPECT - {one} for one in Aspect}
    yield f"| network | cluster | {' | '.join(kinds)} |"
    yield "|" + "---|" * (len(kinds) + 2)
    for name, which, planner in cells(names, clusters):
        times: list[str] = []
        for aspects in kinds.values():
            found = searched(planner, replace(effort, aspects=aspects)).found
            drawn = (trial for trial in found.trials if trial.draft is not None)
            times.append(f"{min(drawn, key=lambda trial: trial.rank).microseconds / 1000:,.1f}")
        yield f"| {name} | {which} | {' | '.join(times)} |"


_DELAYED, _CAST = Inexactness(1), Inexactness(0, Compressor.CAST)
_FEEDBACK = Inexactness(0, Compressor.CAST_WITH_FEEDBACK)
INEXACT = {
    "PSLoadBalancing": (_DELAYED,),
    "PartitionedPS": (_DELAYED,),
    "AllReduce": (_CAST, _FEEDBACK),
    "PartitionedAR": (_CAST, _FEEDBACK),
}
"""What is changed of the gradients of builders."""


def inexact_table(names: Sequence[str], clusters: Sequence[str]) -> Iterator[str]:
    """The rows of the table: milliseconds of builders without and with changed gradients, and how many of the
    parameters have these."""
    heads = [text for builder, kinds in INEXACT.items() for text in (builder, *map(str, kinds))]
    yield f"| network | cluster | computing | {' | '.join(heads)} | changed |"
    yield "|" + "---|" * (len(heads) + 4)
    for name, which, planner in cells(names, clusters):
        times: list[str] = []
        changed = 0
        sums = GradientSums(planner)
        for builder, kinds in INEXACT.items():
            strategy = build(builder, planner.variables, Setting(planner.cluster))
            times.append(_milliseconds(planner, strategy))
            for asked in kinds:
                found = sums.inexact(strategy, asked)
                changed = len(found.changes)
                times.append(_milliseconds(found.planner, found.strategy))
        computing = planner.timetable(Mesh.of(planner.cluster)).computed_at / 1000
        yield (
            f"| {name} | {which} | {computing:,.1f} | {' | '.join(times)} "
            f"| {changed} of {len(planner.variables)} |"
        )


def _milliseconds(planner: StrategyPlanner, strategy: Strategy) -> str:
    return f"{simulated(planner.planned(strategy), planner).microseconds / 1000:,.1f}"


def main() -> None:
    """Prints a table in Markdown, row by row."""
    parser = argparse.ArgumentParser(prog="benchmarks autodist", description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--clusters", nargs="+", default=CLUSTERS)
    parser.add_argument("--trials", type=int, default=48, help="strategies drawn beside the builders'")
    parser.add_argument("--seeds", type=int, default=1, help="searches of each row, with another seed each")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--inexact", action="store_true")
    given = parser.parse_args()
    if given.ablations and given.trials < 1:
        parser.error(f"--trials: expected at least 1 with --ablations, got {given.trials}")
    effort = Effort(trials=given.trials)
    if given.inexact:
        rows = inexact_table(given.networks, given.clusters)
    elif given.ablations:
        rows = ablations(given.networks, given.clusters, effort)
    else:
        rows = table(given.networks, given.clusters, effort, given.seeds)
    for row in rows:
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
