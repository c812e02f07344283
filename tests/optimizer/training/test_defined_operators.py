"""Gradients through operators that only a training step gives definitions of, and through rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx.parser
import pytest

from superopt.errors import InvalidModelError
from superopt.step_options import StepSettings
from superopt.training import Step, train_graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from superopt.domains import Array

ROWS, COLUMNS = 4, 6
LOWEST = -(2**63) + 1
NETWORK = """<ir_version: 10, opset_import: ["" : 21]>
g (float[4, 6] x, float[6, 6] w) => (float[4, {columns}] y)
<int64[4] pads = {{0, 1, 0, 2}}, int64[1] last = {{-1}}, int64[1] lowest = {{{lowest}}},
 int64[1] one = {{1}}, int64 axis = {{1}}>
{{ a = MatMul(x, w) {nodes} }}"""


FORWARD: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "reflected": (
        'y = Pad <mode = "reflect"> (a, pads)',
        lambda a: np.pad(a, ((0, 0), (1, 2)), mode="reflect"),
    ),
    "edges": ('y = Pad <mode = "edge"> (a, pads)', lambda a: np.pad(a, ((0, 0), (1, 2)), mode="edge")),
    "reversed": ("y = Slice (a, last, lowest, one, last)", lambda a: a[:, ::-1]),
    "sums": ("y = CumSum <reverse = 1> (a, axis)", lambda a: a[:, ::-1].cumsum(axis=1)[:, ::-1]),
    "triangle": ("y = Trilu <upper = 0> (a)", np.tril),
    "rounded": (
        "f = Floor (a) s = Sign (a) g = Add(f, s) y = Add (a, g)",
        lambda a: a + np.floor(a) + np.sign(a),
    ),
}


@pytest.mark.parametrize("name", FORWARD)
def test_gradients_are_those_of_numpy(name: str) -> None:
    """The network is linear in its weights but for rounding, whose gradient is 0."""
    nodes, forward = FORWARD[name]
    random = np.random.default_rng(0)
    x, w = (random.normal(size=(size, COLUMNS)).astype(np.float32) for size in (ROWS, COLUMNS))
    expected = forward(x.astype(np.float64) @ w)
    targets = random.normal(size=expected.shape).astype(np.float32)
    text = NETWORK.format(columns=expected.shape[1], lowest=LOWEST, nodes=nodes)
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    del model.graph.input[1]
    settings = StepSettings.from_json({"loss": "mse", "optimizer": "sgd", "learning_rate": 1.0})
    step = Step(train_graph(model, settings).step.model.to_bytes())
    loss = step.run({"x": x, "targets": targets})
    assert loss == pytest.approx(np.mean((expected - targets) ** 2), rel=1e-4)
    cotangent = 2 * (expected - targets) / expected.size
    gradient = np.zeros_like(w, np.float64)
    for place in np.ndindex(w.shape):
        unit = np.zeros_like(w, np.float64)
        unit[place] = 1
        change = x @ unit if name == "rounded" else forward(x @ unit)
        gradient[place] = np.sum(cotangent * change)
    np.testing.assert_allclose(w - step.states["w"], gradient, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("operator", ["Floor", "Ceil", "Round", "Sign"])
def test_parameters_that_the_loss_depends_on_in_steps_only_are_not_trained(operator: str) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N,4] x) => (float[N,3] y)'
        f"{{ h = MatMul(x, w) f = {operator}(h) y = Add(f, b) }}"
    )
    random = np.random.default_rng(0)
    contents = {"w": random.normal(size=(4, 3)), "b": random.normal(size=3)}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(content.astype(np.float32), name) for name, content in contents.items()
    )
    built = train_graph(model, StepSettings.from_json({"loss": "mse"})).step
    assert built.unreached == ("w",)
    with pytest.raises(InvalidModelError, match="constant in all of w"):
        train_graph(_without_sum(model), StepSettings.from_json({"loss": "mse"}))


def _without_sum(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without the parameter that is added at the end."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    changed.graph.node[-1].CopyFrom(onnx.helper.make_node("Identity", ["f"], ["y"]))
    del changed.graph.initializer[1]
    return changed
