"""Forward passes of training: dropout of every form, the inputs that it reads, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, parser

from superopt import zoo
from superopt.errors import InvalidModelError
from superopt.onnx_io import lift, load_model
from superopt.onnx_io.training.training_mode import ForwardSettings, in_training_mode
from tests.onnx_io.kit import Array, model, node, operators, run, session, tensor, value, weight
from tests.onnx_io.mask_reference import kept

OFF = ForwardSettings(dropout="off")


def dropping(opset: int, body: str, constants: str = "") -> onnx.ModelProto:
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]>\n'
        f"dropping (float[n, 8] x) => (float[n, 8] y) {constants} {{ {body} }}"
    )


COMPUTED = "r = Size(x)\n k = Cast<to = 1>(r)\n y = Dropout(x, k)"

FORMS = {
    "attribute": (dropping(7, "y = Dropout<ratio = 0.25>(x)"), 0.25),
    "default": (dropping(11, "y = Dropout(x)"), 0.5),
    "unread mask": (dropping(10, "y, m = Dropout<ratio = 0.75>(x)"), 0.75),
    "initialiser": (dropping(12, "y = Dropout(x, r)", "<float r = {0.3}>"), 0.3),
    "constant": (dropping(13, "r = Constant<value = float {0.3}>()\n y = Dropout(x, r)"), 0.3),
    "attribute of a constant": (dropping(13, "r = Constant<value_float = 0.3>()\n y = Dropout(x, r)"), 0.3),
    "training": (dropping(13, "y = Dropout(x, r, t)", "<float r = {0.1}, bool t = {1}>"), 0.1),
    "inference": (dropping(13, "y = Dropout(x, r, t)", "<float r = {0.1}, bool t = {0}>"), 0.1),
    "newest": (dropping(22, "y = Dropout(x, r)", "<float r = {0.9}>"), 0.9),
    "with a seed": (dropping(22, "y = Dropout<seed = 7>(x)"), 0.5),
}


def ones(forward: onnx.ModelProto, rows: int = 40, **counters: int) -> Array:
    feeds = {name: np.array(number, np.int64) for name, number in counters.items()}
    return run(forward.SerializeToString(), {"x": np.ones((rows, 8), np.float32), **feeds})[0]


@pytest.mark.parametrize(("given_model", "ratio"), FORMS.values(), ids=FORMS.keys())
def test_every_form_of_dropout_is_masked(given_model: onnx.ModelProto, ratio: float) -> None:
    forward = in_training_mode(given_model, ForwardSettings())
    onnx.checker.check_model(forward.model, full_check=True)
    assert forward.uses_seed
    assert forward.notes == ("1 Dropout node masked",)
    mask = kept(3, 5, 0, 320, float(np.float32(ratio))).reshape(40, 8)
    scale = np.float32(1 / (1 - float(np.float32(ratio))))
    np.testing.assert_array_equal(ones(forward.model, seed=3, step=5), np.where(mask, scale, np.float32(0)))
    assert {tensor.name for tensor in forward.model.graph.initializer}.isdisjoint({"r", "t"})


@pytest.mark.parametrize("given_model", [form for form, _ in FORMS.values()], ids=FORMS.keys())
def test_dropout_can_be_switched_off(given_model: onnx.ModelProto) -> None:
    forward = in_training_mode(given_model, OFF)
    assert not forward.uses_seed
    assert forward.notes == ("1 Dropout node switched off",)
    assert [port.name for port in forward.model.graph.input] == ["x"]
    assert "Dropout" not in operators(forward.model.SerializeToString())
    np.testing.assert_array_equal(ones(forward.model), np.ones((40, 8)))


def test_dropout_of_ratio_0_is_no_mask_but_counts_as_a_layer() -> None:
    body = "a = Dropout<ratio = 0.0>(x)\n y = Dropout(a)"
    forward = in_training_mode(dropping(9, body), ForwardSettings())
    np.testing.assert_array_equal(ones(forward.model) > 0, kept(0, 1, 1, 320, 0.5).reshape(40, 8))
    assert forward.notes == ("2 Dropout nodes masked",)
    without = in_training_mode(dropping(9, "y = Dropout<ratio = 0.0>(x)"), ForwardSettings())
    assert not without.uses_seed


@pytest.mark.parametrize("settings_", [ForwardSettings(), OFF], ids=["on", "off"])
def test_a_mask_that_is_read_is_what_was_kept(settings_: ForwardSettings) -> None:
    masked = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        "masked (float[n, 8] x) => (float[n, 8] y, bool[n, 8] m) { y, m = Dropout(x) }"
    )
    forward = in_training_mode(masked, settings_)
    y, m = run(forward.model.SerializeToString(), {"x": np.ones((6, 8), np.float32)})
    np.testing.assert_array_equal(np.asarray(y) > 0, m)
    assert np.asarray(m).all() == (settings_ is OFF)


@pytest.mark.parametrize("element", [TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_other_precisions_are_masked_in_their_own(element: int) -> None:
    given_model = model(
        [node("Dropout", "x", "y")], [value("x", [4, 8], element)], [value("y", [4, 8], element)]
    )
    forward = in_training_mode(given_model, ForwardSettings())
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    (y,) = run(forward.model.SerializeToString(), {"x": np.ones((4, 8), dtype)})
    assert np.asarray(y).dtype == dtype
    np.testing.assert_array_equal(np.asarray(y) > 0, kept(0, 1, 0, 32, 0.5).reshape(4, 8))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 4), min_size=0, max_size=5))
def test_any_shape_is_masked_in_row_major_order(shape: list[int]) -> None:
    axes = [f"d{axis}" for axis in range(len(shape))]
    forward = in_training_mode(
        model([node("Dropout", "x", "y")], [value("x", axes)], [value("y", axes)]), ForwardSettings()
    )
    x = np.ones(shape, np.float32)
    (y,) = run(forward.model.SerializeToString(), {"x": x})
    np.testing.assert_array_equal(np.asarray(y) > 0, kept(0, 1, 0, x.size, 0.5).reshape(shape))


def test_seed_and_step_are_overridable_inputs_of_the_given_names() -> None:
    forward = in_training_mode(FORMS["default"][0], ForwardSettings(step="t", seed="random"))
    ports = {
        port.name: (port.type, port.shape) for port in session(forward.model.SerializeToString()).get_inputs()
    }
    assert ports == {"x": ("tensor(float)", ["n", 8])}
    assert {port.name for port in forward.model.graph.input} == {"x", "t", "random"}
    assert (ones(forward.model, t=1, random=0) == ones(forward.model)).all()
    assert (ones(forward.model, t=2) != ones(forward.model)).any()


def test_a_step_that_the_model_has_is_read() -> None:
    counted = dropping(13, "y = Dropout(x)")
    counted.graph.input.append(value("step", [], TensorProto.INT64))
    forward = in_training_mode(counted, ForwardSettings())
    assert [port.name for port in forward.model.graph.input] == ["x", "step", "seed"]
    np.testing.assert_array_equal(ones(forward.model, step=9) > 0, kept(0, 9, 0, 320, 0.5).reshape(40, 8))


def test_the_argument_stays_as_it_is() -> None:
    network = zoo.build("mobilenet-v3")
    before = network.SerializeToString(deterministic=True)
    forward = in_training_mode(network, ForwardSettings()).model
    forward.graph.node[0].name = "changed"
    forward.graph.initializer[0].name = "changed"
    assert network.SerializeToString(deterministic=True) == before


def test_weights_in_another_file_are_not_read(tmp_path: Path) -> None:
    layers = [
        node("MatMul", "x w", "a"),
        node("Dropout", "a", "b"),
        node("BatchNormalization", "b s s m s", "y"),
    ]
    weights = [weight("w", 8, 50), tensor("s", np.ones(50)), tensor("m", np.zeros(50))]
    inside = model(layers, [value("x", ["n", 8])], [value("y", ["n", 50])], weights, opset=11)
    whole = in_training_mode(inside, ForwardSettings()).model.SerializeToString()
    path = tmp_path / "model.onnx"
    onnx.save(inside, path, save_as_external_data=True, location="weights", size_threshold=0)
    outside = onnx.load(path, load_external_data=False)
    made = in_training_mode(outside, ForwardSettings()).model
    onnx.save(made, tmp_path / "forward.onnx")
    x = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    again = onnx.load(tmp_path / "forward.onnx").SerializeToString()
    for got, expected in zip(run(again, {"x": x}), run(whole, {"x": x}), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ["light-densenet121", "light-shufflenet", "mobilenet-v3", "repvgg"])
def test_normalised_networks_lift_in_training_mode(name: str) -> None:
    forward = in_training_mode(zoo.build(name), OFF)
    assert len(forward.statistics) > 90
    assert lift(load_model(forward.model)).opaque == ()


def test_dropout_of_unknown_ratio_can_be_switched_off() -> None:
    assert not in_training_mode(dropping(13, COMPUTED), OFF).uses_seed


NESTED = parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> nested (bool c, float[2] x) => (float[2] y) {'
    "y = If(c)<then_branch = t() => (float[2] u) { u = Dropout(x) },"
    " else_branch = e() => (float[2] w) { w = Relu(x) }> }"
)


def with_input(name: str, element: int, shape: list[int]) -> onnx.ModelProto:
    made = dropping(13, "y = Dropout(x)")
    made.graph.input.append(value(name, shape, element))
    return made


@pytest.mark.parametrize(
    ("given_model", "message"),
    [
        (dropping(13, COMPUTED), "node 'y' (Dropout): expected a constant ratio, got 'k', which is computed"),
        (
            dropping(13, "y = Dropout(x, r)", "<float r = {1}>"),
            "node 'y' (Dropout): expected a ratio in [0, 1)",
        ),
        (NESTED, "node 'u' (Dropout): expected it in the main graph, got it in a subgraph or function"),
        (
            with_input("step", TensorProto.FLOAT, []),
            "input 'step': expected an int64 scalar, got FLOAT of shape",
        ),
        (
            with_input("seed", TensorProto.INT64, [2]),
            "input 'seed': expected an int64 scalar, got INT64 of shape",
        ),
        (dropping(13, "seed = Relu(x)\n y = Dropout(seed)"), "tensor 'seed': expected an int64 scalar input"),
    ],
    ids=["computed", "all", "nested", "step", "seed", "taken"],
)
def test_what_cannot_be_masked_is_named(given_model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        in_training_mode(given_model, ForwardSettings())
    assert str(caught.value).startswith(message)
