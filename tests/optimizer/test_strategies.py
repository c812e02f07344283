"""Every strategy: what it finds, and that what it says can be replayed; regions and their cuts."""

from __future__ import annotations

import itertools
import time

import pytest
from onnx import parser

from superopt import zoo
from superopt.errors import InvalidOptionError
from superopt.ir import Graph, Input, NodeId
from superopt.onnx_io import lift, load_model
from superopt.ops.elementwise.affine import Affine
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.cost import GraphCost, Nominal, Origin, Sizes, Traffic
from superopt.optimizer.search import (
    CancelToken,
    Progress,
    RuleSet,
    SearchLimits,
    SearchResult,
    Watch,
    replay,
    search_named,
    searches,
)
from superopt.optimizer.search.strategies.descent import Descent
from superopt.optimizer.search.strategies.graph_cuts import Row, region_of
from superopt.optimizer.search.strategies.normalise import Normalise
from tests.optimizer.graphs import dense_blocks, f32, shared_products
from tests.optimizer.rules import ALL, BIAS_INTO_AFFINE, SCALE_INTO_AFFINE, SHARED_RIGHT, rules
from tests.optimizer.test_incremental import mixed_graph

JOINED = "add(matmul(x, y), matmul(z, w)) => matmul(concat[axis=-1](x, z), concat[axis=-2](y, w))"
OF_SHARED_LEFT = (
    "({0}(matmul(x, y)), {0}(matmul(x, z))) => (split0[axis=-1]({0}(matmul(x, concat[axis=-1](y, z)))),"
    " split1[axis=-1]({0}(matmul(x, concat[axis=-1](y, z)))))"
)
RULES = rules(*ALL)
STRATEGIES = tuple(searches())


def priced(graph: Graph) -> GraphCost:
    return GraphCost.of(graph, Traffic(), Sizes(graph, {}))


def search(
    name: str, graph: Graph, watch: Watch | None = None, protected: tuple[NodeId, ...] = ()
) -> SearchResult:
    found = watch or Watch(SearchLimits(deadline=time.monotonic() + 20, max_candidates=150))
    return search_named(name).run(priced(graph), RuleSet(RULES, protected), found)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "graph",
    [dense_blocks(4, 4, 4), shared_products(2), mixed_graph(1), mixed_graph(5)],
)
def test_every_strategy_lowers_the_cost_by_a_trace_that_replays(strategy: str, graph: Graph) -> None:
    result = search(strategy, graph)
    again = replay(graph, result.trace, RULES)
    assert again.nodes == result.best.graph.nodes
    assert result.best.total == priced(again).total <= priced(graph).total
    costs = [cost for _, cost in result.curve]
    assert costs == sorted(costs, reverse=True)
    assert search(strategy, graph).trace == result.trace


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_stops_when_told_and_tells_how_far_it_is(strategy: str) -> None:
    graph = shared_products(4)
    cancel, told = CancelToken(), list[Progress]()
    cancel.cancel()
    limits = SearchLimits(deadline=time.monotonic() + 20)
    assert search(strategy, graph, Watch(limits, cancel)).stopped_by == "cancelled"
    interrupted = CancelToken()
    interrupted.interrupt()
    assert search(strategy, graph, Watch(limits, interrupted)).stopped_by == "interrupted"
    over = search(strategy, graph, Watch(limits, is_over=lambda: True))
    assert (over.stopped_by, over.trace) == ("budget", ())
    limited = SearchLimits(deadline=time.monotonic() + 20, max_candidates=30)
    result = search(strategy, graph, Watch(limited, report=told.append, report_interval=0.0))
    assert (result.stopped_by, result.candidates) == ("max_candidates", 30)
    assert all(after.best_cost <= before.best_cost for before, after in itertools.pairwise(told))
    assert {progress.cost_before for progress in told} == {priced(graph).total}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_strategy_touches_what_is_protected(strategy: str) -> None:
    graph = dense_blocks(3)
    first = next(node.id for node in graph if isinstance(node.operator, Affine))
    assert first in search(strategy, graph, protected=(first,)).best.graph.nodes


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_graph_that_computes_nothing_stays(strategy: str) -> None:
    editor = Graph.empty().edit()
    editor.set_outputs(editor.add(Input("x", f32(2))).values)
    result = search(strategy, editor.build())
    assert (result.trace, result.stopped_by) == ((), "exhausted")


def test_auto_ends_soon_where_backtracking_leaves_nothing() -> None:
    for graph in (dense_blocks(1, 4, 4), mixed_graph(1), mixed_graph(3)):
        limits = SearchLimits(deadline=time.monotonic() + 20)
        whole, auto = (search(name, graph, Watch(limits)) for name in ("backtracking", "auto"))
        assert (whole.stopped_by, auto.stopped_by) == ("exhausted", "exhausted")
        assert auto.candidates <= whole.candidates + max(whole.candidates, 20)


def test_auto_finds_what_the_normal_form_is_in_the_way_of() -> None:
    """In a recurrent network two products that are added become one, and share no weights any more."""
    known = RuleSet(rules(JOINED, SHARED_RIGHT, *map(OF_SHARED_LEFT.format, ("tanh", "sigmoid"))))
    graph = canonicalise(lift(load_model(zoo.build("nasrnn").SerializeToString()))).graph
    start = GraphCost.of(graph, Nominal(), Sizes(graph, {}))
    watch = Watch(SearchLimits(deadline=time.monotonic() + 60))
    normal = Normalise().run(start, known, watch).best
    blocked, free = (Descent().run(begin, known, watch).best.total for begin in (normal, start))
    assert normal.total < start.total
    assert free < 0.8 * blocked
    told = list[Progress]()
    limits = SearchLimits(deadline=time.monotonic() + 60, patience=1000)
    watch = Watch(limits, report=told.append, report_interval=0.0)
    assert search_named("auto").run(start, known, watch).best.total <= free
    assert all(after.best_cost <= before.best_cost for before, after in itertools.pairwise(told))


def test_equal_blocks_are_equal_regions_and_solved_once() -> None:
    graph = dense_blocks(60, 4, 4)
    cost = priced(graph)
    row = Row.of(cost)
    parts = row.regions(row.cuts(5, 5))
    likenesses = [region_of(cost, part).likeness for part in parts[1:-1]]
    assert len(set(likenesses)) == 1
    limits = SearchLimits(deadline=time.monotonic() + 20)
    substitutions = rules(SCALE_INTO_AFFINE, BIAS_INTO_AFFINE)
    result = search_named("regions").run(cost, RuleSet(substitutions), Watch(limits))
    assert len(result.trace) == 120
    assert result.candidates < 60


def test_a_region_costs_what_its_part_of_the_graph_costs() -> None:
    for graph in (dense_blocks(6, 4, 4), shared_products(5)):
        cost = priced(graph)
        row = Row.of(cost)
        for cuts in (row.cuts(2, 4), row.shifted(row.cuts(2, 4))):
            parts = row.regions(cuts)
            assert sorted(itertools.chain(*parts)) == sorted(cost.owner)
            assert sum(priced(region_of(cost, part).graph).total for part in parts) == cost.total


def test_a_region_reads_the_constants_of_the_model() -> None:
    """Around an opaque node the numbers of small constants count, and another weight may have any name."""
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[4] x) => (float[4] y)
        <float[4] w2 = {1, 2, 3, 4}, float[4] w1 = {5, 6, 7, 8}, int64 axis = {0}> {
            a = Mul(x, w2)
            b = CumSum(a, axis)
            c = Mul(b, w1)
            y = CumSum(c, axis)
        }""")
    lifted = lift(load_model(model))
    cost = GraphCost.of(lifted.graph, Traffic(), Sizes(lifted.graph, {}, Origin(lifted)))
    row = Row.of(cost)
    regions = [region_of(cost, part) for part in row.regions(row.cuts(1, 1))]
    parts = [GraphCost.of(r.graph, cost.objective, cost.sizes, r.blocked) for r in regions]
    assert len(parts) > 2
    assert {g.kernel for part in parts for g in part.groups} == {g.kernel for g in cost.groups}


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(
        InvalidOptionError, match="expected one of auto, backtracking, regions, beam, got 'x'"
    ):
        search_named("x")
