"""Searching, stopping, replaying."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import pytest

from superopt.errors import InvalidFileError, UnprovedRuleError
from superopt.ir import Graph, NodeId
from superopt.ops.elementwise.activation import Relu, Tanh
from superopt.ops.elementwise.affine import Affine
from superopt.ops.elementwise.arithmetic import Add, Identity, Multiply
from superopt.ops.matrix import Matmul
from superopt.ops.shape import Concat
from superopt.optimizer import recorded_trace
from superopt.optimizer.cost import GraphCost, Kernel, Price, Sizes, Traffic
from superopt.optimizer.search import (
    Backtracking,
    CancelToken,
    Progress,
    RuleSet,
    SearchLimits,
    SearchResult,
    Shortened,
    TraceStep,
    Watch,
    minimised,
    replay,
    retraced,
    without_rules,
)
from superopt.optimizer.search.trace import step_of
from superopt.rewriting import Substitution, apply_match, find_matches
from tests.optimizer.graphs import Builder, chain, dense_blocks, shared_products
from tests.optimizer.rules import (
    ALL,
    ASSOCIATIVE,
    BIAS_INTO_AFFINE,
    COMMUTED_RELU,
    IDEMPOTENT,
    IDENTITY,
    SCALE_INTO_AFFINE,
    SUM_OF_PRODUCTS,
    rules,
)


def search(
    graph: Graph,
    substitutions: tuple[Substitution, ...],
    *,
    protected: tuple[NodeId, ...] = (),
    watch: Watch | None = None,
    **limits: float,
) -> SearchResult:
    cost = GraphCost.of(graph, Traffic(), Sizes(graph, {}))
    found = SearchLimits(deadline=time.monotonic() + 20)
    for name, value in limits.items():
        found = replace(found, **{name: value})
    return Backtracking().run(cost, RuleSet(substitutions, protected), watch or Watch(found))


def names(graph: Graph) -> str:
    return " ".join(graph.nodes[n].operator.name for n in graph.order if n not in graph.weight_only)


def test_a_rule_is_applied_where_it_pays() -> None:
    result = search(chain([Relu(), Relu(), Tanh(), Relu()], 4, 4), rules(IDEMPOTENT))
    assert names(result.best.graph) == "input relu tanh relu"
    assert result.stopped_by == "exhausted"
    assert result.matched == {rules(IDEMPOTENT)[0].rule_id: 1}


def test_sixty_blocks_take_one_macro_step_per_rule() -> None:
    result = search(dense_blocks(60, 4, 4), rules(SCALE_INTO_AFFINE, BIAS_INTO_AFFINE))
    assert names(result.best.graph) == "input" + 60 * " affine relu conv add"
    assert result.stopped_by == "exhausted"
    assert len(result.trace) == 120
    assert result.candidates < 1000


def test_a_costlier_step_on_the_way_is_taken_within_alpha() -> None:
    b = Builder()
    x, y, z = (b.input(name, 4, 4) for name in "xyz")
    first, second = b.add(Multiply(), x, y), b.add(Multiply(), x, z)
    product = b.add(Matmul(), b.add(Add(), first, second), b.weight(4, 400))
    graph = b.graph(b.add(Matmul(), product, b.weight(400, 2)))
    result = search(graph, rules(SUM_OF_PRODUCTS, ASSOCIATIVE))
    assert names(result.best.graph) == "input input input add mul matmul"


def test_it_ends_by_exhaustion_candidates_patience_budget_or_cancel() -> None:
    graph = shared_products(4)
    substitutions = rules(*ALL)
    assert search(graph, substitutions, max_candidates=7).candidates == 7
    blocks = dense_blocks(8, 4, 4)
    assert [search(blocks, substitutions, max_candidates=n).candidates for n in range(25)] == list(range(25))
    assert search(graph, substitutions, max_candidates=7).stopped_by == "max_candidates"
    assert search(graph, substitutions, patience=5, alpha=2.0).stopped_by == "patience"
    assert search(graph, substitutions, deadline=0.0).stopped_by == "budget"
    cancel = CancelToken()
    cancel.cancel()
    watch = Watch(SearchLimits(deadline=time.monotonic() + 20), cancel)
    result = search(graph, substitutions, watch=watch)
    assert result.stopped_by == "cancelled"
    assert result.trace == ()


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    graph = shared_products(5)
    runs = [search(graph, rules(*ALL), seed=seed, max_candidates=400, alpha=1.2) for _ in range(2)]
    assert runs[0].trace == runs[1].trace
    assert runs[0].candidates == runs[1].candidates


def test_progress_is_told_with_the_best_cost_so_far() -> None:
    told: list[Progress] = []
    watch = Watch(SearchLimits(deadline=time.monotonic() + 20), report=told.append, report_interval=0.0)
    result = search(dense_blocks(4), rules(*ALL), watch=watch)
    costs = [progress.best_cost for progress in told]
    assert all(after <= before for before, after in itertools.pairwise(costs))
    assert told[-1].candidates == result.candidates
    assert result.curve[0][1] > result.curve[-1][1] == result.best.total


def test_replay_gives_the_same_graph_with_the_same_ids() -> None:
    for graph in (dense_blocks(5), dense_blocks(2, 8, 4)):
        result = search(graph, rules(*ALL), max_candidates=500)
        again = replay(graph, result.trace, rules(*ALL))
        assert result.trace
        assert again.nodes == result.best.graph.nodes
        assert again.outputs == result.best.graph.outputs
        assert again.next_id == result.best.graph.next_id


@pytest.mark.parametrize(
    "report", [{}, {"schema": 2}, {"schema": 1, "trace": 3}, {"schema": 1, "trace": [{"kind": "layout"}]}]
)
def test_what_is_no_report_is_refused(report: dict[str, object]) -> None:
    with pytest.raises(InvalidFileError):
        recorded_trace(report)


def test_replay_refuses_what_is_not_verified_or_does_not_apply() -> None:
    graph = dense_blocks(2)
    trace = search(graph, rules(*ALL)).trace
    with pytest.raises(UnprovedRuleError, match="is not among the verified rules"):
        replay(graph, trace, rules(IDENTITY))
    with pytest.raises(InvalidFileError, match=r"step 1: rule .* does not apply at nodes"):
        replay(graph, [replace(trace[0], site=(NodeId(1), NodeId(2)))], rules(*ALL))
    with pytest.raises(InvalidFileError):
        replay(graph, [replace(trace[0], choice=9)], rules(*ALL))


def test_a_trace_is_told_again_at_other_prices() -> None:
    graph = dense_blocks(2)
    found = search(graph, rules(*ALL))
    again, trace = retraced(graph, found.trace, rules(*ALL), lambda graph: float(len(graph.nodes)))
    assert again.nodes == found.best.graph.nodes
    assert [(step.rule, step.equation) for step in trace] == [(s.rule, s.equation) for s in found.trace]
    assert [step.cost_after for step in trace[:-1]] == [step.cost_before for step in trace[1:]]
    assert (trace[0].cost_before, trace[-1].cost_after) == (len(graph.nodes), len(again.nodes))
    _, unpriced = retraced(graph, found.trace, rules(*ALL), lambda _: None)
    assert {(step.cost_before, step.cost_after) for step in unpriced} == {(0.0, 0.0)}


def test_protected_nodes_are_left_alone() -> None:
    graph = dense_blocks(2)
    first = next(node.id for node in graph if isinstance(node.operator, Affine))
    result = search(graph, rules(*ALL), protected=(first,))
    assert first in result.best.graph.nodes
    assert names(result.best.graph) == (
        "input affine channel_scale bias_add relu conv add affine relu conv add"
    )


def test_a_trace_without_one_rule_keeps_what_does_not_need_it() -> None:
    graph = dense_blocks(3)
    scale, bias = rules(SCALE_INTO_AFFINE, BIAS_INTO_AFFINE)
    result = search(graph, (scale, bias))
    start = GraphCost.of(graph, Traffic(), Sizes(graph, {}))
    cost, trace = without_rules(start, result.trace, (scale, bias), {bias.rule_id})
    assert names(cost.graph) == "input" + 3 * " affine bias_add relu conv add"
    assert {step.rule for step in trace} == {scale.rule_id}
    assert cost.total == cost.refreshed().total == trace[-1].cost_after
    assert replay(graph, trace, (scale, bias)).nodes == cost.graph.nodes
    assert without_rules(start, result.trace, (scale, bias), {scale.rule_id})[1] == ()


def walk(start: GraphCost, substitutions: tuple[Substitution, ...]) -> Shortened:
    """The first match of each substitution in turn."""
    cost, trace = start, list[TraceStep]()
    for substitution in substitutions:
        match = next(find_matches(cost.graph, substitution))
        rewrite = apply_match(cost.graph, match)
        assert rewrite is not None
        update = cost.after(rewrite)
        assert update is not None
        before, cost = cost, update.build()
        trace.append(step_of(before, match, cost))
    return Shortened(cost, tuple(trace))


def test_a_trace_is_rid_of_what_undoes_itself_and_of_what_gains_nothing() -> None:
    b = Builder()
    joined = b.add(Concat(1), *(b.add(Relu(), b.input(name, 1, 4, 6, 6)) for name in "xy"))
    graph = b.graph(b.add(Relu(), b.add(Relu(), b.add(Identity(), b.add(Tanh(), joined)))))
    drop, once, distribute, join = rules(IDENTITY, IDEMPOTENT, COMMUTED_RELU)
    known = (drop, once, distribute, join)
    for substitutions, shorter in (
        ((join, once, distribute, drop), (once,)),
        ((join, distribute, join), ()),
        ((join, distribute), ()),
        ((drop,), ()),
        ((once, join), (once,)),
    ):
        start = GraphCost.of(graph, Traffic(), Sizes(graph, {}))
        found = walk(start, substitutions)
        least = minimised(start, found, known)
        assert [(s.rule, s.backwards) for s in least.trace] == [(s.rule_id, s.backwards) for s in shorter]
        assert least.cost.total <= found.cost.total
        assert replay(graph, least.trace, known).nodes == least.cost.graph.nodes


class Measured(Traffic):
    """A relu of a part of an image takes half of ``relu``, as if that had been measured."""

    noise = 0.03

    def __init__(self, relu: float) -> None:
        self.relu = relu

    def price(self, kernel: Kernel) -> Price:
        part = any(type_.shape == (1, 4, 6, 6) for type_ in kernel.output_types)
        return Price((self.relu / 2 if part else 100.0) if kernel.steps[0].operator == Relu() else 50.0)


@pytest.mark.parametrize(("whole", "is_kept"), [(98.0, False), (80.0, True)])
def test_a_larger_graph_has_to_gain_more_than_noise(whole: float, *, is_kept: bool) -> None:
    b = Builder()
    graph = b.graph(b.add(Relu(), b.add(Concat(1), b.input("x", 1, 4, 6, 6), b.input("y", 1, 4, 6, 6))))
    distribute, join = rules(COMMUTED_RELU)
    start = GraphCost.of(graph, Measured(whole), Sizes(graph, {}))
    found = walk(start, (distribute,))
    assert (start.total, found.cost.total) == (150.0, 50.0 + whole)
    least = minimised(start, found, (distribute, join))
    assert least.trace == (found.trace if is_kept else ())


class OfMaximum(Traffic):
    """A relu takes 100, another maximum what is given, as if both had been measured."""

    noise = 0.03

    def __init__(self, maximum: float) -> None:
        self.maximum = maximum

    def price(self, kernel: Kernel) -> Price:
        return Price(sum(100.0 if step.operator == Relu() else self.maximum for step in kernel.steps))


@pytest.mark.parametrize(("maximum", "steps"), [(98.0, 1), (90.0, 2)])
def test_a_step_that_exchanges_an_operator_has_to_gain_more_than_noise(maximum: float, steps: int) -> None:
    b = Builder()
    graph = b.graph(b.add(Relu(), b.add(Relu(), b.input("x", 1, 4, 6, 6))))
    once, exchanged = known = rules(IDEMPOTENT, "relu(x) => maximum(x, full[value=0])")
    start = GraphCost.of(graph, OfMaximum(maximum), Sizes(graph, {}))
    found = walk(start, (once, exchanged))
    assert (start.total, found.cost.total) == (200.0, maximum)
    assert minimised(start, found, known).trace == found.trace[:steps]


def test_what_reads_a_step_is_not_its_noise() -> None:
    """The product that reads the maximum costs a hundred times as much as it gains."""
    b = Builder()
    y = b.add(Relu(), b.add(Relu(), b.input("x", 8, 8)))
    graph = b.graph(b.add(Matmul(), y, b.weight(8, 8)))
    known = rules(IDEMPOTENT, "relu(x) => maximum(x, full[value=0])")

    class WithProduct(OfMaximum):
        def price(self, kernel: Kernel) -> Price:
            product = sum(isinstance(step.operator, Matmul) for step in kernel.steps)
            return Price(1000.0 * product + (0.0 if product else super().price(kernel).cost))

    start = GraphCost.of(graph, WithProduct(90.0), Sizes(graph, {}))
    found = walk(start, known)
    assert found.cost.total == 1090.0
    assert minimised(start, found, known).trace == found.trace


def test_a_long_trace_is_rid_of_what_undoes_itself() -> None:
    """Forty steps depend on each other; those that lowered the cost stay without a trial."""
    b = Builder()
    value = b.add(Concat(1), b.input("x", 1, 4, 6, 6), b.input("y", 1, 4, 6, 6))
    for _ in range(40):
        value = b.add(Relu(), value)
    graph = b.graph(value)
    once, distribute, join = known = rules(IDEMPOTENT, COMMUTED_RELU)
    start = GraphCost.of(graph, Traffic(), Sizes(graph, {}))
    found = walk(start, (distribute, *38 * (once,), join))
    least = minimised(start, found, known)
    assert {step.cost_after >= step.cost_before for step in found.trace} == {True, False}
    assert [step.rule for step in least.trace] == 38 * [once.rule_id]
    assert least.cost.total == found.cost.total
    assert replay(graph, least.trace, known).nodes == least.cost.graph.nodes
