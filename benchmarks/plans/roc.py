"""Ranges of vertices by learned costs beside equal vertices and equal edges, on measured times (Roc, 4.4).

    python -m benchmarks roc [GRAPH ...]

Layers of graph networks run in ONNX Runtime for each range of vertices of seeded power-law graphs, one after
another on one core; a time is the processor time of the thread, the least of several rounds, in which the
methods take turns. The graphs have a share of the vertices and edges of Roc's four data sets, and the widths
of a small network. The cost model starts from equal ranges of vertices, measures these, and divides the graph
anew in every iteration. ``unseen`` is a graph of another seed, which the learned costs divide without
measuring it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.plans.caching import GRAPHS, GraphData
from superopt.domains import Array
from superopt.optimizer.cost.runtime.session import LoadedModel
from superopt.optimizer.parallel.irregular.features import Integers, Numbers, VertexGraph, features
from superopt.optimizer.parallel.irregular.ranges import balanced_ranges, equal_edges, equal_vertices
from superopt.optimizer.parallel.irregular.regression import LayerCosts
from superopt.zoo.networks.graph_networks import KINDS, Kind, graph_layer

COLUMNS = (
    *("graph", "network", "vertices", "edges", "of edges", "method", "slowest part ms", "imbalance"),
    *("equal vertices / this", "unseen imbalance"),
)
SHARES = {"Pubmed": 1.0, "PPI": 1 / 16, "Reddit": 1 / 1024, "Amazon": 1 / 2048}
"""The share of the edges of each data set that its graph has."""

WIDTHS = (32, 32, 16)
PARTS, ITERATIONS, LEARNING_ROUNDS, ROUNDS = 8, 5, 4, 12
METHODS = ("equal vertices", "equal edges", "learned")


def power_law(data: GraphData, share: float, seed: int) -> VertexGraph:
    """A graph in which new vertices are joined to older ones in proportion to their degrees (Barabasi and
    Albert 1999). Both ends of an edge are drawn: the newer one uniformly, the older one with the density that
    degrees have in the limit, one over the square root of the vertex. Edges are in both directions; two
    vertices may have several."""
    random = np.random.default_rng(seed)
    edges = int(data.edges * share / 2)
    vertices = max(2, min(data.vertices, int(2 * edges * data.vertices / data.edges)))
    new = random.integers(1, vertices, edges)
    old = (new * random.random(edges) ** 2).astype(np.int64)
    return VertexGraph.of_edges(vertices, np.concatenate([old, new]), np.concatenate([new, old]))


@dataclass(frozen=True, eq=False)
class Network:
    """Layers of a graph network on a graph: their models, inputs, and features of the vertices."""

    graph: VertexGraph
    layers: Sequence[LoadedModel]
    activations: Sequence[Array]
    norm: Array
    features: Sequence[Numbers]

    @staticmethod
    def of(kind: Kind, graph: VertexGraph) -> Network:
        random = np.random.default_rng(0)
        models = [graph_layer(kind, widths).model(0) for widths in pairwise(WIDTHS)]
        return Network(
            graph,
            [LoadedModel(model.SerializeToString(), 1) for model in models],
            [random.standard_normal((graph.vertices, width)).astype(np.float32) for width in WIDTHS[:-1]],
            (1 / np.maximum(graph.degrees, 1)).astype(np.float32)[:, np.newaxis],
            [features(graph, width) for width in WIDTHS[:-1]],
        )

    def feeds(self, layer: int, first: int, last: int) -> Mapping[str, Array]:
        """The inputs of a layer for a range of vertices."""
        edges = slice(self.graph.offsets[first], self.graph.offsets[last])
        given = {
            "activations": self.activations[layer],
            "own": self.activations[layer][first:last],
            "norm": self.norm[first:last],
            "sources": self.graph.neighbours[edges],
            "targets": np.repeat(np.arange(last - first), self.graph.degrees[first:last]),
        }
        return {port.name: given[port.name] for port in self.layers[layer].inputs}


def measured(network: Network, divisions: Sequence[Integers], rounds: int) -> list[Numbers]:
    """Milliseconds of each layer and part [layers, parts] of each division: the least of the rounds. An empty
    part takes no time."""
    found = [np.full((len(network.layers), len(bounds) - 1), np.inf) for bounds in divisions]
    runs = [list(_runs(network, bounds)) for bounds in divisions]
    for _ in range(rounds):
        for times, own in zip(found, runs, strict=True):
            for layer, part, feeds in own:
                start = time.thread_time()
                network.layers[layer].run(feeds)
                times[layer, part] = min(times[layer, part], 1e3 * (time.thread_time() - start))
    return [np.where(np.isinf(times), 0.0, times) for times in found]


def _runs(network: Network, bounds: Integers) -> Iterator[tuple[int, int, Mapping[str, Array]]]:
    for part, (first, last) in enumerate(pairwise(bounds.tolist())):
        for layer in range(len(network.layers)) if last > first else ():
            yield layer, part, network.feeds(layer, first, last)


def learn(network: Network, iterations: int, parts: int) -> tuple[list[LayerCosts], Integers]:
    """The cost models of the layers after the iterations, and the division by them."""
    costs = [LayerCosts() for _ in network.layers]
    bounds = equal_vertices(network.graph.vertices, parts)
    for _ in range(iterations):
        (times,) = measured(network, [bounds], LEARNING_ROUNDS)
        for layer, model in enumerate(costs):
            for part, (first, last) in enumerate(pairwise(bounds.tolist())):
                if last > first:
                    model.learn(network.features[layer][first:last].sum(axis=0), float(times[layer, part]))
        bounds = divided(network, costs, parts)
    return costs, bounds


def divided(network: Network, costs: Sequence[LayerCosts], parts: int) -> Integers:
    """Ranges of equal costs of all layers together."""
    predicted = [model.predicted(own) for model, own in zip(costs, network.features, strict=True)]
    return balanced_ranges(np.sum(predicted, axis=0), parts)


def imbalance(times: Numbers) -> float:
    """The time of the slowest part over the mean."""
    parts = times.sum(axis=0)
    return float(parts.max() / parts.mean())


def rows(data: GraphData, kind: Kind, seed: int = 0) -> Iterator[tuple[str, ...]]:
    """A row for each method."""
    share = SHARES[data.name]
    network = Network.of(kind, power_law(data, share, seed))
    graph = network.graph
    costs, bounds = learn(network, ITERATIONS, PARTS)
    divisions = [equal_vertices(graph.vertices, PARTS), equal_edges(graph, PARTS), bounds]
    found = measured(network, divisions, ROUNDS)
    other = Network.of(kind, power_law(data, share, seed + 1))
    unseen = [
        equal_vertices(other.graph.vertices, PARTS),
        equal_edges(other.graph, PARTS),
        divided(other, costs, PARTS),
    ]
    found_unseen = measured(other, unseen, ROUNDS)
    slowest = [float(times.sum(axis=0).max()) for times in found]
    for index, method in enumerate(METHODS):
        yield (
            *(data.name, kind, f"{graph.vertices:,}", f"{graph.edges:,}", f"{data.edges:,}", method),
            f"{slowest[index]:.2f}",
            f"{imbalance(found[index]):.3f}",
            f"{slowest[0] / slowest[index]:.2f}",
            f"{imbalance(found_unseen[index]):.3f}",
        )


def main() -> None:
    """Prints the table row by row."""
    parser = argparse.ArgumentParser(prog="benchmarks roc", description=__doc__)
    parser.add_argument("graphs", nargs="*", default=list(SHARES), help=", ".join(SHARES))
    names = parser.parse_args().graphs
    unknown = [name for name in names if name not in SHARES]
    if unknown:
        parser.error(f"graph: expected one of {', '.join(SHARES)}, got {unknown[0]!r}")
    sys.stdout.write(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n")
    for data in GRAPHS:
        for kind in KINDS if data.name in names else ():
            for row in rows(data, kind):
                sys.stdout.write(f"| {' | '.join(row)} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
