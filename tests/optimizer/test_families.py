"""Steps of a trace whose gain is doubtful are left out where the whole model is faster without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from superopt.ir import Value
from superopt.ops.matrix import Matmul
from superopt.optimizer.cost import MemoryCostStore
from tests.optimizer.graphs import Builder
from tests.optimizer.models import lifted, run
from tests.optimizer.rules import ASSOCIATIVE, rules


class Mispriced(MemoryCostStore):
    """Once there is a price, kernels without one are said to cost that."""

    price: float | None = None

    def get_many(self, keys: Iterable[str]) -> Mapping[str, float]:
        wanted, price = list(keys), self.price
        found = super().get_many(wanted)
        if price is None:
            return found
        return {key: found.get(key, price) for key in wanted if key in found or not key.endswith("blocked")}


def narrow(b: Builder) -> Value:
    """Two products through 32 columns: much faster than with the right factors first."""
    left = b.add(Matmul(), b.input("p", 256, 1024), b.weight(1024, 32))
    return b.add(Matmul(), left, b.input("q", 32, 1024))


def skewed(b: Builder) -> Value:
    """Two products that are much faster with the right factors first."""
    left = b.add(Matmul(), b.input("x", 768, 768), b.input("y", 768, 768))
    return b.add(Matmul(), left, b.input("z", 768, 4))


def test_steps_that_are_slower_than_predicted_are_left_out() -> None:
    """One rule is right in one place and wrong in another, where kernels are said to be cheap."""
    costs = Mispriced()
    b = Builder()
    price = run(lifted(b.graph(narrow(b))), costs, ()).report.cost.before
    b = Builder()
    both = lifted(b.graph(narrow(b), skewed(b)))
    run(both, costs, ())
    costs.price = 0.46 * price
    result = run(both, costs, (ASSOCIATIVE,), budget=20.0)
    rule = rules(ASSOCIATIVE)[0].rule_id
    assert [step.rule for step in result.trace] == [rule]
    assert result.report.measured is not None
    assert result.report.measured.interval[0] > 1.2
