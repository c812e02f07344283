"""The learned ranking of synchronisation strategies: it learns the order of random strategies, and is tested.

    python -m benchmarks ranking [-o FILE.json] [--strategies 30] [--tested NETWORK:SAMPLES:CLUSTER ...]

Strategies of the steps of ``STEPS`` are simulated and learned from, in pairs of the same step; those of the
``--tested`` ones are not. Prints for each tested step the share of pairs that the network orders as their
simulations do, and the same for the time that the model of communication predicts. ``-o`` writes the network,
as it ships in ``optimizer/parallel/strategies/data/ranking.json``.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from superopt.files import write_atomically
from superopt.journeys.planning.plannable_steps import network_step
from superopt.optimizer.learning.fitting import Course, fitted_to_pairs
from superopt.optimizer.learning.graphs import FeatureGraph
from superopt.optimizer.learning.network import GraphNetwork
from superopt.optimizer.learning.trained import TrainedNetwork
from superopt.optimizer.parallel.documents.cluster import named_cluster
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.strategies.auto import simulated
from superopt.optimizer.parallel.strategies.builders import BUILDERS, CHUNK, Setting, build
from superopt.optimizer.parallel.strategies.graphs import COUNT
from superopt.optimizer.parallel.strategies.plans import StrategyPlanner
from superopt.optimizer.parallel.strategies.ranking import FeatureExtractor, ordered_share, ranking_document
from superopt.optimizer.parallel.strategies.sampling import Sampler
from superopt.optimizer.parallel.strategies.variables import DeviceNames

STEPS = (
    *("light-ncf:1024:b7", "light-ncf:16384:a2", "mlp-mnist:256:b7", "squeezenet:16:b7", "mlp-mnist:64:a2"),
    *("candle-uno:64:a2", "resnet18:16:b7", "xdl:128:b7", "light-bert:64:b7", "light-transformer:32:a2"),
    *("candle-uno:32:b7", "light-lstm-lm:64:b5", "yolov3-tiny:8:b7", "squeezenet:64:a2"),
    *("resnet18:32:a2", "light-ncf:4096:b11", "xdl:512:b11", "light-resnet18:64:b7", "light-resnet18:16:a2"),
)
"""Networks, samples of each device, and clusters of AutoDist's table 1."""

TESTED = ("ncf:1024:b7", "ncf:1024:a2", "vgg16:32:b7")
_MOST_PAIRS = 600
_DISTINCT = 1.005
_COURSE = Course(3000, batch=32)
_WIDTH, _LAYERS = 24, 2


@dataclass(frozen=True)
class Ranked:
    """A strategy of a step: its graph, the time that the model of communication predicts, the simulated
    one."""

    graph: FeatureGraph
    predicted: float
    microseconds: float


def strategies(text: str, count: int, seed: int) -> list[Ranked]:
    """The builders' strategies of a step, and so many that are drawn."""
    network, samples, which = text.split(":")
    cluster = named_cluster(f"autodist-{which}")
    step = network_step(network, int(samples) * len(cluster), "sgd")
    planner = StrategyPlanner(step.graph, step.layout, Prices(cluster))
    extractor = FeatureExtractor(planner.timetable(Mesh.of(cluster)))
    sampler = Sampler(planner.variables, DeviceNames(cluster), random.Random(seed))
    found = [build(name, planner.variables, Setting(cluster, CHUNK, seed)) for name in BUILDERS]
    drafts = [sampler.draft_like(strategy) for strategy in found]
    for number in range(count):
        draft = sampler.draft() if number % 2 else sampler.variation(sampler.random.choice(drafts))
        drafts.append(draft)
        found.append(sampler.strategy(draft))
    return [
        Ranked(
            extractor.graph(strategy),
            float(extractor.of(strategy)[0]),
            simulated(planner.planned(strategy), planner).microseconds,
        )
        for strategy in found
    ]


def learned(steps: Sequence[Sequence[Ranked]], course: Course = _COURSE) -> TrainedNetwork:
    """The network that orders strategies of the same step by their simulated times."""
    draw, pairs, graphs = random.Random(course.seed), list[tuple[int, int]](), list[FeatureGraph]()
    for own in steps:
        first = len(graphs)
        graphs.extend(one.graph for one in own)
        found = [
            (first + fast, first + slow)
            for fast, one in enumerate(own)
            for slow, other in enumerate(own)
            if other.microseconds > _DISTINCT * one.microseconds
        ]
        draw.shuffle(found)
        pairs += found[:_MOST_PAIRS]
    return fitted_to_pairs(GraphNetwork(COUNT, _WIDTH, _LAYERS), graphs, pairs, course)


def tested(text: str, own: Sequence[Ranked], trained: TrainedNetwork) -> str:
    """The row of a step."""
    times = [one.microseconds for one in own]
    by_network = ordered_share((-trained.values([one.graph for one in own])).tolist(), times) or 0.0
    by_step = ordered_share([-one.predicted for one in own], times) or 0.0
    return f"| {text} | {len(own)} | {by_network:.0%} | {by_step:.0%} |"


def rows(given: Sequence[str], count: int, path: Path | None) -> Iterator[str]:
    """The table, row by row; the network is written to the path."""
    trained = learned([strategies(text, count, number) for number, text in enumerate(STEPS)])
    if path is not None:
        write_atomically(path, ranking_document(trained, STEPS).encode())
    yield "| step | strategies | network | predicted time |"
    yield "|---|---|---|---|"
    for number, text in enumerate(given, len(STEPS)):
        yield tested(text, strategies(text, count, number), trained)


def main() -> None:
    """Prints the table in Markdown."""
    parser = argparse.ArgumentParser(prog="benchmarks ranking", description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--strategies", type=int, default=30, help="strategies drawn for each step")
    parser.add_argument("--tested", nargs="*", default=TESTED)
    given = parser.parse_args()
    for row in rows(given.tested, given.strategies, given.output):
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
