"""What strategies that delay or compress gradients can be applied to, and what is refused in one sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from superopt import zoo
from superopt.errors import InvalidOptionError
from superopt.ir.plan import Plan
from superopt.journeys.planning.applied_strategy import PROPERTY, apply_strategy
from superopt.journeys.planning.lifted_steps import LiftedStep
from superopt.journeys.planning.strategies import BuiltStrategy, build_strategy
from superopt.optimizer.parallel.strategies.auto import simulated
from superopt.optimizer.parallel.strategies.builders import BUILDERS, Setting, build
from superopt.optimizer.parallel.strategies.inexact import Inexactness, exact, inexact
from superopt.optimizer.parallel.strategies.model import (
    Collective,
    Compressor,
    Part,
    Server,
    Strategy,
    VariableSync,
)
from tests.optimizer.parallel.explicit_steps import ExplicitStep, explicit_step
from tests.optimizer.parallel.inexact_steps import (
    CAST,
    FEEDBACK,
    content_of,
    given_step,
    step_of_equal_shapes,
    step_of_strategy,
    strategy_for,
)
from tests.optimizer.parallel.networks import devices


def _one(strategy: Strategy, synchronizer: Server | Collective) -> Strategy:
    first = replace(strategy.variables[0], synchronizer=synchronizer, partition=(), parts=())
    return replace(strategy, variables=(first, *strategy.variables[1:]))


def _parts(strategy: Strategy) -> Strategy:
    parts = (Part("a", Server("node0:GPU:0")), Part("b", Server("node0:GPU:1", staleness=2)))
    first = VariableSync(strategy.variables[0].name, None, (2, 1), parts)
    return replace(strategy, variables=(first, *strategy.variables[1:]))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda s: _one(s, Server("node0:GPU:0", sync=False)),
            "variable 'dense_0.kernel': sync is false, so that nothing bounds how late",
        ),
        (_parts, "variable 'dense_0.kernel': expected one staleness and compressor for all parts, got "),
        (lambda s: s, "it trains as one device does, with no staleness and no compressor"),
        (
            lambda s: _one(s, Server("node9:GPU:0", staleness=1)),
            "the cluster has no device 'node9:GPU:0'",
        ),
    ],
)
def test_what_cannot_be_applied_is_one_sentence(change: object, sentence: str) -> None:
    machine = devices(2)
    strategy = change(strategy_for(given_step(), machine, "PS", Inexactness()))  # pyright: ignore[reportCallIssue]
    with pytest.raises(InvalidOptionError) as caught:
        apply_strategy(content_of(given_step()), strategy, machine, None, 1.0)
    assert str(caught.value).startswith(f"strategy: {sentence}")
    assert "\n" not in str(caught.value)


def test_a_sparse_parameter_has_no_delayed_rows() -> None:
    step = explicit_step(zoo.build("light-ncf", batch=10))
    machine = devices(2)
    strategy = strategy_for(step, machine, "Parallax", Inexactness(1))
    with pytest.raises(InvalidOptionError, match="expected a gradient that is summed whole for staleness 1"):
        apply_strategy(content_of(step), strategy, machine, None, 1.0)


def _built(step: ExplicitStep, builder: str, asked: Inexactness) -> BuiltStrategy:
    machine = devices(2)
    return build_strategy(LiftedStep(step.lifted, step.layout), machine, builder, Setting(machine), asked)


def test_builders_without_servers_or_all_reduces_say_so() -> None:
    both = Inexactness(1, Compressor.CAST)
    for builder, asked, sentence in (
        ("AllReduce", Inexactness(1), "staleness: expected parameter servers, and AllReduce has none"),
        ("PS", CAST, "compressor: expected all-reduces, and PS has none"),
        ("PS", both, "compressor: expected all-reduces, and PS has none"),
        ("PS", Inexactness(50), "staleness: expected a staleness below 50, the number of losses"),
    ):
        with pytest.raises(InvalidOptionError, match=sentence):
            _built(given_step(), builder, asked)


def test_clipping_leaves_no_gradient_out() -> None:
    """Not even of the first parameter of each shape."""
    assert _built(step_of_equal_shapes(), "PS", Inexactness(1)).unchanged == 0


def test_a_scaled_loss_is_refused() -> None:
    """Gradients that wait, and residuals, would have the scale of another step."""
    step = explicit_step(zoo.build("light-mlp", batch=8), loss="cross-entropy", precision="f16")
    for builder, asked in (("PS", Inexactness(1)), ("AllReduce", FEEDBACK)):
        with pytest.raises(InvalidOptionError, match="expected a step that does not scale its loss"):
            _built(step, builder, asked)


def test_gradients_of_a_step_in_bfloat16_are_compressed() -> None:
    step = explicit_step(zoo.build("light-mlp", batch=8), loss="cross-entropy", precision="bf16")
    built = _built(step, "AllReduce", CAST)
    exactly = _built(step, "AllReduce", Inexactness())
    saved = exactly.simulation.communication_bytes - built.simulation.communication_bytes
    assert saved == 2 * 2 * step.parameters  # two bytes of each, sent twice


def test_one_device_has_no_sums() -> None:
    machine = devices(1)
    step = LiftedStep(given_step().lifted, given_step().layout)
    assert build_strategy(step, machine, "PS", Setting(machine), Inexactness()).unchanged == 0
    with pytest.raises(InvalidOptionError, match="staleness: expected a gradient that is summed whole"):
        build_strategy(step, machine, "PS", Setting(machine), Inexactness(1))


def test_strategies_can_be_applied_one_after_the_other() -> None:
    """The first one compresses the gradient of one parameter, the second delays that of another."""
    machine = devices(2)
    names = [
        variable.name
        for variable in LiftedStep(given_step().lifted, given_step().layout).planner(machine).variables
    ]
    servers, reduced = (
        exact(strategy_for(given_step(), machine, builder, Inexactness())) for builder in ("PS", "AllReduce")
    )
    first = step_of_strategy(given_step(), machine, inexact(reduced, CAST, names[:1]))
    second = step_of_strategy(first, machine, inexact(servers, Inexactness(2), names[1:2]))
    assert second.layout.description.compressed == (names[0],)
    properties = [e.value for e in second.lifted.source.proto.metadata_props if e.key == PROPERTY]
    assert [one["parameter"] for one in json.loads(properties[0])["changes"]] == names[:2]
    assert len(properties) == 1
    with pytest.raises(InvalidOptionError, match="expected a step with gradients as they are computed"):
        step_of_strategy(second, machine, inexact(reduced, CAST, names[:1]))


def test_builders_leave_gradients_that_are_no_single_sum() -> None:
    """Tables of which rows are exchanged; the others are delayed."""
    step = explicit_step(zoo.build("light-ncf", batch=10))
    built = _built(step, "PS", Inexactness(2))
    delays = {one.name: Inexactness.asked_by(one).delay for one in built.strategy.variables}
    assert built.unchanged == 4
    assert sorted(delays.values()) == [0] * 4 + [2] * (len(delays) - 4)
    apply_strategy(content_of(step), built.strategy, devices(2), None, 0.5)


def test_gradients_that_are_not_compressed_have_groups_of_their_own() -> None:
    step = explicit_step(zoo.build("light-ncf", batch=10))
    built = _built(step, "AllReduce", CAST)
    groups: dict[Compressor, set[int]] = {Compressor.NONE: set(), Compressor.CAST: set()}
    for variable in built.strategy.variables:
        for one in variable.synchronizers:
            assert isinstance(one, Collective)
            groups[one.compressor].add(one.group)
    assert groups == {Compressor.NONE: {1}, Compressor.CAST: {0}}


def test_losses_that_differ_too_much_are_refused() -> None:
    machine = devices(2)
    strategy = strategy_for(given_step(), machine, "PS", Inexactness(2))
    with pytest.raises(InvalidOptionError, match=r"tolerance: expected at least .* got 0"):
        apply_strategy(content_of(given_step()), strategy, machine, None, 0.0)
    found = apply_strategy(content_of(given_step()), strategy, machine, None, 0.5)
    assert 0 < found.losses.error <= 0.5
    assert "6 gradients applied 2 steps later; not equal to the given step" in found.sentence()


def test_a_strategy_is_planned_on_its_own_step_only() -> None:
    machine = devices(2)
    asked = {delay: strategy_for(given_step(), machine, "PS", Inexactness(delay)) for delay in (1, 2)}
    step = step_of_strategy(given_step(), machine, asked[1])
    planner = LiftedStep(step.lifted, step.layout).planner(machine)
    planner.planned(exact(asked[1]))
    for wrong in (asked[2], strategy_for(given_step(), machine, "AllReduce", CAST)):
        with pytest.raises(InvalidOptionError, match="changes what is trained: write the step"):
            planner.planned(wrong)
    with pytest.raises(InvalidOptionError, match="expected a step with gradients as they are computed"):
        apply_strategy(content_of(step), asked[1], machine, None, 1.0)


@pytest.mark.parametrize("builder", sorted(BUILDERS))
def test_every_builder_is_planned_on_a_step_with_delays(builder: str) -> None:
    """Without the delays of its own: the step keeps them."""
    machine = devices(3)
    step = step_of_strategy(given_step(), machine, strategy_for(given_step(), machine, "PS", Inexactness(2)))
    planner = LiftedStep(step.lifted, step.layout).planner(machine)
    planned = planner.planned(build(builder, planner.variables, Setting(machine, chunk=3)))
    foretold = simulated(planned, planner)
    own = step.by_strategy(planned)
    np.testing.assert_allclose(own.losses(planned.plan, 4), step.losses(Plan(), 4), rtol=1e-5)
    executed = own.executed(planned.plan, foretold.order)
    assert executed.moved_bytes == foretold.communication_bytes
    peaks = tuple(executed.peaks.get(device, 0) for device in range(len(machine)))
    assert peaks == foretold.memory_bytes


def test_samples_of_another_shape_are_refused(tmp_path: Path) -> None:
    samples = tmp_path / "samples.npz"
    np.savez(samples, x=np.zeros((3, 2), np.float32))
    machine = devices(2)
    strategy = strategy_for(given_step(), machine, "PS", Inexactness(1))
    with pytest.raises(Exception, match="expected"):
        apply_strategy(content_of(given_step()), strategy, machine, samples, 1.0)
