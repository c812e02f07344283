"""Batch normalisation in training: statistics of the batch and updates of the running ones, against numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper, parser

from superopt.errors import InvalidModelError
from superopt.onnx_io import lift, load_model
from superopt.onnx_io.training.running_statistics import Statistic
from superopt.onnx_io.training.training_mode import ForwardSettings, in_training_mode
from tests.onnx_io.kit import (
    FLOAT,
    feeds,
    listing,
    model,
    node,
    operators,
    run,
    session,
    tensor,
    value,
    weight,
)

Reals = NDArray[np.float64]
MEAN, VARIANCE = [0.5, -1.0, 0.0], [0.5, 1.0, 2.0]
SCALE, BIAS = [1.0, -2.0, 0.5], [0.1, 0.2, 0.3]
WEIGHTS = [tensor("s", SCALE), tensor("b", BIAS), tensor("m", MEAN), tensor("v", VARIANCE)]


def normalised(shape: Sequence[int | str], opset: int = 17, **attributes: float) -> onnx.ModelProto:
    layer = node("BatchNormalization", "x s b m v", "y", **attributes)
    return model([layer], [value("x", shape)], [value("y", shape)], WEIGHTS, opset=opset)


def expected(x: Reals, momentum: float, epsilon: float, unbiased: float) -> tuple[Reals, Reals, Reals]:
    """The output, and the next running mean and variance."""
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    mean, variance = x.mean(axes), x.var(axes)
    along = [1, 3] + [1] * (x.ndim - 2)
    normal = (x - mean.reshape(along)) / np.sqrt(variance.reshape(along) + epsilon)
    return (
        normal * np.reshape(SCALE, along) + np.reshape(BIAS, along),
        momentum * np.array(MEAN) + (1 - momentum) * mean,
        momentum * np.array(VARIANCE) + (1 - momentum) * variance * unbiased,
    )


SIZES = st.lists(st.integers(1, 5), min_size=0, max_size=3)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 6), SIZES, st.sampled_from([0.9, 0.8, 0.0, 1.0]), st.data())
def test_it_is_that_of_the_definition(
    batch: int, sizes: list[int], momentum: float, draw: st.DataObject
) -> None:
    is_unbiased = draw.draw(st.booleans())
    shape = [draw.draw(st.sampled_from(["n", batch])), 3, *sizes]
    given_model = normalised(shape, momentum=momentum, epsilon=0.01)
    forward = in_training_mode(given_model, ForwardSettings(unbiased_statistics=is_unbiased))
    onnx.checker.check_model(forward.model, full_check=True)
    assert lift(load_model(forward.model)).opaque == ()
    content = forward.model.SerializeToString()
    x = np.random.default_rng(7).normal(2, 3, (batch, 3, *sizes))
    count = x.size / 3
    got = run(content, {"x": x.astype(np.float32)})
    wanted = expected(x, momentum, 0.01, count / (count - 1) if is_unbiased else 1)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)
    assert [port.name for port in session(content).get_outputs()] == ["y", "m.next", "v.next"]
    assert forward.statistics == (Statistic("m", "m", "m.next"), Statistic("v", "v", "v.next"))


def test_statistics_are_fed_back() -> None:
    content = in_training_mode(normalised(["n", 3]), ForwardSettings()).model.SerializeToString()
    given_input = feeds(content, n=4)
    assert sorted(given_input) == ["x"]
    _, mean, variance = run(content, given_input)
    _, again, _ = run(content, {**given_input, "m": mean, "v": variance})
    batch = (np.asarray(mean) - 0.9 * np.array(MEAN)) / 0.1
    np.testing.assert_allclose(again, 0.9 * np.asarray(mean) + 0.1 * batch, rtol=1e-4)


def test_the_unbiased_variance_of_one_element_is_finite() -> None:
    forward = in_training_mode(normalised(["n", 3]), ForwardSettings(unbiased_statistics=True))
    results = run(forward.model.SerializeToString(), {"x": np.ones((1, 3), np.float32)})
    assert all(np.isfinite(result).all() for result in results)


def test_the_nodes_are_plain() -> None:
    content = in_training_mode(normalised(["n", 3, 4, 4]), ForwardSettings()).model.SerializeToString()
    assert listing(content) == (
        "y.mean = ReduceMean(x, batch_axes)\n"
        "y.centred = Sub(x, y.mean)\n"
        "y.squares = Mul(y.centred, y.centred)\n"
        "y.variance = ReduceMean(y.squares, batch_axes)\n"
        "y.shifted = Add(y.variance, batch_epsilon)\n"
        "y.deviation = Sqrt(y.shifted)\n"
        "y.scale = Reshape(s, batch_shape)\n"
        "y.factor = Div(y.scale, y.deviation)\n"
        "y.scaled = Mul(y.centred, y.factor)\n"
        "y.bias = Reshape(b, batch_shape)\n"
        "y = Add(y.scaled, y.bias)\n"
        "y.batch_mean = Reshape(y.mean, batch_channels)\n"
        "y.batch_variance = Reshape(y.variance, batch_channels)\n"
        "y.batch_mean.next.kept = Mul(m, batch_momentum)\n"
        "y.batch_mean.next.added = Mul(y.batch_mean, batch_momentum_1)\n"
        "y.batch_mean.next = Add(y.batch_mean.next.kept, y.batch_mean.next.added)\n"
        "y.batch_variance.next.kept = Mul(v, batch_momentum)\n"
        "y.batch_variance.next.added = Mul(y.batch_variance, batch_momentum_1)\n"
        "y.batch_variance.next = Add(y.batch_variance.next.kept, y.batch_variance.next.added)\n"
        "m.next = Identity(y.batch_mean.next)\n"
        "v.next = Identity(y.batch_variance.next)"
    )


def test_global_and_local_statistics_are_the_same_on_one_device() -> None:
    contents = {
        in_training_mode(normalised(["n", 3]), ForwardSettings(batch_norm=mode)).model.SerializeToString()
        for mode in ("global", "local")
    }
    assert len(contents) == 1


def in_training(outputs: str, returned: Sequence[onnx.ValueInfoProto]) -> onnx.ModelProto:
    """A node exported in training mode."""
    layer = node("BatchNormalization", "x s b m v", outputs, training_mode=1)
    return model([layer], [value("x", ["n", 3])], [value("y", ["n", 3]), *returned], WEIGHTS)


def test_frozen_statistics_stay_constants() -> None:
    forward = in_training_mode(in_training("y m2 v2", []), ForwardSettings(batch_norm="frozen"))
    content = forward.model.SerializeToString()
    assert forward.statistics == ()
    assert [port.name for port in session(content).get_inputs()] == ["x"]
    x = np.random.default_rng(3).normal(size=(5, 3)).astype(np.float32)
    (got,) = run(content, {"x": x})
    wanted = (x - np.array(MEAN)) / np.sqrt(np.array(VARIANCE) + 1e-5) * SCALE + BIAS
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_outputs_of_a_node_in_training_mode_keep_their_names() -> None:
    given_model = in_training("y m2 v2", [value("m2", [3])])
    settings_of_both = (ForwardSettings(), ForwardSettings(batch_norm="frozen"))
    trained, frozen = (in_training_mode(given_model, one).model for one in settings_of_both)
    x = np.random.default_rng(3).normal(size=(5, 3)).astype(np.float32)
    reference = run(given_model.SerializeToString(), {"x": x})
    y, second, following, _ = run(trained.SerializeToString(), {"x": x})
    np.testing.assert_allclose(y, reference[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(second, reference[1], rtol=1e-5)
    np.testing.assert_array_equal(following, second)
    np.testing.assert_array_equal(run(frozen.SerializeToString(), {"x": x})[1], np.float32(MEAN))


@pytest.mark.parametrize("opset", [7, 8, 9, 13])
@pytest.mark.parametrize("outputs", ["y", "y m2 v2 m3 v3"])
def test_old_forms_are_read(opset: int, outputs: str) -> None:
    layer = node("BatchNormalization", "x s b m v", outputs, momentum=0.8)
    old = model([layer], [value("x", ["n", 3, 2])], [value("y", ["n", 3, 2])], WEIGHTS, opset=opset)
    forward = in_training_mode(old, ForwardSettings())
    x = np.random.default_rng(7).normal(2, 3, (4, 3, 2))
    for got, wanted in zip(
        run(forward.model.SerializeToString(), {"x": x.astype(np.float32)}),
        expected(x, 0.8, 1e-5, 1),
        strict=True,
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


PAIR = """
<ir_version: 8, opset_import: ["" : 17]>
pair (float[n, 2] x) => (float[n, 2] y)
<float[2] s = {{1, 1}}, float[2] s2 = {{2, 1}}, float[2] b = {{0, 0}}, float[2] m = {{0, 0}},
 float[2] v = {{1, 1}}>
{{
{}
}}
"""


def pair(body: str) -> onnx.ModelProto:
    return parser.parse_model(PAIR.format(body))


@pytest.mark.parametrize(
    ("body", "states"),
    [
        ("a = BatchNormalization(x, s, b, m, v)\n y = BatchNormalization(a, s, b, m, v)", ["m", "v"]),
        (
            "a = BatchNormalization(x, s, b, m, v)\n y = BatchNormalization(a, s2, b, m, v)",
            ["m", "v", "m_1", "v_1"],
        ),
        ("y = BatchNormalization(x, s, b, b, s)", ["b_1", "s_1"]),
        ("y = BatchNormalization(x, s, s2, v, v)", ["v", "v_1"]),
        ("k = Identity(m)\n y = BatchNormalization(x, s, b, k, v)", ["k_1", "v"]),
        (
            "k = Constant<value = float[2] {3, 4}>()\n y = BatchNormalization(x, s, b, k, v)",
            ["k_1", "v"],
        ),
    ],
    ids=["one layer twice", "two layers", "parameters too", "both", "alias", "constant"],
)
def test_layers_that_share_initialisers_have_states_of_their_own(body: str, states: list[str]) -> None:
    forward = in_training_mode(pair(body), ForwardSettings())
    onnx.checker.check_model(forward.model, full_check=True)
    assert [statistic.name for statistic in forward.statistics] == states
    content = forward.model.SerializeToString()
    stored = {t.name: numpy_helper.to_array(t) for t in pair(body).graph.initializer}
    made = {t.name: numpy_helper.to_array(t) for t in forward.model.graph.initializer}
    for name in states:
        origin = name.removesuffix("_1")
        np.testing.assert_array_equal(
            made[name], stored.get(origin, [3, 4] if "Constant" in body else [0, 0])
        )
    assert len(run(content, feeds(content, n=3))) == 1 + len(states)


def test_a_layer_that_occurs_twice_updates_its_statistics_twice() -> None:
    body = "a = BatchNormalization(x, s, b, m, v)\n c = Add(x, x)\n d = BatchNormalization(c, s, b, m, v)\n"
    forward = in_training_mode(pair(body + "y = Add(a, d)"), ForwardSettings())
    x = np.array([[1, 2], [3, 8]], np.float32)
    _, mean, _ = run(forward.model.SerializeToString(), {"x": x})
    once = 0.1 * x.mean(0)
    np.testing.assert_allclose(mean, 0.9 * once + 0.1 * 2 * x.mean(0), rtol=1e-5)


def of_type(element: int, shape: Sequence[int | str] | None = ("n", 3)) -> onnx.ModelProto:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    weights = [tensor(name, [1, 2, 3], dtype.type) for name in "sbmv"]
    layer = node("BatchNormalization", "x s b m v", "y")
    return model([layer], [value("x", shape, element)], [value("y", None, element)], weights)


COMPUTED = model(
    [node("Relu", "m", "k"), node("BatchNormalization", "x s b k v", "y")],
    [value("x", ["n", 3])], [value("y", ["n", 3])], WEIGHTS,
)  # fmt: skip

TAKEN = model(
    [node("BatchNormalization", "x s b m v", "y"), node("Relu", "x", "m.next")],
    [value("x", ["n", 3])], [value("y", ["n", 3]), value("m.next", ["n", 3])], WEIGHTS,
)  # fmt: skip


@pytest.mark.parametrize(
    ("given_model", "message"),
    [
        (of_type(TensorProto.DOUBLE), "expected float32 operands, got 'x' of DOUBLE"),
        (of_type(FLOAT, None), "expected 'x' of known rank, got tensor of unknown rank"),
        (COMPUTED, "expected running statistics that are initialisers, got 'k', which is computed or given"),
        (TAKEN, "output 'm.next': expected no output of that name"),
        (normalised(["n", 3], opset=8, spatial=0), "expected statistics per channel, got spatial=0"),
    ],
    ids=["double", "no rank", "computed", "taken", "spatial"],
)
def test_what_cannot_be_trained_is_named(given_model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        in_training_mode(given_model, ForwardSettings())
    assert message in str(caught.value)
    assert "'y' (BatchNormalization)" in str(caught.value) or "'m.next'" in message


def test_types_of_vanished_outputs_are_dropped() -> None:
    given_model = in_training("y m2 v2", [])
    given_model.graph.value_info.append(value("m2", [3]))
    forward = in_training_mode(given_model, ForwardSettings())
    assert not forward.model.graph.value_info


def test_old_running_outputs_that_are_read_are_refused() -> None:
    layer = node("BatchNormalization", "x s b m v", "y m2 v2 m3 v3")
    old = model([layer], [value("x", ["n", 3])], [value("y", ["n", 3]), value("m2", [3])], WEIGHTS, opset=9)
    with pytest.raises(InvalidModelError, match="expected running statistics that nothing reads"):
        in_training_mode(old, ForwardSettings())


def test_a_model_whose_layers_were_folded_says_so() -> None:
    layer = node("Conv", "x w", "y")
    folded = model([layer], [value("x", [1, 2, 4, 4])], [value("y", None)], [weight("w", 3, 2, 1, 1)])
    forward = in_training_mode(folded, ForwardSettings())
    assert operators(forward.model.SerializeToString()) == "Conv"
    dropout, norm = forward.notes
    assert dropout == "no Dropout node: exporters leave them out of inference exports"
    assert norm.startswith("no BatchNormalization node: an inference export folds them into convolutions")
