"""Models that are hard to train: each has a step that runs, or is refused in one sentence."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from onnx import parser

from superopt.errors import InvalidInputError
from superopt.journeys.training import train_graph
from superopt.optimizer.training.description import Role
from superopt.optimizer.training.running import Step
from superopt.step_options import StepSettings
from tests.optimizer.training.steps import linear_step

W = "float[4,3] w = {1, -1, 0.5, 2, 0, 1, -1, 1, 1, -2, 0.5, 1}"
IR = '<ir_version: 8, opset_import: ["" : 18, "my" : 1]>'

BODY = "rounds (int64 i, bool c, float[n,3] a) => (bool d, float[n,3] t) { d = Identity(c)  t = Tanh(a) }"
BRANCHES = """then_branch = p () => (float[n,3] t) { t = Relu(h) },
              else_branch = q () => (float[n,3] f) { f = Neg(h) }"""


def model(
    nodes: str,
    weights: str = W,
    inputs: str = "float[n,4] x",
    outputs: str = "float[n,3] y",
    functions: str = "",
) -> onnx.ModelProto:
    return parser.parse_model(f"{IR}\nnet ({inputs}) => ({outputs})\n<{weights}>\n{{ {nodes} }}\n{functions}")


LINEAR = "y = MatMul(x, w)"
FUNCTION = '<domain: "my", opset_import: ["" : 18]> Act (a) => (r) { q = Tanh(a)  r = Relu(q) }'

TRAINED: dict[str, tuple[onnx.ModelProto, dict[str, object]]] = {
    "a hidden tensor named as the loss": (model("loss = MatMul(x, w)  y = Relu(loss)"), {}),
    "a hidden tensor named as a new state": (model('"w.next" = MatMul(x, w)  y = Relu("w.next")'), {}),
    "an output named as a new state": (model('"w.next" = MatMul(x, w)', outputs='float[n,3] "w.next"'), {}),
    "an output named as an input of the step": (
        model("labels = MatMul(x, w)", outputs="float[n,3] labels"),
        {},
    ),
    "an input that is an output": (
        model(LINEAR, outputs="float[n,4] x, float[n,3] y"),
        {"prediction": "y"},
    ),
    "a parameter that is an output": (model(LINEAR, outputs="float[n,3] y, float[4,3] w"), {}),
    "names with other letters": (model('y = MatMul("日本/a:0", w)', inputs='float[n,4] "日本/a:0"'), {}),
    "a tied weight": (
        model("h = MatMul(x, w)  t = Transpose(w)  y = MatMul(h, t)", outputs="float[n,4] y"),
        {},
    ),
    "a function": (model("h = MatMul(x, w)  y = my.Act(h)", functions=FUNCTION), {}),
    "a branch that is known": (
        model(f"h = MatMul(x, w)  y = If(c) <{BRANCHES}>", f"{W}, bool c = {{1}}"),
        {},
    ),
    "a branch that sizes decide": (
        model(
            "h = MatMul(x, w)  s = Shape <start = 1> (x)  e = Equal(s, four)  c = Squeeze(e)"
            f"  y = If(c) <{BRANCHES}>",
            f"{W}, int64[1] four = {{4}}",
        ),
        {},
    ),
    "an opaque node before the parameters": (
        model("d = Det(x)  y = MatMul(d, w)", inputs="float[n,4,3,3] x"),
        {},
    ),
    "a sequence of any length": (
        model("y = Gather(w, x)", inputs="int64[n,t] x", outputs="float[n,t,3] y"),
        {},
    ),
    "int32 indices": (model("y = Gather(w, x)", inputs="int32[n] x"), {}),
    "sizes without names": (model(LINEAR, inputs="float[?,4] x", outputs="float[?,3] y"), {}),
}


@pytest.mark.parametrize("case", TRAINED.values(), ids=TRAINED.keys())
def test_a_hard_model_is_trained(case: tuple[onnx.ModelProto, dict[str, object]]) -> None:
    given, options = case
    built = train_graph(given, StepSettings.from_json(options)).step
    assert [state.name for state in built.description.with_role(Role.PARAMETER)] == ["w"]
    step = Step(built.model.to_bytes(), threads=1)
    before = step.parameters()["w"].copy()
    assert math.isfinite(step.run(_batch(built.model.proto, built.description.data)))
    assert not np.array_equal(step.parameters()["w"], before)


def _batch(proto: onnx.ModelProto, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Random data, two of everything that has no fixed size."""
    found: dict[str, np.ndarray] = {}
    random = np.random.default_rng(0)
    for value in proto.graph.input:
        if value.name in names:
            tensor = value.type.tensor_type
            shape = [size.dim_value or 2 for size in tensor.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            content = random.standard_normal(shape) if dtype.kind == "f" else random.integers(0, 3, shape)
            found[value.name] = content.astype(dtype)
    return found


TAKEN = "expected a model without an input or initialiser named "
REFUSED: dict[str, tuple[onnx.ModelProto, dict[str, object], str]] = {
    "an input named as the loss": (
        model("y = MatMul(loss, w)", inputs="float[n,4] loss"),
        {},
        f"{TAKEN}'loss'",
    ),
    "an input named as a new state": (
        model('h = MatMul(x, w)  y = Add(h, "w.next")', inputs='float[n,4] x, float[3] "w.next"'),
        {},
        f"{TAKEN}'w.next'",
    ),
    "an input named as the labels": (
        model("y = MatMul(labels, w)", inputs="float[n,4] labels"),
        {},
        "without a tensor named 'labels'",
    ),
    "no parameters": (
        model("y = Relu(x)", "int64 c = {1}"),
        {},
        "the model has no floating-point parameters",
    ),
    "only constants": (
        model("y = Relu(x)", "float c = {1}"),
        {},
        "the model has no floating-point parameters, only constants, as 'c'; those that are named with",
    ),
    "a step": (linear_step(), {}, "the model is a training step already"),
    "a loss without parameters": (
        model(LINEAR, outputs="float[n,4] x, float[n,3] y"),
        {},
        "constant in all of w",
    ),
    "a condition": (
        model(f"h = MatMul(x, w)  y = If(c) <{BRANCHES}>", inputs="float[n,4] x, bool c"),
        {},
        "node 'y' (If) has no gradient",
    ),
    "a loop": (
        model(
            f"h = MatMul(x, w)  y = Loop(k, c, h) <body = {BODY}>", f"{W}, int64 k = {{3}}, bool c = {{1}}"
        ),
        {},
        "node 'y' (Loop) has no gradient",
    ),
    "a node behind one of unknown rank": (
        model(
            f"b = Loop(k, c, v) <body = {BODY}>  h = MatMul(x, w)  y = Add(h, b)",
            f"{W}, float[1,3] v = {{1, 2, 3}}, int64 k = {{3}}, bool c = {{1}}",
        ),
        {},
        "node 'b' (Loop) has no gradient",
    ),
    "an operator of another domain": (
        model("h = MatMul(x, w)  y = my.Other(h)"),
        {},
        "node 'y' (Other) has no gradient",
    ),
    "cotangents in half precision": (
        model("h = MatMul(x, w)  y = Cast<to = 10>(h)", outputs="float16[n,3] y"),
        {"loss": "cotangents"},
        "gradients are computed in float32 and float64 only",
    ),
    "nothing that is frozen": (model(LINEAR), {"frozen": ["v*"]}, "frozen: expected the name of an init"),
    "nothing that is trainable": (model(LINEAR), {"trainable": ["v*"]}, "trainable: expected the name of"),
    "a label that is too large": (model(LINEAR), {"ignore_index": 10**20}, "ignore_index: expected"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_trained_is_said(case: tuple[onnx.ModelProto, dict[str, object], str]) -> None:
    given, options, message = case
    with pytest.raises(InvalidInputError) as refused:
        train_graph(given, StepSettings.from_json(options))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
