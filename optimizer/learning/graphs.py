"""Graphs with features, and batches of them for a graph network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from superopt.optimizer.learning.network import ABSENT, EDGES, PRESENT, VERTICES, Floats


@dataclass(frozen=True, eq=False)
class FeatureGraph:
    """Features of vertices [vertices, features], and edges as pairs of vertices."""

    features: Floats
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Scaling:
    """Features less their ``mean``, divided by their ``deviation``; those that never vary stay."""

    mean: Floats
    deviation: Floats

    @staticmethod
    def of(graphs: Sequence[FeatureGraph]) -> Scaling:
        """The scaling by which features of all vertices have mean 0 and deviation 1."""
        rows = np.concatenate([graph.features for graph in graphs])
        deviation = rows.std(axis=0)
        varies = deviation > 1e-6
        return Scaling(
            np.where(varies, rows.mean(axis=0), 0).astype(np.float32),
            np.where(varies, deviation, 1).astype(np.float32),
        )


def batch_of(graphs: Sequence[FeatureGraph], scaling: Scaling, vertices: int = 0) -> Mapping[str, Floats]:
    """The inputs of a network for graphs of at most so many vertices, by default those of the largest. An
    edge has the weight 1 / sqrt(edges from its source, edges to its target)."""
    most = max(vertices, *(len(graph.features) for graph in graphs))
    columns = len(scaling.mean)
    found = {
        VERTICES: np.zeros((len(graphs), most, columns), np.float32),
        EDGES: np.zeros((len(graphs), most, most), np.float32),
        PRESENT: np.full((len(graphs), most, 1), ABSENT, np.float32),
    }
    for number, graph in enumerate(graphs):
        count = len(graph.features)
        found[VERTICES][number, :count] = (graph.features - scaling.mean) / scaling.deviation
        found[PRESENT][number, :count] = 0
        if graph.edges:
            edges = found[EDGES][number]
            sources, targets = np.array(graph.edges).T
            edges[sources, targets] = 1
            leaving, entering = edges.sum(axis=1, keepdims=True), edges.sum(axis=0, keepdims=True)
            edges /= np.sqrt(np.maximum(1, leaving) * np.maximum(1, entering))
    return found
