"""A product is replaced by another operator only for a substantial gain, in every search."""

from __future__ import annotations

import time

import pytest

from superopt.ops.elementwise.arithmetic import Add
from superopt.ops.images.convolution import Conv
from superopt.optimizer.cost import GraphCost, Kernel, Price, Sizes, Traffic
from superopt.optimizer.search import RuleSet, SearchLimits, Watch
from superopt.optimizer.search.protocol import Search
from superopt.optimizer.search.strategies.backtracking import Backtracking
from superopt.optimizer.search.strategies.beam import Beam
from superopt.optimizer.search.strategies.descent import Descent
from tests.optimizer.graphs import Builder
from tests.optimizer.rules import AS_TRANSPOSED, rules


class Priced(Traffic):
    """A convolution takes 100, a transposed one another time, anything else 1."""

    def __init__(self, transposed: float) -> None:
        self.prices = {"conv": 100.0, "conv_transpose": transposed}

    def price(self, kernel: Kernel) -> Price:
        return Price(sum(self.prices.get(step.operator.name, 1.0) for step in kernel.steps))

    def known(self, kernel: Kernel) -> Price:
        return self.price(kernel)

    def bound(self, kernel: Kernel) -> float:
        return self.price(kernel).cost


@pytest.mark.parametrize(("transposed", "is_taken"), [(90.0, False), (70.0, True)])
@pytest.mark.parametrize("search", [Descent(), Backtracking(), Beam()], ids=lambda one: one.name)
def test_a_small_gain_does_not_hide_a_convolution(
    search: Search, transposed: float, *, is_taken: bool
) -> None:
    b = Builder()
    x = b.input("x", 1, 4, 6, 6)
    parts = [b.add(Conv(padding="same"), x, b.weight(2, 4, 3, 3)) for _ in range(2)]
    graph = b.graph(b.add(Add(), *parts))
    start = GraphCost.of(graph, Priced(transposed), Sizes(graph, {}))
    limits = SearchLimits(deadline=time.monotonic() + 20, max_candidates=200)
    found = search.run(start, RuleSet(rules(AS_TRANSPOSED), frozenset()), Watch(limits))
    names = [node.operator.name for node in found.best.graph]
    assert names.count("conv_transpose") == (2 if is_taken else 0)
