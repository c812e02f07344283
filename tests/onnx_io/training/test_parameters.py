"""Which initialisers training changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from superopt import zoo
from superopt.errors import InvalidModelError, InvalidOptionError
from superopt.onnx_io.training.parameters import overridable_parameters
from superopt.onnx_io.training.training_mode import ForwardSettings, in_training_mode
from tests.onnx_io.kit import assert_same_results, model, node, run, session, tensor, value, weight


def parsed(body: str, stored: str, inputs: str = "float[n, 2] x", ir: int = 8) -> onnx.ModelProto:
    return parser.parse_model(
        f'<ir_version: {ir}, opset_import: ["" : 17]>\n'
        f"parsed ({inputs}) => (y) <{stored}> {{ a = Relu(x)\n {body} }}"
    )


W, V, ONE = "float[2,2] w = {1,2,3,4}", "float[2] v = {1,2}", "float[1] one = {1}"

CHOICE = """
    c = Constant<value = bool {1}>()
    y = If(c)<
        then_branch = t() => (float[n, 2] u) { u = MatMul(a, w) },
        else_branch = e() => (float[n, 2] z) { z = Relu(a) }
    >"""

CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "layer": ("y = Gemm(a, w, v)", f"{W}, {V}", ("w", "v")),
    "in the order of the file": ("y = Gemm(a, w, v)", f"{V}, {W}", ("v", "w")),
    "bias of one element": ("y = Gemm(a, k, one)", f"float[2,1] k = {{1,2}}, {ONE}", ("k", "one")),
    "slope of one element": ("y = PRelu(a, one)", ONE, ("one",)),
    "sum with one element": ("b = MatMul(a, k)\n c = Add(b, one)\n y = Add(c, epsilon)",
        f"float[2,1] k = {{1,2}}, {ONE}, float epsilon = {{0.1}}", ("k", "one")),
    "product with one element": ("b = Mul(a, one)\n y = Add(b, v)", f"{ONE}, {V}", ("v",)),
    "scale of one channel": (
        "b = Unsqueeze(a, axes)\n c = InstanceNormalization(b, one, one)\n y = Mul(c, v)",
        f"{ONE}, {V}, int64[1] axes = {{1}}", ("one", "v"),
    ),
    "both kinds of statistics": ("y = BatchNormalization(a, v, b, m, s)",
        f"{V}, float[2] b = {{0,0}}, float[2] m = {{0,0}}, float[2] s = {{1,1}}", ("v", "b")),
    "statistic that is a bias too": ("y = BatchNormalization(a, v, b, b, v)",
        f"{V}, float[2] b = {{0,0}}", ("v", "b")),
    "bounds": ("b = Clip(a, zero, one)\n y = Mul(b, v)",
        f"{V}, float zero = {{0}}, float one = {{1}}", ("v",)),
    "padding": ("b = Pad(a, pads, zero)\n y = MatMul(b, w)",
        f"{W}, int64[4] pads = {{0,0,0,0}}, float zero = {{0}}", ("w",)),
    "exponents": ("b = Pow(a, v)\n y = MatMul(b, w)", f"{V}, {W}", ("w",)),
    "tied": ("b = MatMul(a, w)\n t = Transpose(w)\n y = MatMul(b, t)", W, ("w",)),
    "read twice": ("b = MatMul(a, w)\n y = MatMul(b, w)", W, ("w",)),
    "moved": ("t = Transpose(w)\n r = Reshape(t, shape)\n y = MatMul(a, r)",
        f"{W}, int64[2] shape = {{2,2}}", ("w",)),
    "unread": ("y = MatMul(a, w)", f"{W}, {V}", ("w",)),
    "double": ("b = Cast<to = 11>(a)\n y = MatMul(b, d)", "double[2,2] d = {1,2,3,4}", ("d",)),
    "integers": ("b = Gather(w, i)\n y = MatMul(a, b)", f"{W}, int64[2] i = {{1,0}}", ("w",)),
    "statistics of images": ("b = Sub(x, v)\n c = Div(b, u)\n y = MatMul(c, w)",
        f"{V}, {W}, float[2] u = {{3,4}}", ("w",)),
    "scale behind a layer": ("b = MatMul(x, w)\n y = Mul(b, v)", f"{V}, {W}", ("v", "w")),
    "mask": ("b = Add(a, m)\n y = MatMul(b, w)", f"{W}, float[2,2] m = {{0,-10000,0,0}}", ("w",)),
    "frequencies": ("i = Shape(x)\n j = Cast<to = 1>(i)\n f = MatMul(w, j)\n s = Sin(f)\n y = Mul(a, v)",
        f"{W}, {V}", ("v",)),
    "embedding of positions": ("p = Gather(w, i)\n t = Gather(u, i)\n y = Add(t, p)",
        f"{W}, float[2,2] u = {{1,2,3,4}}, int64[2] i = {{0,1}}", ("w", "u")),
    "constant node": ("k = Constant<value = float[2,2] {1,2,3,4}>()\n y = MatMul(a, k)", "", ("k",)),
    "captured": (CHOICE, W, ("w",)),
}  # fmt: skip


@pytest.mark.parametrize(("body", "stored", "names"), CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("ir", [4, 8])
def test_parameters_are_what_layers_hold(body: str, stored: str, names: tuple[str, ...], ir: int) -> None:
    given = parsed(body, stored, ir=ir)
    before = given.SerializeToString()
    made, found = overridable_parameters(given)
    assert found == names
    assert [port.name for port in made.graph.input] == ["x", *names]
    assert given.SerializeToString() == before


RECURRENT = model(
    [node("LSTM", "x w r b - h c p", "y", hidden_size=2)],
    [value("x", [3, 1, 2])], [value("y", None)],
    [weight("w", 1, 8, 2), weight("r", 1, 8, 2), weight("b", 1, 16), weight("h", 1, 1, 2),
     weight("c", 1, 1, 2), weight("p", 1, 6)],
)  # fmt: skip


def test_initial_states_of_recurrent_layers_are_no_parameters() -> None:
    assert overridable_parameters(RECURRENT)[1] == ("w", "r", "b", "p")


def test_parameters_can_be_overridden_and_have_their_values_as_defaults() -> None:
    given = parsed("y = MatMul(a, w)", W)
    made = overridable_parameters(given)[0].SerializeToString()
    x = np.ones((1, 2), np.float32)
    assert_same_results(given.SerializeToString(), made, n=3)
    assert np.asarray(run(made, {"x": x, "w": np.zeros((2, 2), np.float32)})[0]).tolist() == [[0, 0]]


def test_inputs_of_ir_version_3_are_parameters_or_constants() -> None:
    given = model(
        [node("MatMul", "x w", "a"), node("Clip", "a low", "y")],
        [value("x", ["n", 2]), value("w", [2, 2]), value("low", [])], [value("y", ["n", 2])],
        [weight("w", 2, 2), tensor("low", 0)], opset=11, ir_version=3,
    )  # fmt: skip
    made, names = overridable_parameters(given)
    assert names == ("w",)
    assert [port.name for port in made.graph.input] == ["x", "w"]
    assert session(made.SerializeToString()).get_overridable_initializers()[0].name == "w"


@pytest.mark.parametrize(
    ("trainable", "frozen", "names"),
    [
        (["*"], ["w"], ("v",)),
        (["w*"], [], ("w",)),
        (["?"], ["[wx]"], ("v",)),
        (["v", "low"], [], ("v", "low")),
        (["*", "low"], [], ("w", "v", "low")),
    ],
)
def test_patterns_choose_parameters(trainable: list[str], frozen: list[str], names: tuple[str, ...]) -> None:
    given = parsed("b = Clip(a, low)\n y = Gemm(b, w, v)", f"{W}, {V}, float low = {{0}}")
    assert overridable_parameters(given, trainable, frozen)[1] == names


HALF = parsed("b = Cast<to = 10>(a)\n y = MatMul(b, h)", "float16[2,2] h = {1,2,3,4}")
QUANTISED = parsed(
    "b = DequantizeLinear(q, scale)\n c = MatMul(a, b)\n y = MatMul(c, w)",
    f"{W}, int8[2,2] q = {{1,2,3,4}}, float scale = {{0.5}}",
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (HALF, "initialiser 'h': expected a parameter in float32 or float64, got one that is FLOAT16; "),
        (QUANTISED, "initialiser 'q': expected a parameter in float32 or float64, got one that is INT8 and "),
    ],
)
def test_parameters_of_other_precisions_are_refused(given: onnx.ModelProto, message: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        overridable_parameters(given)
    assert str(caught.value).startswith(message)


def test_quantised_weights_can_be_frozen() -> None:
    assert overridable_parameters(QUANTISED, frozen=["q"])[1] == ("w",)


@pytest.mark.parametrize(
    ("trainable", "frozen", "message"),
    [
        (
            ["weight"],
            [],
            "trainable: expected the name of an initialiser of the model, or a pattern that ",
        ),
        (
            ["*"],
            ["weight"],
            "frozen: expected the name of an initialiser of the model, or a pattern that ",
        ),
        (["k*"], [], "trainable: expected the name of an initialiser of the model, or a pattern that "),
        (
            ["*"],
            ["*"],
            "trainable: expected patterns that match parameters, got *, without *, which leaves none",
        ),
    ],
)
def test_patterns_without_effect_are_refused(trainable: list[str], frozen: list[str], message: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        overridable_parameters(parsed("y = MatMul(a, w)", W), trainable, frozen)
    assert str(caught.value).startswith(message)


def test_states_are_no_parameters() -> None:
    given = parsed("y = BatchNormalization(a, v, b, m, s)",
        f"{V}, float[2] b = {{0,0}}, float[2] m = {{0,0}}, float[2] s = {{1,1}}")  # fmt: skip
    forward = in_training_mode(given, ForwardSettings()).model
    assert overridable_parameters(forward)[1] == ("v", "b")


def test_contents_in_another_file_are_not_read(tmp_path: Path) -> None:
    given = model(
        [node("Relu", "x", "a"), node("Add", "a w", "b"), node("MatMul", "b w", "y")],
        [value("x", ["n", 40])], [value("y", ["n", 40])], [weight("w", 40, 40)],
    )  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save(given, path, save_as_external_data=True, location="weights", size_threshold=0)
    (tmp_path / "weights").unlink()
    outside = onnx.load(path, load_external_data=False)
    made, names = overridable_parameters(outside)
    assert names == ("w",)
    assert made.graph.initializer[0] == outside.graph.initializer[0]


LEFT_OUT = {
    "squeezenet": set[str](),
    "nasrnn": set[str](),
    "llama-block": set[str](),
    "light-squeezenet": set[str](),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_networks_have_all_their_weights_as_parameters(name: str) -> None:
    network = zoo.build(name)
    names = overridable_parameters(network)[1]
    floats = {t.name for t in network.graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
    assert {n for n in floats - set(names) if "one" not in n} == LEFT_OUT[name]
