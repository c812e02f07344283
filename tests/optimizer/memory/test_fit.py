"""Order and recomputation under a limit: schedules compute the same, within the limit, and lower limits never
need more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from superopt import zoo
from superopt.onnx_io import LoweredModel, load_model
from superopt.optimizer.cost.runtime.memory_session import Allocator, MemoryPlan, plan_in
from superopt.optimizer.cost.runtime.session import LoadedModel
from superopt.optimizer.memory.arrange import Arrangement, node_times
from superopt.optimizer.memory.fit import fit
from superopt.optimizer.memory.liveness import Program, liveness
from superopt.optimizer.memory.order import raf_order, search_order
from superopt.optimizer.memory.recompute import Fitted, descent
from superopt.optimizer.memory.subject import node_program
from superopt.training import StepSettings, train_graph
from tests.optimizer.memory.executed import arrays_for, execute, results_alone
from tests.optimizer.memory.programs import LAYER_BYTES, layers, random_program

SEEDS = range(40)


def limits(program: Program) -> list[int]:
    """From the listed order's peak down to nothing."""
    peak = liveness(program).peak
    return [peak * share // 20 for share in range(20, 0, -1)]


@pytest.mark.parametrize("program", [*map(random_program, SEEDS), layers(16)])
def test_a_smaller_limit_never_gives_a_higher_peak(program: Program) -> None:
    found = [fit(program, limit) for limit in limits(program)]
    for limit, one in zip(limits(program), found, strict=True):
        assert one.found.peak == liveness(program, one.found.schedule).peak
        assert one.found.cost == pytest.approx(program.cost(one.found.schedule))
        assert one.fits == (one.found.peak <= limit)
        assert {*one.found.schedule} == {*program.order}
        again = [one.found.schedule.count(index) for index in program.order]
        assert all(program.operations[index].repeatable for index in program.order if again[index] > 1)
    peaks = [one.found.peak for one in found]
    assert peaks == sorted(peaks, reverse=True)


def test_the_limit_is_met_where_possible() -> None:
    """Sixteen layers whose results the backward pass reads, in the memory of seven."""
    program = layers(16)
    assert liveness(program).peak == 17 * LAYER_BYTES
    found = fit(program, 7 * LAYER_BYTES)
    assert found.fits
    assert found.found.cost <= 2 * program.cost(program.order)
    assert not fit(program, 2 * LAYER_BYTES).fits


@pytest.mark.parametrize("seed", SEEDS)
def test_orders_are_orders_and_the_search_is_never_worse(seed: int) -> None:
    program = random_program(seed)
    for order in (raf_order(program, least=1), search_order(program)):
        assert sorted(order) == list(program.order)
        assert liveness(program, order).peak > 0
    searched = liveness(program, search_order(program)).peak
    assert searched <= min(liveness(program).peak, liveness(program, raf_order(program, 1)).peak)


def test_a_descent_has_lower_and_lower_peaks() -> None:
    program = layers(12)
    steps = list(descent(program, program.order, math.inf))
    assert steps[0] == Fitted.of(program, program.order)
    peaks = [step.peak for step in steps]
    assert peaks == sorted(set(peaks), reverse=True)
    assert peaks[-1] < peaks[0] / 2


def test_the_written_model_realises_the_schedule() -> None:
    """ONNX Runtime runs the arranged step with equal results; counted bytes are those predicted."""
    source = load_model(train_graph(zoo.build("light-gpt2", batch=4), StepSettings()).step.model.to_proto())
    model = LoweredModel.of_derived(source)
    feeds = {value.name: arrays_for(source.proto)[value.name] for value in source.proto.graph.input}
    times = node_times(model, feeds, 1)
    assert sum(times.values()) > 0
    nodes = node_program(source, costs=times)
    listed = liveness(nodes.program)
    limit = listed.resident + (listed.peak - listed.resident) // 2
    found = fit(nodes.program, limit)
    assert found.fits
    assert found.recomputed
    plan = MemoryPlan(limit, found.found.peak, Allocator.SYSTEM, (), True)  # noqa: FBT003
    arranged = Arrangement(plan, found.found.schedule).applied_to(model)
    content = arranged.to_bytes()
    assert plan_in(content) == plan
    before, after = (
        LoadedModel(one, threads=1).run(feeds) for one in (source.proto.SerializeToString(), content)
    )
    for old, new in zip(before, after, strict=True):
        np.testing.assert_allclose(np.asarray(new), np.asarray(old), rtol=1e-4, atol=1e-6)
    outputs = [value.name for value in source.proto.graph.output]
    counted = execute(arranged.proto.graph.node, arrays_for(source.proto), outputs)
    assert counted.peak == liveness(results_alone(nodes.program), found.found.schedule).peak
