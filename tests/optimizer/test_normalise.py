"""Normalisation and descent: they end, say what replays, measure little, and undo what costs more."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from superopt.equations import parse_equation, rule_id
from superopt.ir import Graph
from superopt.ir.plan import Plan
from superopt.onnx_io import lower
from superopt.ops.elementwise.activation import HardSigmoid, Relu, Sigmoid
from superopt.ops.elementwise.affine import BiasAdd
from superopt.ops.elementwise.arithmetic import Divide, Multiply, Scale
from superopt.ops.images.convolution import Conv
from superopt.ops.shape import Broadcast, Concat
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.cost import GraphCost, Kernel, Latency, MemoryCostStore, Nominal, Price, Sizes
from superopt.optimizer.cost.runtime.session import LoadedModel
from superopt.optimizer.search import RuleSet, SearchLimits, SearchResult, Watch, replay
from superopt.optimizer.search import rules as rules_of_search
from superopt.optimizer.search.protocol import Search
from superopt.optimizer.search.recording import Relocation
from superopt.optimizer.search.state import Opportunity, State
from superopt.optimizer.search.strategies.descent import Descent
from superopt.optimizer.search.strategies.fixpoint import fixpoint
from superopt.optimizer.search.strategies.normalise import Normalise, composed
from superopt.optimizer.search.strategies.ordering import Sized, may_decrease
from superopt.optimizer.search.strategies.promises import Promises
from superopt.rewriting import Match, find_matches, substitutions_of
from tests.optimizer.graphs import Builder, dense_blocks
from tests.optimizer.models import lifted as lifted_model
from tests.optimizer.models import lifted_text
from tests.optimizer.rules import (
    AS_TRANSPOSED,
    BIAS_INTO_AFFINE,
    COMMUTED_RELU,
    DISTRIBUTIVE,
    IDEMPOTENT,
    SCALE_INTO_AFFINE,
    rules,
)

RECIPROCAL = "div(x, broadcast(y)) => mul(x, broadcast(power[exponent=-1](y)))"
NUMBER = "mul(x, broadcast(y)) => scale(x, y)"
SCALE_INTO_KERNEL = "conv[padding=same](scale(x, y), z) => conv[padding=same](x, scale(z, y))"
BIAS_THROUGH = (
    "conv[stride=s](bias_add[axis=1](x, z), y)"
    " => bias_add[axis=1](conv[stride=s](x, y), kernel_response(y, z))"
)
GATE = "mul(sigmoid(x), x) => silu(x)"
AFFINE = (SCALE_INTO_AFFINE, BIAS_INTO_AFFINE)
SWISH = (RECIPROCAL, NUMBER, SCALE_INTO_KERNEL, BIAS_THROUGH)


def priced(graph: Graph) -> GraphCost:
    return GraphCost.of(graph, Nominal(), Sizes(graph, {}))


def run(search: Search, start: GraphCost, *texts: str, seconds: float = 20.0) -> SearchResult:
    limits = SearchLimits(deadline=time.monotonic() + seconds)
    return search.run(start, RuleSet(rules(*texts)), Watch(limits))


def swish_blocks(blocks: int, channels: int = 8) -> Graph:
    """x hard_sigmoid(x) / 6 between convolutions, as exporters decompose it, and a bias fused nowhere."""
    b = Builder()
    x = b.input("x", 1, channels, 12, 12)
    for _ in range(blocks):
        y = b.add(Multiply(), x, b.add(HardSigmoid(), x))
        y = b.add(Divide(), y, b.add(Broadcast((1, channels, 12, 12)), b.weight(1)))
        y = b.add(Conv(padding="same"), y, b.weight(channels, channels, 3, 3))
        y = b.add(Relu(), y)
        y = b.add(BiasAdd(1), y, b.weight(channels))
        x = b.add(Conv(), y, b.weight(channels, channels, 1, 1))
    return b.graph(x)


@pytest.mark.parametrize(
    ("rule", "folded", "decreases"),
    [
        (IDEMPOTENT, "", True),
        (SCALE_INTO_AFFINE, "abc", True),
        (SCALE_INTO_AFFINE, "ab", False),
        (SCALE_INTO_KERNEL, "yz", True),
        (SCALE_INTO_KERNEL, "y", True),
        (SCALE_INTO_KERNEL, "", True),
        (RECIPROCAL, "y", True),
        (RECIPROCAL, "", False),
        (NUMBER, "", True),
        (DISTRIBUTIVE, "yz", True),
        ("matmul(x, add(y, z)) => add(matmul(x, y), matmul(x, z))", "yz", False),
        ("mul(x, y) => mul(y, x)", "", False),
        ("add(x, y) => add(y, x)", "y", False),
        ("relu(x) => transpose(relu(transpose(x)))", "", False),
        ("concat[axis=1](relu(x), relu(y)) => relu(concat[axis=1](x, y))", "", True),
    ],
)
def test_terms_tell_whether_a_rule_may_make_a_graph_smaller(
    rule: str, folded: str, *, decreases: bool
) -> None:
    equation = parse_equation(rule)
    first = substitutions_of(equation, rule_id(equation))[0]
    assert may_decrease(first, frozenset(folded)) is decreases


@pytest.mark.parametrize(
    ("graph", "texts"), [(dense_blocks(4, 4, 4), (*AFFINE, COMMUTED_RELU)), (swish_blocks(3), SWISH)]
)
def test_every_step_makes_the_graph_smaller_until_none_does(graph: Graph, texts: tuple[str, ...]) -> None:
    substitutions = RuleSet(rules(*texts))
    records = fixpoint(priced(graph), substitutions)
    relocation, sizes = Relocation(graph), [Sized(priced(graph)).size]
    for record in records:
        assert relocation.apply(record) is not None
        sizes.append(Sized(priced(relocation.graph)).size)
    assert records
    assert all(after < before for before, after in itertools.pairwise(sizes))
    assert fixpoint(priced(relocation.graph), substitutions) == ()


def test_a_transposed_convolution_is_no_smaller_than_a_convolution() -> None:
    b = Builder()
    y = b.add(Conv(padding="same"), b.input("x", 1, 8, 6, 6), b.weight(4, 8, 3, 3))
    graph = b.graph(b.add(Relu(), y))
    assert fixpoint(priced(graph), RuleSet(rules(AS_TRANSPOSED))) == ()


def test_steps_grow_with_the_graph_and_so_does_nothing_else() -> None:
    found = [len(fixpoint(priced(dense_blocks(n, 4, 4)), RuleSet(rules(*AFFINE)))) for n in (2, 4, 8)]
    assert found == [4, 8, 16]


def test_a_wide_concat_is_not_looked_through_for_places_where_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rule that regroups has thousands of places in a concat of many operands, all of them in that node."""
    text = (
        "concat[axis=a](concat[axis=a](x, y), concat[axis=a](z, w))"
        " <=> concat[axis=a](x, concat[axis=a](concat[axis=a](y, z), w))"
    )
    looked_at: list[int] = []

    def counted(graph: Graph, *arguments: object, **options: object) -> list[Match]:
        looked_at.append(len(graph))
        return list(find_matches(graph, *arguments, **options))  # type: ignore[arg-type]

    monkeypatch.setattr(rules_of_search, "find_matches", counted)
    b = Builder()
    wide = b.add(Concat(0), *(b.input(f"x{n}", 2, 3) for n in range(30)))
    assert RuleSet(rules(text)).matches(b.graph(wide), frozenset()) == []
    assert not looked_at
    other = b.add(Concat(0), b.input("y", 2, 3), b.input("z", 2, 3))
    nested = b.add(Concat(0), wide, other)
    assert RuleSet(rules(text)).matches(b.graph(nested), frozenset())
    assert looked_at


def test_it_stops_soon_after_its_time_is_over() -> None:
    asked: list[bool] = []

    def may_go_on() -> bool:
        asked.append(len(asked) < 20)
        return asked[-1]

    whole = fixpoint(priced(dense_blocks(8, 4, 4)), RuleSet(rules(*AFFINE)))
    part = fixpoint(priced(dense_blocks(8, 4, 4)), RuleSet(rules(*AFFINE)), may_go_on)
    assert 0 < len(part) < len(whole)
    assert asked.count(False) <= 4


@pytest.mark.parametrize("search", [Normalise(), Descent()])
def test_what_is_found_replays_and_is_found_again(search: Search) -> None:
    graph = swish_blocks(3)
    result = run(search, priced(graph), *SWISH)
    assert result.best.total < priced(graph).total
    assert replay(graph, result.trace, rules(*SWISH)).nodes == result.best.graph.nodes
    assert result.best.total == priced(result.best.graph).total == result.trace[-1].cost_after
    assert run(search, priced(graph), *SWISH).trace == result.trace


def test_a_normalised_graph_computes_the_same_in_the_runtime() -> None:
    model = lifted_model(swish_blocks(2))
    result = run(Normalise(), priced(model.graph), *SWISH)
    assert len({step.rule for step in result.trace}) > 1
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 8, 12, 12)).astype(np.float32)
    models = [lower(model, graph, Plan()).to_bytes() for graph in (model.graph, result.best.graph)]
    before, after = (LoadedModel(content, threads=1).run({"x": x}) for content in models)
    np.testing.assert_allclose(np.asarray(after[0]), np.asarray(before[0]), rtol=1e-4, atol=1e-4)


class Tariff(Nominal):
    """Every kernel costs 1; one with the ``dear`` operator 10."""

    def __init__(self, dear: str) -> None:
        super().__init__()
        self._dear = dear

    def known(self, kernel: Kernel) -> Price:
        return Price(10.0 if self._dear in kernel.operators.split() else 1.0)


def gate_and_repetition() -> Graph:
    b = Builder()
    x, y = b.input("x", 4, 8), b.input("y", 4, 8)
    gate = b.add(Multiply(), b.add(Sigmoid(), x), x)
    return b.graph(gate, b.add(Relu(), b.add(Relu(), y)))


def test_only_the_region_that_costs_more_is_undone() -> None:
    for dear, kept in (("silu", [IDEMPOTENT]), ("tanh", [GATE, IDEMPOTENT])):
        graph = gate_and_repetition()
        start = GraphCost.of(graph, Tariff(dear), Sizes(graph, {}))
        result = run(Normalise(), start, GATE, IDEMPOTENT)
        wanted = {rule_id(parse_equation(text)) for text in kept}
        assert {step.rule for step in result.trace} == wanted
        assert result.best.total <= start.total


FACTORS = "scale(scale(x, full[value=v]()), full[value=w]()) => scale(x, full[value=v*w]())"
TERMS = (
    "bias_add[axis=1](bias_add[axis=1](x, full[value=v]()), full[value=w]())"
    " => bias_add[axis=1](x, full[value=v + w]())"
)
TERM_BEFORE_FACTOR = (
    "bias_add[axis=1](scale(x, full[value=v]()), full[value=w]())"
    " => scale(bias_add[axis=1](x, full[value=w/v]()), full[value=v]())"
)


@pytest.mark.parametrize(
    ("texts", "left"),
    [((FACTORS, TERMS), 8), ((TERM_BEFORE_FACTOR,), 8), ((FACTORS, TERMS, TERM_BEFORE_FACTOR), 2)],
)
def test_a_step_that_makes_nothing_smaller_is_taken_for_the_next(texts: tuple[str, ...], left: int) -> None:
    """((x * 2 + 3) / 2 + 3) ... becomes one factor and one term, because each term moves before a factor."""
    steps = " ".join(
        f"a{i} = Mul({f'b{i - 1}' if i else 'x'}, {'two' if i % 2 else 'half'}) b{i} = Add(a{i}, three)"
        for i in range(4)
    )
    numbers = "float two = {2}, float half = {0.5}, float three = {3}"
    model = lifted_text(f"(float[1,4,3,3] x) => (float[1,4,3,3] y) <{numbers}> {{ {steps} y = Relu(b3) }}")
    start = canonicalise(model).graph
    records = fixpoint(priced(start), RuleSet(rules(*texts)))
    relocation = Relocation(start)
    assert all(relocation.apply(record) is not None for record in records)
    affine = [node for node in relocation.graph if node.operator.name in ("scale", "bias_add")]
    assert len(affine) == left


def test_a_rewrite_that_would_store_a_large_constant_is_no_step() -> None:
    text = "scale(mul(x, y), z) => mul(x, scale(y, z))"
    for size, steps in ((4, 1), (4096, 0)):
        b = Builder()
        repeated = b.add(Broadcast((size,)), b.weight(1))
        graph = b.graph(b.add(Scale(), b.add(Multiply(), b.input("x", size), repeated), b.weight()))
        assert len(fixpoint(priced(graph), RuleSet(rules(text)))) == steps


def test_nothing_is_done_without_time() -> None:
    graph = dense_blocks(4, 4, 4)
    result = run(Normalise(), priced(graph), *AFFINE, seconds=-1.0)
    assert (result.trace, result.stopped_by) == ((), "budget")


class Expecting(Nominal):
    """An objective that counts what it measures, and expects the nominal price."""

    def __init__(self) -> None:
        super().__init__()
        self.measured: dict[Kernel, Price] = {}

    def known(self, kernel: Kernel) -> Price:
        return self.measured.get(kernel)  # type: ignore[return-value]

    def bound(self, kernel: Kernel) -> float:
        return 0.0

    def expected(self, kernel: Kernel) -> float:
        return super().known(kernel).cost

    def least(self, kernel: Kernel) -> float:
        del kernel
        return 0.0

    def price(self, kernel: Kernel) -> Price:
        return self.measured.setdefault(kernel, super().known(kernel))


def test_descent_measures_only_what_promises_to_pay() -> None:
    enlarging = "conv[padding=same](x, y) => conv[padding=same](x, enlarge[kernel=5](y))"
    graph = swish_blocks(2)
    objective = Expecting()
    start = GraphCost.of(graph, objective, Sizes(graph, {}))
    before = len(objective.measured)
    assert run(Descent(), start, enlarging).trace == ()
    assert len(objective.measured) == before
    assert run(Descent(), start, enlarging, *SWISH).best.total < start.total


def test_descent_prices_what_it_had_time_to_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that each estimate moves by a second: there are more rewrites than seconds."""
    start = priced(dense_blocks(8, 4, 4))
    found = len(RuleSet(rules(*AFFINE)).matches(start.graph, start.free))
    seconds = found - 2
    now, estimate = [0.0], Promises.of

    def slow(promises: Promises, state: State, opportunity: Opportunity) -> float | None:
        now[0] += 1
        return estimate(promises, state, opportunity)

    monkeypatch.setattr(Promises, "of", slow)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    result = run(Descent(), start, *AFFINE, seconds=seconds)
    assert result.candidates > 0
    assert result.best.total < start.total


def test_a_second_run_measures_nothing() -> None:
    store, measured = MemoryCostStore(), list[int]()
    for _ in range(2):
        graph = swish_blocks(2)
        objective = Latency(store, threads=1)
        start = GraphCost.of(graph, objective, Sizes(graph, {}))
        for search in (Normalise(), Descent()):
            run(search, start, *SWISH)
        measured.append(objective.measured)
    assert measured[0] > 0
    assert measured[1] == 0


def test_expected_prices_follow_those_of_equal_operators() -> None:
    graph = dense_blocks(1, 4, 4)
    objective = Latency(MemoryCostStore(), threads=1)
    cost = GraphCost.of(graph, objective, Sizes(graph, {}))
    for group in cost.groups:
        assert 0 < objective.bound(group.kernel) <= objective.expected(group.kernel)


def test_rewrites_compose() -> None:
    graph = dense_blocks(2, 4, 4)
    relocation = Relocation(graph)
    steps = [relocation.apply(record) for record in fixpoint(priced(graph), RuleSet(rules(*AFFINE)))]
    whole = composed([step[1] for step in steps if step is not None])
    assert whole.graph is relocation.graph
    assert set(whole.added) == whole.graph.nodes.keys() - graph.nodes.keys()
    assert set(whole.removed) == graph.nodes.keys() - whole.graph.nodes.keys()
    assert all(new.node in whole.graph.nodes for new in whole.replaced.values())
    update = priced(graph).after(whole)
    assert update is not None
    assert update.total == priced(whole.graph).total
