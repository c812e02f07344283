"""Settings that do not fit a model are refused in one sentence."""

from __future__ import annotations

import pytest

from superopt.errors import InvalidOptionError, SuperoptError
from superopt.step_options import LossSettings, ModelSettings, StepSettings
from tests.optimizer.training.step_models import built, linear


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (StepSettings(model=ModelSettings(prediction="nothing")), "expected an output of the model"),
        (StepSettings(model=ModelSettings(trainable=("nothing*",))), "trainable"),
        (
            StepSettings(loss=LossSettings("ms")),
            r"loss: expected cross-entropy, mse, l1, cotangents, or an output of the model \(.*\); got ms",
        ),
        (
            StepSettings(loss=LossSettings("logits"), model=ModelSettings(prediction="aside")),
            "prediction: expected none, since the loss is the output logits; got aside",
        ),
        (
            StepSettings(loss=LossSettings("cotangents"), model=ModelSettings(prediction="logits")),
            "prediction: expected none, since all outputs have cotangents; got logits",
        ),
    ],
    ids=["prediction", "trainable", "loss", "both", "cotangents"],
)
def test_what_does_not_fit_is_said(settings: StepSettings, message: str) -> None:
    with pytest.raises(SuperoptError, match=message) as refused:
        built(linear(), settings)
    assert isinstance(refused.value, InvalidOptionError)
