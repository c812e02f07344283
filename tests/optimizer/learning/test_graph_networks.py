"""Graph networks: trained by superopt's own steps, they learn values and orders of graphs never seen."""

from __future__ import annotations

import numpy as np

from superopt.optimizer.learning.fitting import Course, fitted_to_pairs, fitted_to_values
from superopt.optimizer.learning.graphs import FeatureGraph, Scaling, batch_of
from superopt.optimizer.learning.network import ABSENT, EDGES, PRESENT, VERTICES, GraphNetwork

COURSE = Course(400, batch=32, rate=1e-2)


def _paths(count: int, seed: int) -> tuple[list[FeatureGraph], list[float]]:
    """Paths of 2 to 6 vertices; the value depends on each vertex and on the vertex before it."""
    draw = np.random.default_rng(seed)
    graphs: list[FeatureGraph] = []
    values: list[float] = []
    for _ in range(count):
        size = int(draw.integers(2, 7))
        features = np.ones((size, 3), np.float32)
        features[:, :2] = draw.normal(size=(size, 2))
        graphs.append(FeatureGraph(features, tuple((one, one + 1) for one in range(size - 1))))
        read = features[:-1, 1] * (features[:-1, 1] > 0)
        values.append(float(np.log(np.exp(features[:, 0]).sum() + read.sum())))
    return graphs, values


def test_values_of_unseen_graphs_are_learned_and_repeat() -> None:
    graphs, values = _paths(260, 0)
    network = GraphNetwork(3, 12, 1)
    found = fitted_to_values(network, graphs[:200], values[:200], COURSE)
    errors = np.abs(found.values(graphs[200:]) - values[200:])
    guess = np.abs(np.median(values[:200]) - np.array(values[200:]))
    assert errors.mean() < 0.35 * guess.mean()
    again = fitted_to_values(network, graphs[:200], values[:200], COURSE)
    assert all((again.weights[name] == array).all() for name, array in found.weights.items())
    assert {name: array.shape for name, array in found.weights.items()} == network.shapes()


def test_the_value_of_a_graph_does_not_depend_on_its_batch() -> None:
    graphs, values = _paths(40, 1)
    found = fitted_to_values(GraphNetwork(3, 4, 1), graphs, values, Course(5, batch=8))
    alone = [float(found.values([graph])[0]) for graph in graphs]
    np.testing.assert_allclose(found.values(graphs), alone, rtol=1e-5)


def test_an_order_is_learned_from_pairs() -> None:
    graphs, values = _paths(60, 2)
    pairs = [(one, other) for one in range(60) for other in range(60) if values[one] < values[other] - 0.05]
    found = fitted_to_pairs(GraphNetwork(3, 12, 1), graphs, pairs, COURSE)
    unseen, theirs = _paths(60, 3)
    scores = found.values(unseen)
    ordered = [
        scores[one] < scores[other]
        for one in range(60)
        for other in range(60)
        if theirs[one] < theirs[other] - 0.05
    ]
    assert np.mean(ordered) > 0.85


def test_batches_pad_graphs_and_scale_features() -> None:
    first = FeatureGraph(np.array([[1, 5], [3, 5]], np.float32), ((0, 1),))
    second = FeatureGraph(np.array([[5, 5]], np.float32), ())
    batch = batch_of([first, second], Scaling.of([first, second]))
    assert batch[PRESENT][:, :, 0].tolist() == [[0, 0], [0, ABSENT]]
    assert batch[EDGES][0].tolist() == [[0, 1], [0, 0]]
    assert batch[VERTICES][:, :, 1].tolist() == [[5, 5], [5, 0]], "a feature that never varies stays"
    rows = [*batch[VERTICES][0, :, 0], batch[VERTICES][1, 0, 0]]
    assert np.mean(rows) < 1e-6
    np.testing.assert_allclose(np.std(rows), 1, rtol=1e-5)
