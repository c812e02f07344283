"""A rewrite that loses by itself is found where another rewrite of what it makes gains more."""

from __future__ import annotations

import time

import pytest

from superopt.ir import Graph, Value
from superopt.ops.convolution import Conv
from superopt.ops.elementwise import Add
from superopt.ops.shape import Concat
from superopt.ops.upsampling import LinearUpsample
from superopt.optimizer.cost import GraphCost, Kernel, Nominal, Price, Sizes
from superopt.optimizer.search import RuleSet, SearchLimits, SearchResult, Watch, replay, search_named
from superopt.optimizer.search.protocol import Search
from superopt.optimizer.search.strategies.descent import Descent
from superopt.optimizer.search.strategies.lookahead import Lookahead
from tests.optimizer.graphs import Builder
from tests.optimizer.rules import COMMUTED_RELU, rules

DIVIDED = (
    "conv[stride=s, padding=p](concat[axis=1](x, z), concat[axis=1](y, w))"
    " => add(conv[stride=s, padding=p](x, y), conv[stride=s, padding=p](z, w))"
    " where groups(x, y) = 1, groups(z, w) = 1"
)
MOVED = (
    "conv[padding=same](upsample_linear[stride=s](x), y)"
    " => upsample_linear[stride=s](conv[padding=same](x, y)) where dim(y, 2) = 1, dim(y, 3) = 1"
)
KNOWN = rules(DIVIDED, MOVED, COMMUTED_RELU)


class Adding(Nominal):
    """A sum takes 800 us more than usual, so that a convolution is not divided for its own sake."""

    def known(self, kernel: Kernel) -> Price:
        sums = sum(isinstance(step.operator, Add) for step in kernel.steps)
        return Price(super().known(kernel).cost + 800.0 * sums)


def heads(count: int) -> Graph:
    """Convolutions of a small image, enlarged and joined with a large one, as segmentation networks end."""
    b = Builder()
    outputs: list[Value] = []
    for number in range(count):
        small, large = b.input(f"s{number}", 1, 512, 8, 8), b.input(f"l{number}", 1, 64, 32, 32)
        joined = b.add(Concat(1), b.add(LinearUpsample((4, 4)), small), large)
        kernel = b.add(Concat(1), b.weight(32, 512, 1, 1), b.weight(32, 64, 1, 1))
        outputs.append(b.add(Conv(padding="same"), joined, kernel))
    return b.graph(*outputs)


def run(search: Search, graph: Graph, seconds: float = 60.0) -> SearchResult:
    start = GraphCost.of(graph, Adding(), Sizes(graph, {}))
    watch = Watch(SearchLimits(deadline=time.monotonic() + seconds))
    return search.run(start, RuleSet(KNOWN), watch)


@pytest.mark.parametrize("count", [1, 3])
def test_a_pair_is_applied_wherever_it_gains(count: int) -> None:
    graph = heads(count)
    assert run(Descent(), graph).trace == ()
    found = run(Lookahead(), graph)
    assert [step.rule for step in found.trace] == count * [KNOWN[0].rule_id, KNOWN[1].rule_id]
    assert replay(graph, found.trace, KNOWN).nodes == found.best.graph.nodes
    assert found.stopped_by == "exhausted"
    assert run(Lookahead(), found.best.graph).trace == ()


def test_equal_blocks_are_continued_once() -> None:
    """Beyond the first, a block costs the two steps that are applied, not the search for them."""
    few, many = (run(Lookahead(), heads(count)).candidates for count in (2, 6))
    assert many - few <= 4 * 3


def test_the_default_search_looks_ahead() -> None:
    found = run(search_named("auto"), heads(2), seconds=20.0)
    assert {step.rule for step in found.trace} == {KNOWN[0].rule_id, KNOWN[1].rule_id}


def test_without_time_the_graph_stays() -> None:
    found = run(Lookahead(), heads(1), seconds=-1.0)
    assert found.trace == ()
    assert found.stopped_by == "budget"
