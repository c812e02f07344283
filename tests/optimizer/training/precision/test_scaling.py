"""The scale of the loss: calls that overflow change nothing but the scale."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.domains import Array
from superopt.optimizer.training.precision.scaling import (
    FINITE_CALLS,
    GROWTH_CALLS,
    LOSS_SCALE,
    fitting_scale,
)
from superopt.step_options import UpdateSettings
from superopt.training import Role, Step
from tests.optimizer.training.precision.planned import step


def _batch(size: float) -> dict[str, Array]:
    random = np.random.default_rng(1)
    return {
        "input": (size * random.standard_normal((16, 64))).astype(np.float32),
        "labels": random.integers(0, 10, 16),
    }


@pytest.mark.parametrize("calls", [1, 2])
def test_a_call_that_overflows_halves_the_scale_and_changes_nothing_else(calls: int) -> None:
    settings = UpdateSettings(accumulate=calls, clip_norm=1.0, schedule="step:every=2,factor=0.5")
    built = step(settings, precision="f16")
    loaded = Step(built.model.to_bytes(), threads=1)
    loaded.run(_batch(1.0))
    before = {name: array.copy() for name, array in loaded.states.items()}
    assert before[LOSS_SCALE] == 2.0**16
    assert before[FINITE_CALLS] == 2
    loaded.run(_batch(2.0e4))
    for name, array in loaded.states.items():
        if name == LOSS_SCALE:
            assert array == 2.0**15
        elif name == FINITE_CALLS:
            assert array == 1
        else:
            np.testing.assert_array_equal(array, before[name], err_msg=name)
    loaded.run(_batch(1.0))
    assert loaded.states["step"] == (3 if calls == 1 else 2)


def test_the_scale_doubles_after_finite_calls_in_a_row() -> None:
    loaded = Step(step(precision="f16").model.to_bytes(), threads=1)
    loaded.states[FINITE_CALLS][...] = GROWTH_CALLS
    loaded.run(_batch(1.0))
    assert loaded.states[LOSS_SCALE] == 2.0**17
    assert loaded.states[FINITE_CALLS] == 1


def test_scaled_steps_are_those_without_a_scale() -> None:
    exact, scaled = (
        Step(step(UpdateSettings(clip_norm=0.5), **kind).model.to_bytes(), threads=1)
        for kind in ({}, {"precision": "f16", "error_budget": 1e-9})
    )
    for _ in range(3):
        assert scaled.run(_batch(1.0)) == exact.run(_batch(1.0))
    for name, array in exact.states.items():
        np.testing.assert_allclose(scaled.states[name], array, rtol=1e-5, atol=1e-7, err_msg=name)
    roles = {state.name: state.role for state in scaled.description.states}
    assert (roles[LOSS_SCALE], roles[FINITE_CALLS]) == (Role.SCALE, Role.COUNTER)


def test_the_first_scale_is_a_power_of_two_within_the_format() -> None:
    assert fitting_scale(3.0, 8000.0) == 2048.0
    assert fitting_scale(0.0, 8000.0) == fitting_scale(1e-9, 8000.0) == 2.0**16
    assert fitting_scale(1e30, 8000.0) == fitting_scale(np.inf, 8000.0) == 2.0**-14
