"""Steps are compared by what they change: a small error of an update is far below the size of parameters."""

from __future__ import annotations

import onnx
import pytest
from onnx import parser

from superopt.journeys.in_process import check
from superopt.journeys.training import train_graph
from superopt.step_options import StepSettings

NETWORK = """<ir_version: 8, opset_import: ["" : 18]>
net (float[8,4] x) => (float[8,3] y)
<float[4,3] w = {1, -1, 0.5, 2, 0, 1, -1, 1, 1, -2, 0.5, 1}, float[3] b = {0, 1, 2}>
{ h = MatMul(x, w)  y = Add(h, b) }"""


def step(optimizer: str, learning_rate: float) -> onnx.ModelProto:
    settings = {"loss": "mse", "optimizer": optimizer, "learning_rate": learning_rate}
    built = train_graph(parser.parse_model(NETWORK), StepSettings.from_json(settings))
    return onnx.ModelProto.FromString(built.step.model.to_bytes())


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_wrong_learning_rate_is_found(optimizer: str) -> None:
    """1% off, which is 1e-6 of the parameters."""
    right, wrong = step(optimizer, 1e-4), step(optimizer, 1.01e-4)
    found = check(right, wrong, samples=2)
    assert not found.passed
    assert found.why.startswith(("output w.next", "output b.next"))
    assert "of what the step adds to the state" in found.why
    equal = check(right, step(optimizer, 1e-4), samples=2)
    assert (equal.passed, equal.weak) == (True, False)
