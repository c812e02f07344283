"""The prices that decided a search are measured again, and steps that gain nothing at them are removed."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from superopt.ops.elementwise import Add
from superopt.ops.matrix import Matmul
from superopt.optimizer.cost import GraphCost, Kernel, Latency, MemoryCostStore, Sizes
from superopt.optimizer.cost.measuring.measurer import Measurement, Measurer
from superopt.optimizer.pipeline.second_look import at_second_look
from superopt.optimizer.search import Backtracking, RuleSet, SearchLimits, Shortened, Watch, replay
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
    again, shorter = at_second_look(objective, start, found, known)
    assert [step.rule for step in shorter.trace] == [known[0].rule_id]
    assert shorter.cost.total == shorter.cost.refreshed().total == 64 + 8
    assert again.total == 2 * 64, "the second product and the sum are one kernel"
    assert replay(graph, shorter.trace, known).nodes == shorter.cost.graph.nodes
    assert {kernel.output_types[0].shape[0] for kernel in measured - first} == {8}, "only what the steps made"
    assert at_second_look(objective, again, shorter, known) == (again, shorter), "no price is new"
