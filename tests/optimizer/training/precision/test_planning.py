"""Predicted errors are those that are observed; budgets are held, or refused in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from superopt.axioms.loader import load_axioms
from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.onnx_io import load_model
from superopt.optimizer.training.precision.outcome import PrecisionOutcome, checked
from superopt.optimizer.training.precision.stored import with_precision
from superopt.optimizer.training.step import BuiltStep, build_step
from superopt.optimizer.training.trial_batches import batches_of
from superopt.step_options import LossSettings, PrecisionSettings, StepSettings, UpdateSettings
from superopt.training import train_graph
from tests.optimizer.training.precision.planned import DEVICE, count_casts, model, step


def _outcome(**precision: Any) -> PrecisionOutcome:
    outcome = step(**precision).precision
    assert outcome is not None
    return outcome


def test_predicted_errors_are_those_observed_in_float16() -> None:
    outcome = _outcome(precision="f16", error_budget=0.01)
    predicted, observed = outcome.planned.predicted, outcome.planned.observed
    assert predicted is not None
    assert observed is not None
    assert len(outcome.planned.plan.low) > outcome.planned.candidates / 2
    assert 0.5 < observed.gradients / predicted.gradients < 2
    assert 0.3 < observed.loss / predicted.loss < 3
    assert observed.loss < predicted.bound
    assert outcome.losses is not None
    assert 0 < outcome.losses.error < 0.01
    assert outcome.planned.after < outcome.planned.before
    document = outcome.document()
    assert document["why"] == "in mixed precision, which is not equal to the step in float32"


def test_smaller_budgets_leave_fewer_nodes_in_low_precision_and_hold() -> None:
    times: list[float] = []
    for budget in (1e-2, 3e-4, 1e-4, 1e-9):
        planned = _outcome(precision="f16", error_budget=budget).planned
        assert planned.observed is not None
        assert planned.observed.largest <= budget
        times.append(planned.after)
    assert times == sorted(times)
    assert times[0] < times[-1] == planned.before
    assert not planned.plan.low


def test_exclusive_casts_make_a_faster_plan_than_shared_ones() -> None:
    exclusive, shared = (
        _outcome(precision="f16", error_budget=0.01, casts=casts).planned for casts in ("exclusive", "shared")
    )
    assert exclusive.after < shared.after
    assert exclusive.mixed.exclusive_casts > 0
    assert shared.mixed.exclusive_casts == 0


def test_losses_that_differ_by_more_than_the_budget_are_refused() -> None:
    settings = PrecisionSettings(precision="bf16", error_budget=1e-6)
    exact, other = step(), step(UpdateSettings(learning_rate=0.1), precision="bf16")
    assert other.precision is not None
    batches = batches_of(exact.model.to_bytes(), None, "", "")
    with pytest.raises(
        InvalidOptionError, match=r"error budget: expected at least .* the losses of 50 steps"
    ):
        checked(settings, other.precision.planned, exact.model, other.model, batches)


def test_samples_of_an_archive_are_used_and_wrong_ones_named(tmp_path: Path) -> None:
    archive = tmp_path / "samples.npz"
    random = np.random.default_rng(0)
    np.savez(
        archive,
        input=random.standard_normal((40, 64)).astype(np.float32),
        labels=random.integers(0, 10, 40),
    )
    batches = batches_of(step().model.to_bytes(), archive, "", "")
    assert [batch["input"].shape for batch in batches] == [(16, 64), (16, 64)]
    np.savez(archive, input=np.zeros((40, 64), np.float32))
    with pytest.raises(InvalidFileError, match="labels"):
        batches_of(step().model.to_bytes(), archive, "", "")


def test_a_budget_may_be_larger_than_any_error() -> None:
    outcome = step(precision="bf16", error_budget=1e300).precision
    assert outcome is not None
    assert len(outcome.planned.plan.low) > 0


def test_samples_are_for_a_budget(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidOptionError, match="precision_data: expected an error budget with it, got none"
    ):
        PrecisionSettings(precision="bf16", precision_data=tmp_path / "samples.npz")


def test_no_node_of_a_step_in_double_precision_runs_in_another() -> None:
    given = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (double[4, 2] x) => (double[4, 2] y) '
        "<double[2, 2] w = {1, 2, 3, 4}> { y = MatMul(x, w) }"
    )

    def built(**precision: Any) -> BuiltStep:
        settings = StepSettings(loss=LossSettings("mse"), precision=PrecisionSettings(**precision))
        return build_step(given, settings, load_axioms().adjoints, DEVICE)

    outcome = built(precision="bf16", error_budget=0.02).precision
    assert outcome is not None
    assert not outcome.planned.plan.low
    with pytest.raises(
        InvalidOptionError, match=r"precision: expected bf16 for a loss of f64\[\]: f16 scales"
    ):
        built(precision="f16")


@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_samples_whose_loss_is_not_finite_are_refused(tmp_path: Path, precision: str) -> None:
    archive = tmp_path / "samples.npz"
    np.savez(archive, input=np.full((16, 64), np.inf, np.float32), labels=np.zeros(16, np.int64))
    with pytest.raises(InvalidOptionError, match="error budget: expected a finite loss and finite gradients"):
        step(precision=precision, error_budget=0.01, precision_data=archive)


def test_operands_whose_error_overflows_stay_in_float32(tmp_path: Path) -> None:
    archive = tmp_path / "samples.npz"
    images = np.zeros((16, 64), np.float32)
    images[0, 0] = 1.5e38
    np.savez(archive, input=images, labels=np.zeros(16, np.int64))
    outcome = step(precision="bf16", error_budget=0.01, precision_data=archive).precision
    assert outcome is not None
    assert outcome.planned.observed is not None
    assert outcome.planned.observed.largest <= 0.01
    assert 0 < len(outcome.planned.plan.low) < outcome.planned.candidates


def test_a_stored_step_gets_another_precision_in_place_of_its_own() -> None:
    adjoints = load_axioms().adjoints
    source = load_model(step(precision="bf16").model.to_bytes())
    mixed, outcome = with_precision(source, PrecisionSettings(error_budget=0.05), adjoints, DEVICE)
    planned = outcome.planned
    assert planned.observed is not None
    assert planned.observed.largest <= 0.05
    assert 0 < len(planned.plan.low) < planned.candidates + 1
    pairs = planned.mixed.shared_casts + planned.mixed.exclusive_casts + len(planned.mixed.rounded)
    assert sum(node.op_type == "Cast" for node in mixed.proto.graph.node) >= 2 * pairs
    assert count_casts(planned.mixed.graph) == pairs
    with pytest.raises(InvalidOptionError, match=r"expected bf16 .* does not scale its loss"):
        with_precision(source, PrecisionSettings(precision="f16"), adjoints, DEVICE)


@pytest.mark.parametrize(("precision", "low"), [("f32", "f16"), ("bf16", "bf16")])
def test_a_stored_step_that_scales_its_loss_is_in_float16_unless_told_otherwise(
    precision: str, low: str
) -> None:
    source = load_model(step(precision="f16").model.to_bytes())
    settings = PrecisionSettings(precision=precision, error_budget=0.05)
    mixed, outcome = with_precision(source, settings, load_axioms().adjoints, DEVICE)
    assert outcome.planned.plan.low
    assert outcome.planned.plan.format == low
    with_precision(load_model(mixed.to_bytes()), settings, load_axioms().adjoints, DEVICE)


def test_an_unknown_device_is_refused_with_the_known_ones() -> None:
    settings = StepSettings(precision=PrecisionSettings(precision="bf16", priced_for="abacus"))
    with pytest.raises(InvalidOptionError, match=r"device: expected one of h100-sxm, .* got 'abacus'"):
        train_graph(model(), settings)
