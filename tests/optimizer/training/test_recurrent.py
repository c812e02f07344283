"""Recurrent layers in a training step: outputs and gradients are those of numpy in float64."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from superopt.errors import InvalidModelError
from superopt.onnx_io.training.training_mode import ForwardSettings, in_training_mode
from superopt.step_options import StepSettings
from superopt.training import Step, train_graph
from tests.optimizer.training.numpy_recurrent import GATES, layer

STEPS, BATCH, WIDTH, HIDDEN = 5, 3, 4, 6
DIRECTIONS = ("forward", "reverse", "bidirectional")
Tensors = Mapping[str, NDArray[Any]]


def drawn(operator: str, direction: str, optional: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Random operands of a layer, with the optional ones that it shall have."""
    random = np.random.default_rng([len(operator), len(direction), len(optional)])
    places, rows = 2 if direction == "bidirectional" else 1, GATES[operator] * HIDDEN
    shapes = {
        "x": (STEPS, BATCH, WIDTH), "W": (places, rows, WIDTH), "R": (places, rows, HIDDEN),
        "B": (places, 2 * rows), "h0": (places, BATCH, HIDDEN), "c0": (places, BATCH, HIDDEN),
    }  # fmt: skip
    wanted = ["x", "W", "R", *(name for name in optional if name in shapes)]
    found = {name: (random.normal(size=shapes[name]) / 2).astype(np.float32) for name in wanted}
    return {**found, **({"lens": np.array([5, 2, 3], np.int32)} if "lens" in optional else {})}


def network(
    operator: str, direction: str, tensors: Tensors, steps: int | str = STEPS, **attributes: object
) -> onnx.ModelProto:
    """A layer alone, with all of its outputs; the first one is the prediction."""
    slots = ["x", "W", "R", "B", "lens", "h0", *(["c0"] if operator == "LSTM" else [])]
    outputs = ["Y", "Yh", *(["Yc"] if operator == "LSTM" else [])]
    node = helper.make_node(
        operator, [name if name in tensors else "" for name in slots], outputs,
        name="layer", hidden_size=HIDDEN, direction=direction, **attributes,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "recurrent",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, BATCH, WIDTH])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in tensors.items() if name != "x"],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


FORMS = [
    (operator, direction, optional, reset)
    for operator, direction in itertools.product(GATES, DIRECTIONS)
    for optional in ((), ("B",), ("B", "h0", "c0"), ("lens",), ("B", "lens", "h0", "c0"))
    for reset in ((0, 1) if operator == "GRU" else (0,))
]


@pytest.mark.parametrize(("operator", "direction", "optional", "reset"), FORMS)
def test_outputs_and_gradients_are_those_of_numpy(
    operator: str, direction: str, optional: tuple[str, ...], reset: int
) -> None:
    tensors = drawn(operator, direction, optional)
    attributes = {"linear_before_reset": 1} if reset else {}
    model = network(operator, direction, tensors, **attributes)
    forward = in_training_mode(model, ForwardSettings()).model
    places, reverse = 2 if direction == "bidirectional" else 1, direction == "reverse"

    def outputs(**changed: NDArray[Any]) -> list[NDArray[np.float64]]:
        return layer(operator, {**tensors, **changed}, places, reverse=reverse, reset=bool(reset))

    session = onnxruntime.InferenceSession(forward.SerializeToString(), providers=["CPUExecutionProvider"])
    for got, expected in zip(session.run(None, {"x": tensors["x"]}), outputs(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)

    settings = StepSettings.from_json({"loss": "mse", "optimizer": "sgd", "learning_rate": 1.0})
    step = Step(train_graph(model, settings).step.model.to_bytes())
    random = np.random.default_rng(1)
    targets = random.normal(size=outputs()[0].shape).astype(np.float32)
    before = {name: step.states[name].astype(np.float64) for name in ("W", "R", "B") if name in tensors}
    step.run({"x": tensors["x"], "targets": targets})
    for name, old in before.items():
        gradient = old - step.states[name]
        way = random.normal(size=old.shape)
        losses = [np.mean((outputs(**{name: old + far * way})[0] - targets) ** 2) for far in (-1e-5, 1e-5)]
        slope = (losses[1] - losses[0]) / 2e-5
        assert float(np.sum(gradient * way)) == pytest.approx(slope, rel=1e-3, abs=1e-5)


REFUSED: dict[str, tuple[onnx.ModelProto, str]] = {
    "open time": (
        network("LSTM", "forward", drawn("LSTM", "forward", ()), "time"),
        r"node 'layer' \(LSTM\): expected a fixed number of time steps, got time; give it by --freeze",
    ),
    "no time": (
        network("GRU", "forward", drawn("GRU", "forward", ()), 0),
        r"node 'layer' \(GRU\): expected from 1 to 1024 time steps, got 0",
    ),
    "clip": (
        network("GRU", "forward", drawn("GRU", "forward", ()), clip=1.0),
        r"node 'layer' \(GRU\): expected it without clip",
    ),
    "activation": (
        network("RNN", "forward", drawn("RNN", "forward", ()), activations=["Elu"]),
        r"node 'layer' \(RNN\): expected activations among Relu, .*, got Elu",
    ),
}


@pytest.mark.parametrize(("model", "message"), REFUSED.values(), ids=REFUSED)
def test_layers_that_have_no_plain_form_are_named(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        train_graph(model, StepSettings.from_json({"loss": "mse"}))


def test_the_time_steps_may_be_given() -> None:
    model = network("LSTM", "forward", drawn("LSTM", "forward", ()), "time")
    settings = StepSettings.from_json({"loss": "mse", "freeze": {"time": STEPS}})
    assert train_graph(model, settings).parameters() == ("W", "R")


def test_a_frozen_layer_that_has_no_plain_form_stays() -> None:
    """Nothing before it is trained, so that it needs no gradient."""
    model = network("GRU", "forward", drawn("GRU", "forward", ()), clip=1.0)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((HIDDEN, 2), np.float32), "fc"))
    model.graph.node.append(helper.make_node("MatMul", ["Yh", "fc"], ["top"]))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("top", TensorProto.FLOAT, None))
    settings = StepSettings.from_json({"loss": "mse", "frozen": ["W", "R"]})
    built = train_graph(model, settings)
    assert built.parameters() == ("fc",)
    assert "GRU" in {node.op_type for node in built.step.model.source.proto.graph.node}
