"""The prices that decided a search are measured again, and steps that gain nothing at them are removed."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from superopt.ir import Graph
from superopt.ops.elementwise.activation import Relu
from superopt.ops.elementwise.arithmetic import Add
from superopt.ops.matrix import Matmul
from superopt.optimizer.cost import GraphCost, Kernel, Latency, MemoryCostStore, Sizes
from superopt.optimizer.cost.measuring.measurer import Measurement, Measurer
from superopt.optimizer.pipeline.second_look import at_second_look
from superopt.optimizer.search import (
    Backtracking,
    RuleSet,
    SearchLimits,
    Shortened,
    Watch,
    replay,
    search_named,
)
from tests.optimizer.graphs import Builder
from tests.optimizer.rules import DISTRIBUTIVE, rules

ADD_AS_SUM = "add(x, y) => sum(x, y)"


def microseconds(kernel: Kernel) -> float:
    """A sum by ``sum`` costs twice as much as one by ``add``."""
    rows = kernel.output_types[0].shape[0]
    return {"add": 1.0, "sum": 2.0, "matmul": 1.0}.get(kernel.operators, 1.0) * rows


@pytest.mark.parametrize("disturbance", [5.0, 1.0])
def test_a_step_that_a_disturbed_measurement_suggested_is_removed(
    monkeypatch: pytest.MonkeyPatch, disturbance: float
) -> None:
    """The first measurement of the small sum, which the initial graph does not have, takes longer."""
    objective = Latency(MemoryCostStore(), threads=1)
    measured = Counter[Kernel]()

    def measure(_: Measurer, kernel: Kernel, *_known: object) -> Measurement:
        measured[kernel] += 1
        is_disturbed = kernel.operators == "add" and kernel.output_types[0].shape[0] == 8
        factor = disturbance if is_disturbed and measured[kernel] == 1 else 1.0
        return Measurement(factor * microseconds(kernel))

    monkeypatch.setattr(Measurer, "measure", measure)
    b = Builder()
    x, y, z = b.input("x", 64, 8), b.input("y", 8, 8), b.input("z", 8, 8)
    graph = b.graph(b.add(Add(), b.add(Matmul(), x, y), b.add(Matmul(), x, z)))
    known = rules(DISTRIBUTIVE, ADD_AS_SUM)
    start = GraphCost.of(graph, objective, Sizes(graph, {}))
    objective.measure_again()
    result = Backtracking().run(start, RuleSet(known), Watch(SearchLimits(deadline=time.monotonic() + 60)))
    found = Shortened(result.best, result.trace)
    assert len(found.trace) == (2 if disturbance > 1 else 1)
    first = measured.copy()
    again, shorter = at_second_look(start, found, known)
    assert [step.rule for step in shorter.trace] == [known[0].rule_id]
    assert shorter.cost.total == shorter.cost.refreshed().total == 64 + 8
    assert again.total == 2 * 64, "the second product and the sum are one kernel"
    assert replay(graph, shorter.trace, known).nodes == shorter.cost.graph.nodes
    rewritten = {kernel for kernel in measured if kernel.output_types[0].shape[0] in {8, 64}}
    assert set(measured - first) <= rewritten, "only what the steps removed or made"
    assert max(measured.values()) <= 3
    assert at_second_look(again, shorter, known) == (again, shorter), "no price is new"


class Clocked:
    """Measures kernels on a machine that is ``slowness`` times slower than usual."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slowness = 1.0
        self.measured = Counter[Kernel]()
        monkeypatch.setattr(Measurer, "measure", self._measure)

    def _measure(self, kernel: Kernel, *_known: object) -> Measurement:
        self.measured[kernel] += 1
        return Measurement(self.slowness * microseconds(kernel))


def products(count: int) -> Graph:
    """Products of different sizes."""
    b = Builder()
    return b.graph(
        *(b.add(Matmul(), b.input(f"x{i}", 8 * i, 8), b.input(f"y{i}", 8, 8)) for i in range(1, count + 1))
    )


@pytest.mark.parametrize(("then", "now", "is_used"), [(1.5, 1.0, False), (1.0, 1.0, True), (1.0, 1.5, True)])
def test_stored_prices_of_a_disturbed_time_are_not_used(
    monkeypatch: pytest.MonkeyPatch, then: float, now: float, *, is_used: bool
) -> None:
    clock, store, graph = Clocked(monkeypatch), MemoryCostStore(), products(20)
    clock.slowness = then
    before = GraphCost.of(graph, Latency(store, threads=1), Sizes(graph, {}))
    clock.slowness = now
    clock.measured.clear()
    objective = Latency(store, threads=1)
    stored = GraphCost.of(graph, objective, Sizes(graph, {}))
    assert stored.total == before.total
    assert not clock.measured
    objective.check_stored(group.kernel for group in stored.groups)
    assert 0 < len(clock.measured) < 20, "a sample decides"
    again = stored.refreshed()
    assert again.total == (before.total if is_used else before.total * now / then)
    assert (len(clock.measured) < 20) is is_used


def test_the_parts_of_a_search_see_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph is priced while the machine is slow, its rewrites later: none gains but by that."""
    clock = Clocked(monkeypatch)
    clock.slowness = 1.5
    b = Builder()
    x, y = b.input("x", 64, 8), b.input("y", 64, 8)
    graph = b.graph(b.add(Relu(), b.add(Add(), x, y)))
    start = GraphCost.of(graph, Latency(MemoryCostStore(), threads=1), Sizes(graph, {}))
    clock.slowness = 1.0
    swapped = rules("relu(x) => maximum(x, full[value=0])")
    watch = Watch(SearchLimits(deadline=time.monotonic() + 20))
    found = search_named("auto").run(start, RuleSet(swapped), watch)
    assert found.trace == ()
    assert found.best.total == start.refreshed().total


def test_stored_prices_of_a_disturbed_time_are_used_where_no_time_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, store, graph = Clocked(monkeypatch), MemoryCostStore(), products(20)
    clock.slowness = 1.5
    before = GraphCost.of(graph, Latency(store, threads=1), Sizes(graph, {}))
    clock.slowness = 1.0
    objective = Latency(store, threads=1)
    stored = GraphCost.of(graph, objective, Sizes(graph, {}))
    objective.check_stored(group.kernel for group in stored.groups)
    objective.deadline = time.monotonic()
    assert before.total / 1.5 < stored.refreshed().total < before.total
