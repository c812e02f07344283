"""What kernels are expected to cost before they are measured."""

from __future__ import annotations

import pytest

from superopt.ops.elementwise.activation import Relu
from superopt.ops.elementwise.affine import BiasAdd
from superopt.ops.matrix import Matmul
from superopt.optimizer.cost import GraphCost, Kernel, Latency, MemoryCostStore, Sizes, estimate
from tests.optimizer.graphs import Builder


def product(*, rows: int, biased: bool) -> Kernel:
    """A matrix product, perhaps with bias and activation."""
    b = Builder()
    value = b.add(Matmul(), b.input("x", rows, 128), b.weight(128, 256))
    if biased:
        value = b.add(Relu(), b.add(BiasAdd(1), value, b.weight(256)))
    graph = b.graph(value)
    (group,) = GraphCost.of(graph, Latency(MemoryCostStore(), threads=1), Sizes(graph, {})).groups
    return group.kernel


def test_a_kernel_is_hardly_expected_below_a_known_one_with_the_same_product() -> None:
    objective = Latency(MemoryCostStore(), threads=1)
    optimistic = estimate(objective, 0.01)
    biased, plain, other = (
        product(rows=64, biased=True),
        product(rows=64, biased=False),
        product(rows=32, biased=False),
    )
    assert biased != plain
    assert objective.least(plain) == 0
    price = objective.price(biased).cost
    assert objective.least(plain) == pytest.approx(0.9 * price)
    assert optimistic.price(plain).cost == pytest.approx(
        max(0.01 * objective.expected(plain), min(0.9 * price, objective.expected(plain)))
    )
    assert objective.least(other) == 0
    assert optimistic.price(other).cost == pytest.approx(0.01 * objective.expected(other))
