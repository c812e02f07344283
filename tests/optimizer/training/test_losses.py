"""Losses in a graph are those of PyTorch and JAX."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from superopt.domains import Array
from superopt.errors import InvalidModelError, InvalidOptionError
from superopt.ir import ElementType, Graph, TensorType, Weight
from superopt.onnx_io import build_model, lift, load_model
from superopt.ops.elementwise.activation import LogSoftmax, Softmax
from superopt.optimizer.training.losses import add_cotangents, add_loss
from superopt.optimizer.training.updates import add_updates
from superopt.step_options import LossSettings, UpdateSettings
from tests.onnx_io.kit import session
from tests.optimizer.training.kit import Shape, given, loss_of

CROSS_ENTROPY = LossSettings()


def random(*shape: int, seed: int = 0, scale: float = 3.0) -> Array:
    return np.asarray(np.random.default_rng(seed).normal(size=shape) * scale, np.float32)


def classes(shape: tuple[int, ...], count: int, ignored: float = 0.0) -> Array:
    generator = np.random.default_rng(1)
    labels = generator.integers(0, count, shape)
    return np.where(generator.random(shape) < ignored, -100, labels)


def expected(logits: Array, labels: Array, axis: int, smoothing: float = 0.0, ignored: int = -100) -> float:
    """The documented formula of ``torch.nn.functional.cross_entropy``, in float64."""
    rows = np.moveaxis(np.asarray(logits, np.float64), axis, -1).reshape(-1, logits.shape[axis])
    losses: list[float] = []
    for row, label in zip(rows, labels.reshape(-1), strict=True):
        if label == ignored:
            continue
        logarithms = row - row.max() - math.log(np.exp(row - row.max()).sum())
        losses.append(-(1 - smoothing) * logarithms[label] - smoothing * logarithms.mean())
    return float(np.mean(losses)) if losses else 0.0


SHAPES: tuple[tuple[tuple[int, ...], Shape, int], ...] = (
    ((6, 5), (6, 5), 1),
    ((6, 5), ("n", 5), 1),
    ((3, 7, 5), (3, 7, 5), 2),
    ((3, 7, 5), ("n", "t", 5), 2),
    ((2, 5, 3, 4), ("n", 5, 3, 4), 1),
    ((2, 5, 3, 4), ("n", 5, "h", "w"), 1),
    ((2, 3, 2, 1, 2), (2, 3, 2, 1, 2), 1),
    ((6, 1), ("n", 1), 1),
)


@pytest.mark.parametrize(("shape", "declared", "axis"), SHAPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("ignored", [0.0, 0.4])
def test_cross_entropy_is_that_of_pytorch(
    shape: tuple[int, ...], declared: Shape, axis: int, smoothing: float, ignored: float
) -> None:
    logits = random(*shape)
    labels = classes((*shape[:axis], *shape[axis + 1 :]), shape[axis], ignored)
    settings = LossSettings(label_smoothing=smoothing)
    loss = loss_of(settings, logits, {"labels": labels}, declared)
    assert loss.shape == ()
    np.testing.assert_allclose(loss, expected(logits, labels, axis, smoothing), rtol=1e-5, atol=1e-6)


def test_jax_agrees() -> None:
    logits, labels = random(9, 4), classes((9,), 4)
    theirs = -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(9), labels])
    np.testing.assert_allclose(loss_of(CROSS_ENTROPY, logits, {"labels": labels}), theirs, rtol=1e-6)


def test_pytorch_agrees() -> None:
    torch = pytest.importorskip("torch")
    for smoothing in (0.0, 0.2):
        logits, labels = random(2, 5, 3, 4), classes((2, 3, 4), 5, 0.3)
        theirs = torch.nn.functional.cross_entropy(
            torch.tensor(logits), torch.tensor(labels), label_smoothing=smoothing
        )
        np.testing.assert_allclose(expected(logits, labels, 1, smoothing), float(theirs), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_the_classes_may_be_along_any_axis(axis: int) -> None:
    logits = random(3, 4, 5)
    own = axis % 3
    labels = classes(tuple(np.delete(logits.shape, own)), logits.shape[own])
    loss = loss_of(LossSettings(class_axis=axis), logits, {"labels": labels})
    np.testing.assert_allclose(loss, expected(logits, labels, own), rtol=1e-5)


@pytest.mark.parametrize("ignored", [-1, 2])
def test_the_ignored_label_may_be_any_number(ignored: int) -> None:
    logits, labels = random(30, 4), classes((30,), 4)
    labels[::3] = ignored
    loss = loss_of(LossSettings(ignore_index=ignored), logits, {"labels": labels})
    np.testing.assert_allclose(loss, expected(logits, labels, 1, ignored=ignored), rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_0_where_all_labels_are_ignored(smoothing: float) -> None:
    labels = np.full((6,), -100)
    assert loss_of(LossSettings(label_smoothing=smoothing), random(6, 5), {"labels": labels}) == 0


def test_logits_of_any_size_have_a_finite_loss() -> None:
    logits = np.array([[1e4, -1e4, 0.0], [-np.inf, 0.0, 0.0]], np.float32)
    loss = loss_of(CROSS_ENTROPY, logits, {"labels": np.array([1, 2])})
    np.testing.assert_allclose(loss, (2e4 + math.log(2)) / 2, rtol=1e-6)


def test_constant_logits_have_a_finite_loss() -> None:
    editor = Graph.empty().edit()
    logits = np.array([[0, 5000]], np.float32)
    loss = add_loss(
        editor, editor.add(Weight("w", TensorType(ElementType.FLOAT, (1, 2)))).value, CROSS_ENTROPY
    )
    editor.set_outputs((loss.value,))
    model = build_model(editor.build(), {"w": logits, **loss.weights})
    assert session(model).run(None, {"labels": np.array([0])}) == [5000]


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_labels_may_be_probabilities(smoothing: float) -> None:
    logits, axis = random(2, 5, 3), 1
    targets = np.asarray(jax.nn.softmax(random(2, 5, 3, seed=1), axis))
    settings = LossSettings(label_kind="probabilities", label_smoothing=smoothing, class_axis=axis)
    spread = targets * (1 - smoothing) + smoothing / 5
    theirs = -np.mean(np.sum(spread * jax.nn.log_softmax(logits, axis), axis))
    loss = loss_of(settings, logits, {"targets": targets}, ("n", 5, "t"))
    np.testing.assert_allclose(loss, theirs, rtol=1e-5)


@pytest.mark.parametrize("declared", [(4, 3, 2), ("n", 3, "t"), ("n", "c", "t")])
@pytest.mark.parametrize(("name", "power"), [("mse", 2), ("l1", 1)])
def test_differences_are_averaged_over_all_elements(declared: Shape, name: str, power: int) -> None:
    prediction, targets = random(4, 3, 2), random(4, 3, 2, seed=1)
    loss = loss_of(LossSettings(loss=name), prediction, {"targets": targets}, declared)
    np.testing.assert_allclose(loss, np.mean(np.abs(prediction - targets) ** power), rtol=1e-6)


@pytest.mark.parametrize(
    ("element", "result", "tolerance"),
    [(ElementType.FLOAT16, np.float32, 1e-3), (ElementType.DOUBLE, np.float64, 1e-14)],
)
def test_a_loss_has_32_bits_or_more(element: ElementType, result: type, tolerance: float) -> None:
    logits, labels = random(3000, 5), classes((3000,), 5)
    loss = loss_of(CROSS_ENTROPY, logits, {"labels": labels}, element=element)
    assert loss.dtype == result
    np.testing.assert_allclose(loss, expected(logits, labels, 1), rtol=tolerance)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_an_output_with_one_element_may_be_the_loss(shape: tuple[int, ...]) -> None:
    loss = loss_of(LossSettings(loss="energy"), np.full(shape, 2.5), {})
    assert loss.shape == ()
    assert loss == 2.5


@pytest.mark.parametrize("opset", [9, 13, 21])
def test_a_loss_is_written_in_any_operator_set(opset: int) -> None:
    logits, labels = random(2, 5, 3), classes((2, 3), 5)
    settings = LossSettings(class_axis=1)
    if opset < 11:
        labels = labels.clip(0)
    loss = loss_of(settings, logits, {"labels": labels}, opset=opset)
    np.testing.assert_allclose(loss, expected(logits, labels, 1), rtol=1e-5)


def test_a_loss_is_read_back_without_opaque_nodes() -> None:
    editor = Graph.empty().edit()
    loss = add_loss(editor, given(editor, "prediction", ("n", 5, 3)), LossSettings(label_smoothing=0.1))
    editor.set_outputs((loss.value,))
    assert lift(load_model(build_model(editor.build(), loss.weights))).opaque == ()


def test_cotangents_are_inputs_of_the_type_of_outputs() -> None:
    editor = Graph.empty().edit()
    outputs = {"y": given(editor, "y", ("n", 3)), "choice": given(editor, "choice", (2,), ElementType.INT64)}
    added = add_cotangents(editor, outputs)
    assert added.inputs == ("y.cotangent",)
    assert str(editor.type_of(added.seeds["y"])) == "f32[n, 3]"
    with pytest.raises(InvalidModelError, match="an output that is a floating point tensor, got none"):
        add_cotangents(editor, {"choice": outputs["choice"]})


def test_a_loss_and_updates_may_be_in_one_graph() -> None:
    editor = Graph.empty().edit()
    value = given(editor, "w", (2, 3), ElementType.DOUBLE)
    gradient = given(editor, "g", (2, 3), ElementType.DOUBLE)
    loss = add_loss(editor, value, LossSettings(ignore_index=1))
    updates = add_updates(editor, {"w": (value, gradient)}, UpdateSettings(accumulate=3))
    editor.set_outputs((loss.value, updates.new_parameters["w"], updates.states[0].output))
    model = build_model(editor.build(), {**loss.weights, **updates.weights})
    onnx.checker.check_model(model, full_check=True)
    states = {state.input: state.initial for state in updates.states}
    feeds = {"w": np.ones((2, 3)), "g": np.ones((2, 3)), "labels": np.array([0, 1])}
    loss_value, new, step = session(model).run(None, {**feeds, **states})
    np.testing.assert_allclose(loss_value, math.log(3))
    np.testing.assert_array_equal(new, 1)
    assert step == 1


@pytest.mark.parametrize(
    ("shape", "element", "options", "message"),
    [
        ((5,), "FLOAT", {}, "cross-entropy: expected logits of rank 2 or more, got f32[5]"),
        ((4, "c"), "FLOAT", {}, "a known number of classes on axis 1 of f32[4, c], got c"),
        ((4,), "INT64", {"loss": "mse"}, "mse: expected a floating point prediction, got i64[4]"),
        ((4, 5), "FLOAT", {"class_axis": 2}, "class_axis: expected an axis of f32[4, 5], got 2"),
        (("n", 1), "FLOAT", {"loss": "energy"}, "one element, got 'energy', which is f32[n, 1]"),
        ((4, 5), "FLOAT", {"loss": "cotangents"}, "expected a loss with a value, got cotangents"),
        ((4, 5), "FLOAT", {"label_smoothing": 1.5}, "expected a number, at least 0 and at most 1, got 1.5"),
        ((4, 5), "FLOAT", {"label_kind": "soft"}, "one of classes, probabilities, got 'soft'"),
        *(
            ((4, 5), "FLOAT", {"loss": "mse", **options}, "expected the loss cross-entropy with it, got mse")
            for options in (
                {"label_smoothing": 0.1},
                {"class_axis": 1},
                {"label_kind": "probabilities"},
                {"ignore_index": 0},
            )
        ),
        (
            (4, 5),
            "FLOAT",
            {"label_kind": "probabilities", "ignore_index": 0},
            "ignore_index: expected labels classes with it, got probabilities",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    shape: Shape, element: str, options: dict[str, object], message: str
) -> None:
    editor = Graph.empty().edit()
    prediction = given(editor, "prediction", shape, ElementType(element))
    with pytest.raises((InvalidModelError, InvalidOptionError), match=re.escape(message)):
        add_loss(editor, prediction, replace(CROSS_ENTROPY, **options))  # type: ignore[arg-type]


def test_the_name_of_an_input_must_be_free() -> None:
    editor = Graph.empty().edit()
    prediction = given(editor, "labels", (4, 5))
    with pytest.raises(InvalidModelError, match="a model without a tensor named 'labels'"):
        add_loss(editor, prediction, CROSS_ENTROPY)


@pytest.mark.parametrize(
    ("operator", "said"), [(Softmax(-1), 1), (Softmax(1), 1), (Softmax(0), 0), (LogSoftmax(-1), 0)]
)
def test_the_cross_entropy_of_a_softmax_is_that_of_its_logits(operator: Softmax, said: int) -> None:
    """Along the axis of the classes; the logarithm of a softmax is its own one."""
    logits, labels = random(6, 5), classes((6,), 5)
    editor = Graph.empty().edit()
    prediction = editor.add(operator, (given(editor, "logits", ("n", 5)),)).value
    loss = add_loss(editor, prediction, CROSS_ENTROPY)
    editor.set_outputs((loss.value,))
    model = build_model(editor.build(), loss.weights, 17)
    (result,) = session(model).run(None, {"logits": logits, "labels": labels})
    along = np.exp(logits) / np.exp(logits).sum(0)
    of = along if operator == Softmax(0) else logits
    np.testing.assert_allclose(np.asarray(result), expected(of, labels, 1), rtol=1e-5)
    assert len(loss.notes) == said
