"""Ranges of vertices by costs, the features of vertices, and the regression that learns costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
import onnxruntime
import pytest

from superopt.domains import Array
from superopt.errors import InvalidOptionError
from superopt.optimizer.parallel.irregular.features import LANES, VertexGraph, features
from superopt.optimizer.parallel.irregular.ranges import balanced_ranges, equal_edges, equal_vertices
from superopt.optimizer.parallel.irregular.regression import LayerCosts
from superopt.zoo.networks.graph_networks import KINDS, Kind, graph_layer, graph_network


def _power_law(vertices: int, edges: int, seed: int) -> VertexGraph:
    random = np.random.default_rng(seed)
    new = random.integers(1, vertices, edges)
    old = (new * random.random(edges) ** 2).astype(np.int64)
    return VertexGraph.of_edges(vertices, np.concatenate([old, new]), np.concatenate([new, old]))


def test_features_are_those_of_the_papers_example() -> None:
    """v1 gathers v3, v4, v6 and v8: three runs, of 2, 1 and 1."""
    graph = VertexGraph.of_edges(9, np.array([8, 3, 4, 6]), np.array([1, 1, 1, 1]))
    found = features(graph, width=40)
    np.testing.assert_array_equal(found[1], [1, 4, 3, 3, 3 + 2 + 2])
    np.testing.assert_array_equal(found[0], [1, 0, 0, 0, 0])


def test_features_are_those_of_their_definition() -> None:
    graph = _power_law(60, 900, seed=1)
    found = features(graph, width=7)
    for vertex in range(graph.vertices):
        own = graph.neighbours[graph.offsets[vertex] : graph.offsets[vertex + 1]]
        runs = np.split(own, np.flatnonzero(np.diff(own) != 1) + 1) if len(own) else []
        lengths = np.array([len(run) for run in runs], np.int64)
        expected = [1, len(own), len(runs), (-(-lengths // LANES)).sum(), (-(-lengths * 7 // LANES)).sum()]
        np.testing.assert_array_equal(found[vertex], expected)


def test_costs_are_learned_and_divide_an_unseen_graph() -> None:
    weights = np.array([3.0, 0.5, 0.25, 0.0, 2.0])
    model = LayerCosts()
    seen, unseen = _power_law(2000, 10_000, seed=2), _power_law(3000, 20_000, seed=3)
    rows = features(seen, 16)
    bounds = equal_vertices(seen.vertices, 8)
    for _ in range(3):
        for first, last in pairwise(bounds.tolist()):
            summed = rows[first:last].sum(axis=0)
            model.learn(summed, float(summed @ weights))
        bounds = balanced_ranges(model.predicted(rows), 8)
    assert model.measurements == 24
    other = features(unseen, 16)
    costs = other @ weights
    np.testing.assert_allclose(model.predicted(other), costs, rtol=1e-6)
    learned, vertices, edges = (
        _imbalance(costs, ranges)
        for ranges in (
            balanced_ranges(model.predicted(other), 8),
            equal_vertices(unseen.vertices, 8),
            equal_edges(unseen, 8),
        )
    )
    assert learned < 1.05 < edges
    assert vertices > 1.4 * learned


def test_more_work_never_costs_less() -> None:
    model, random = LayerCosts(), np.random.default_rng(0)
    for _ in range(20):
        summed = random.uniform(1, 2, 5)
        model.learn(summed, float(max(0.0, 5 * summed[0] - 4 * summed[1])))
    assert model.weights.min() >= 0
    assert model.weights.max() > 0


CASES: Mapping[str, tuple[list[float], int, list[int]]] = {
    "equal costs": ([1, 1, 1, 1], 2, [0, 2, 4]),
    "a heavy vertex": ([1, 1, 10, 1, 1], 2, [0, 2, 5]),
    "a vertex above all shares leaves ranges empty": ([100, 1, 1], 3, [0, 0, 1, 3]),
    "more parts than vertices": ([1, 1], 4, [0, 0, 1, 1, 2]),
    "no cost anywhere": ([0, 0, 0, 0], 2, [0, 2, 4]),
    "no vertex": ([], 3, [0, 0, 0, 0]),
    "one part": ([1, 2, 3], 1, [0, 3]),
}


@pytest.mark.parametrize("case", CASES)
def test_ranges_cover_all_vertices(case: str) -> None:
    costs, parts, expected = CASES[case]
    bounds = balanced_ranges(np.asarray(costs, np.float64), parts)
    assert bounds[0] == 0
    assert bounds[-1] == len(costs)
    assert len(bounds) == parts + 1
    assert (np.diff(bounds) >= 0).all()
    assert bounds.tolist() == expected


def test_bad_input_is_refused_in_a_sentence() -> None:
    with pytest.raises(InvalidOptionError, match="parts: expected at least 1, got 0"):
        balanced_ranges(np.ones(3), 0)
    with pytest.raises(InvalidOptionError, match="costs of vertices: expected numbers of at least 0"):
        balanced_ranges(np.array([1.0, np.nan]), 2)
    with pytest.raises(InvalidOptionError, match="expected neighbours from 0 to 1, got 0 to 5"):
        VertexGraph(np.array([0, 1, 2]), np.array([0, 5]))
    with pytest.raises(InvalidOptionError, match="expected offsets from 0 to the number of edges, 2"):
        VertexGraph(np.array([0, 1]), np.array([0, 0]))
    with pytest.raises(InvalidOptionError, match="graph: expected targets from 0 to 1, got 0 to 5"):
        VertexGraph.of_edges(2, np.array([0, 0]), np.array([0, 5]))
    with pytest.raises(InvalidOptionError, match="graph: expected one source and one target for each edge"):
        VertexGraph.of_edges(2, np.array([0]), np.array([0, 1]))
    with pytest.raises(InvalidOptionError, match="expected at least one measurement"):
        LayerCosts().predicted(np.ones((2, 5)))
    with pytest.raises(InvalidOptionError, match="measurement: expected 5 sums"):
        LayerCosts().learn(np.ones(5), -1.0)
    with pytest.raises(InvalidOptionError, match="graph network: expected one of gcn, gin, commnet"):
        graph_network("gcn", 3, 2, (4,))


def test_a_graph_without_edges_has_features_and_ranges() -> None:
    graph = VertexGraph(np.zeros(5, np.int64), np.zeros(0, np.int64))
    np.testing.assert_array_equal(features(graph, 8), [[1, 0, 0, 0, 0]] * 4)
    assert equal_edges(graph, 2).tolist() == [0, 2, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_layers_of_ranges_together_are_the_layer_of_the_whole_graph(kind: Kind) -> None:
    graph = _power_law(50, 200, seed=4)
    random = np.random.default_rng(0)
    x = random.standard_normal((50, 6)).astype(np.float32)
    norm = (1 / np.maximum(graph.degrees, 1)).astype(np.float32)[:, np.newaxis]
    layer = _session(graph_layer(kind, (6, 3)).model(0).SerializeToString())
    whole = _session(graph_network(kind, 50, graph.edges, (6, 3)).model(0).SerializeToString())
    feeds = {"features": x, "sources": graph.neighbours, "targets": graph.targets(), "norm": norm}
    expected = _run(whole, feeds)
    parts: list[Array] = []
    for first, last in ((0, 1), (1, 30), (30, 30), (30, 50)):
        edges = slice(graph.offsets[first], graph.offsets[last])
        own = {
            "activations": x,
            "own": x[first:last],
            "norm": norm[first:last],
            "sources": graph.neighbours[edges],
            "targets": graph.targets()[edges] - first,
        }
        parts.append(_run(layer, own))
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-5, atol=1e-6)
    adjacency = np.zeros((50, 50), np.float32)
    np.add.at(adjacency, (graph.targets(), graph.neighbours), 1.0)
    assert (adjacency.sum(axis=1) == graph.degrees).all()


def _imbalance(costs: Array, bounds: Array) -> float:
    sums = np.add.reduceat(np.append(costs, 0.0), bounds[:-1])
    return float(sums.max() / sums.mean())


def _session(content: bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def _run(session: onnxruntime.InferenceSession, feeds: Mapping[str, Array]) -> Array:
    read = {port.name: feeds[port.name] for port in session.get_inputs()}
    return np.asarray(session.run(None, read)[0])


def test_edges_are_any_whole_numbers() -> None:
    graph = VertexGraph.of_edges(4, [3, 0], [1, 1])
    assert graph.neighbours.tolist() == [0, 3]
    assert VertexGraph.of_edges(4, np.array([]), np.array([])).degrees.tolist() == [0, 0, 0, 0]
    assert balanced_ranges(np.full(4, 1e308), 2).tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: VertexGraph.of_edges(-1, [], []), "graph: expected at least 0 vertices, got -1"),
        (lambda: VertexGraph.of_edges(4, [0.5], [1]), "graph: sources: expected whole numbers, got float64"),
        (lambda: equal_vertices(-3, 2), "vertices: expected at least 0, got -3"),
        (lambda: LayerCosts().learn(np.full(5, np.nan), 1.0), "measurement: expected sums of features of at"),
        (lambda: LayerCosts().learn(np.full(5, -1.0), 1.0), "measurement: expected sums of features of at"),
    ],
)
def test_what_is_no_graph_or_measurement_is_named(wrong: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        wrong()
    assert str(caught.value).startswith(sentence)


def test_a_measurement_stays_as_it_was_given() -> None:
    costs, summed = LayerCosts(), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    costs.learn(summed, 2.0)
    before = costs.predicted(np.eye(5))
    summed[:] = 0
    other = LayerCosts()
    other.learn(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 2.0)
    assert before.tolist() == costs.predicted(np.eye(5)).tolist() == other.predicted(np.eye(5)).tolist()
