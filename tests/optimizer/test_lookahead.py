"""A rewrite that loses by itself is found where another rewrite of what it makes gains more."""

from __future__ import annotations

import time

import pytest

from superopt.ir import Graph, Value
from superopt.ops.elementwise.arithmetic import Add
from superopt.ops.images.convolution import Conv
from superopt.ops.images.upsampling import LinearUpsample
from superopt.ops.shape import Concat
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


class Unmeasured(Adding):
    """Enlarging what a convolution computes turns out to be dear when it is priced."""

    def __init__(self) -> None:
        super().__init__()
        self.priced: set[Kernel] = set()

    def known(self, kernel: Kernel) -> Price | None:
        return super().known(kernel) if not is_made(kernel) or kernel in self.priced else None

    def bound(self, kernel: Kernel) -> float:
        return 0.0 if is_made(kernel) else super().known(kernel).cost

    def expected(self, kernel: Kernel) -> float:
        return super().known(kernel).cost

    def least(self, kernel: Kernel) -> float:
        del kernel
        return 0.0

    def price(self, kernel: Kernel) -> Price:
        self.priced.add(kernel)
        return Price(50_000.0) if is_made(kernel) else super().known(kernel)


def is_made(kernel: Kernel) -> bool:
    """Whether the kernel enlarges an image of the 32 channels that a convolution makes."""
    first = kernel.steps[0]
    return isinstance(first.operator, LinearUpsample) and kernel.sources[0].type.shape[1] == 32


def test_a_pair_that_turns_out_to_lose_is_not_applied() -> None:
    graph = heads(2)
    start = GraphCost.of(graph, Unmeasured(), Sizes(graph, {}))
    watch = Watch(SearchLimits(deadline=time.monotonic() + 60))
    found = Lookahead().run(start, RuleSet(KNOWN), watch)
    assert (found.trace, found.best.total, found.stopped_by) == ((), start.total, "exhausted")
    assert found.candidates, "it was priced"
    assert max(cost for _, cost in found.curve) == start.total


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
