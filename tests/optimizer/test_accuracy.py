"""More accurate rules are taken where prices are about equal, and where outputs differ."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from benchmarks.models.bilinear_layers import Layer, write_layers
from superopt.equations import abbreviated
from superopt.generator.bilinear import filter_rules, filters
from superopt.ir import ElementType, Graph, Input, TensorType, Weight
from superopt.onnx_io import lift, load_model
from superopt.ops.bilinear.convolution import BilinearConv
from superopt.ops.elementwise.affine import BiasAdd
from superopt.ops.images.convolution import Conv
from superopt.optimizer.cost import GraphCost, Sizes
from superopt.optimizer.cost.kernels.kernel import Kernel
from superopt.optimizer.cost.objective import Flops, Price
from superopt.optimizer.pipeline.measured import Measured
from superopt.optimizer.pipeline.prepare import Request
from superopt.optimizer.pipeline.run import Pipeline
from superopt.optimizer.search import (
    RuleSet,
    SearchLimits,
    Shortened,
    Watch,
    error_of,
    more_accurate,
    replay,
    search_named,
    with_smaller_errors,
)
from superopt.options import Options
from superopt.rewriting import Substitution, substitutions_of
from tests.optimizer.conftest import MemoryCostStore


@cache
def rules_of(outputs: int, axes: int) -> tuple[Substitution, ...]:
    """The rules for F(outputs, 3) along columns, or along rows and columns."""
    *_, both = found = list(filter_rules(replace(filters(outputs, 3)[0], amplification=1.0)))
    rule = both if axes == 2 else found[0]
    return substitutions_of(rule.equation, f"F({outputs},3) along {axes}")


@dataclass(frozen=True)
class ByPoints(Flops):
    """A convolution costs 100, one by an algorithm what is given for its number of points, the rest
    nothing."""

    prices: Mapping[int, float]

    def known(self, kernel: Kernel) -> Price:
        for step in kernel.steps:
            if isinstance(step.operator, BilinearConv):
                return Price(self.prices[step.operator.points])
            if isinstance(step.operator, Conv):
                return Price(100.0)
        return Price(0.0)


def layers(count: int) -> Graph:
    editor = Graph.empty().edit()
    image = editor.add(Input("x", TensorType(ElementType.FLOAT, (1, 4, 12, 12)))).value
    for number in range(count):
        kernel = editor.add(Weight(f"w{number}", TensorType(ElementType.FLOAT, (4, 4, 1, 3)))).value
        bias = editor.add(Weight(f"b{number}", TensorType(ElementType.FLOAT, (4,)))).value
        image = editor.add(BiasAdd(1), [editor.add(Conv(), [image, kernel]).value, bias]).value
    editor.set_outputs([image])
    return editor.build()


@pytest.mark.parametrize(
    ("prices", "chosen"),
    [
        ({4: 80.0, 6: 60.0, 8: 50.0}, "F(6,3)"),
        ({4: 80.0, 6: 60.0, 8: 59.0}, "F(4,3)"),
        ({4: 61.5, 6: 60.0, 8: 59.0}, "F(4,3)"),
        ({4: 60.5, 6: 60.0, 8: 59.0}, "F(2,3)"),
        ({4: 60.0, 6: 70.0, 8: 80.0}, "F(2,3)"),
    ],
)
@pytest.mark.parametrize("count", [1, 2])
def test_the_more_accurate_of_two_that_cost_about_the_same_is_taken(
    prices: Mapping[int, float], chosen: str, count: int
) -> None:
    rules = [rule for outputs in (2, 4, 6) for rule in rules_of(outputs, 1)]
    graph = layers(count)
    start = GraphCost.of(graph, ByPoints(prices), Sizes(graph, {}))
    limits = SearchLimits(deadline=time.monotonic() + 20)
    result = search_named("auto").run(start, RuleSet(rules), Watch(limits))
    cheapest = min(prices, key=lambda points: prices[points])
    assert {step.rule for step in result.trace} == {f"F({cheapest - 2},3) along 1"}
    found = more_accurate(start, Shortened(result.best, result.trace), rules)
    assert [step.rule.partition(" ")[0] for step in found.trace] == [chosen] * count
    assert found.cost.total == pytest.approx(count * prices[int(chosen[2]) + 2])
    assert [node.operator for node in replay(graph, found.trace, rules)] == [
        node.operator for node in found.cost.graph
    ]


@pytest.mark.parametrize(
    ("prices", "below", "chosen"),
    [
        ({4: 61.0, 6: 60.0, 8: 50.0}, 6, "F(4,3)"),
        ({4: 60.0, 6: 61.0, 8: 50.0}, 6, "F(2,3)"),
        ({4: 80.0, 6: 60.0, 8: 50.0}, 4, "F(2,3)"),
        ({4: 100.0, 6: 60.0, 8: 50.0}, 4, ""),
        ({4: 80.0, 6: 60.0, 8: 50.0}, 2, ""),
        ({4: 80.0, 6: 60.0, 8: 50.0}, 7, "F(6,3)"),
    ],
)
@pytest.mark.parametrize("count", [1, 2])
def test_the_cheapest_of_those_below_a_limit_takes_the_place_of_one_that_rounds_too_much(
    prices: Mapping[int, float], below: int, chosen: str, count: int
) -> None:
    """The limit is the error of F(below,3), or a larger one."""
    rules = [rule for outputs in (2, 4, 6) for rule in rules_of(outputs, 1)]
    graph = layers(count)
    start = GraphCost.of(graph, ByPoints(prices), Sizes(graph, {}))
    result = search_named("auto").run(
        start, RuleSet(rules), Watch(SearchLimits(deadline=time.monotonic() + 20))
    )
    assert {step.rule for step in result.trace} == {"F(6,3) along 1"}
    limit = 1e3 if below > 6 else filters(below, 3)[0].amplification
    found = with_smaller_errors(start, Shortened(result.best, result.trace), rules, limit)
    steps = () if found is None else found.trace
    assert [step.rule.partition(" ")[0] for step in steps] == ([chosen] * count if chosen else [])


def test_a_step_by_a_rule_that_is_used_no_more_is_not_replaced() -> None:
    rules = [rule for outputs in (2, 6) for rule in rules_of(outputs, 1)]
    graph = layers(1)
    start = GraphCost.of(graph, ByPoints({4: 80.0, 8: 50.0}), Sizes(graph, {}))
    result = search_named("auto").run(
        start, RuleSet(rules), Watch(SearchLimits(deadline=time.monotonic() + 20))
    )
    found = Shortened(result.best, result.trace)
    assert with_smaller_errors(start, found, rules_of(2, 1), 1.0) is None


def test_errors_of_two_axes_multiply() -> None:
    ((one,), (both,)) = rules_of(4, 1), rules_of(4, 2)
    assert error_of(one) == pytest.approx(filters(4, 3)[0].amplification)
    assert error_of(both) == pytest.approx(error_of(one) ** 2)


def test_where_outputs_differ_a_more_accurate_rule_is_tried(tmp_path: Path, costs: MemoryCostStore) -> None:
    """F(6,3) along both axes is faster, and too inaccurate for this tolerance. The layer is one for which
    both are much faster than the convolution, whatever else the machine does."""
    path = tmp_path / "layer.onnx"
    write_layers([Layer("", 512, 512, (28, 28), (3, 3))], path)
    rules = (*rules_of(6, 2), *rules_of(2, 2))
    options = Options(budget=30.0, threads=1, tolerance=1e-9)
    request = Request(lift(load_model(path)), rules, options)
    report = Pipeline(request, Measured(costs)).run().report
    assert report.returned == "optimized"
    assert [step.rule for step in report.trace] == ["F(2,3) along 2"]
    assert "bilinear_conv[rows=F(2,3)" in abbreviated(report.trace[0].equation)
    (rejection,) = report.rejected
    assert (rejection.rules, rejection.equal) == (("F(6,3) along 2",), False)
