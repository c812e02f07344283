"""The oracle agrees with float64 differences, with ONNX Runtime, and with updates written out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import parser

from superopt import zoo
from superopt.domains.floats import FloatDomain
from superopt.errors import UnsupportedError
from superopt.ir.graph import Graph, Input, Weight
from superopt.onnx_io import LiftedModel, lift, load_model
from superopt.optimizer.cost.runtime.session import LoadedModel
from superopt.rewriting.evaluation import evaluate_graph
from superopt.zoo import datasets

pytest.importorskip("jax")

from tests.optimizer.training import jax_oracle

Arrays = dict[str, NDArray[np.generic]]


def lifted_network(name: str) -> tuple[LiftedModel, Arrays, Arrays]:
    """A light network for two samples, with its weights and random inputs."""
    model = zoo.build(name, batch=2)
    lifted = lift(load_model(model.SerializeToString()))
    random = np.random.default_rng(1)
    weights = {
        node.operator.label: np.asarray(lifted.weight(node.operator.label))
        for node in lifted.graph
        if isinstance(node.operator, Weight)
    }
    inputs: Arrays = {}
    for node in lifted.graph.inputs:
        operator = lifted.graph[node].operator
        assert isinstance(operator, Input)
        shape = tuple(int(size) for size in operator.type.shape)
        is_float = operator.type.element.is_float
        inputs[operator.label] = (
            random.standard_normal(shape).astype(np.float32) if is_float else random.integers(0, 90, shape)
        )
    return lifted, weights, inputs


def in_numpy(graph: Graph, arrays: Mapping[str, NDArray[np.generic]]) -> tuple[NDArray[np.float64], ...]:
    """The outputs in float64 by numpy alone."""
    stacked = {
        node.id: np.asarray(arrays[node.operator.label], np.float64)[None]
        for node in graph
        if isinstance(node.operator, (Input, Weight))
    }
    return tuple(output[0] for output in evaluate_graph(graph, FloatDomain(np.float64), stacked))


@pytest.mark.parametrize("name", ["light-mlp", "light-resnet101", "light-ncf", "light-llama"])
def test_gradients_are_the_limits_of_differences(name: str) -> None:
    """⟨gradient, v⟩ for a random v over all float inputs and weights, against a central difference."""
    lifted, weights, inputs = lifted_network(name)
    arrays = {**weights, **inputs}
    random = np.random.default_rng(2)
    wrt = [label for label, array in arrays.items() if array.dtype == np.float32 and array.size > 1]
    wrt = [label for label in wrt if not label.startswith(("attn.mask", "rotary"))]
    cotangents = [random.standard_normal(output.shape) for output in in_numpy(lifted.graph, arrays)]
    found = jax_oracle.pullback(lifted.graph, arrays, wrt, cotangents)
    ways = {label: random.standard_normal(arrays[label].shape) for label in wrt}

    def moved(step: float) -> float:
        shifted = {label: arrays[label] + step * way for label, way in ways.items()}
        outputs = in_numpy(lifted.graph, {**arrays, **shifted})
        return sum(float((output * seed).sum()) for output, seed in zip(outputs, cotangents, strict=True))

    slope = sum(float((found.gradients[label] * way).sum()) for label, way in ways.items())
    assert set(found.gradients) == set(wrt)
    assert slope == pytest.approx((moved(1e-7) - moved(-1e-7)) / 2e-7, rel=1e-5)


@pytest.mark.parametrize("name", ["light-mlp", "light-u-net", "light-transformer", "light-lstm-lm"])
def test_outputs_are_those_of_onnx_runtime(name: str) -> None:
    lifted, weights, inputs = lifted_network(name)
    found = jax_oracle.pullback(lifted.graph, {**weights, **inputs}, [], [None], "float32")
    (expected,) = LoadedModel(zoo.build(name, batch=2).SerializeToString(), threads=1).run(inputs)
    assert found.outputs[0].dtype == np.float32
    np.testing.assert_allclose(found.outputs[0], expected, rtol=1e-3, atol=1e-4)


TIES = """
<ir_version: 8, opset_import: ["" : 17]>
ties (float[1, 1, 2, 4] x) => (float[1, 1, 1, 2] pooled, float[1, 1, 2, 4] positive)
{
  pooled = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
  positive = Relu (x)
}
"""


def test_ties_have_the_derivatives_of_runtimes() -> None:
    """The first of equal elements in a window; none of relu at 0."""
    lifted = lift(load_model(parser.parse_model(TIES).SerializeToString()))
    x = np.array([[[[1, 5, 0, -2], [5, 5, 0, 0]]]], np.float32)
    pooled = jax_oracle.pullback(lifted.graph, {"x": x}, ["x"], [np.array([[[[2.0, 3.0]]]]), None])
    assert pooled.gradients["x"].tolist() == [[[[0, 2, 3, 0], [0, 0, 0, 0]]]]
    positive = jax_oracle.pullback(lifted.graph, {"x": x}, ["x"], [None, np.ones_like(x)])
    assert positive.gradients["x"].tolist() == [[[[1, 1, 0, 0], [1, 1, 0, 0]]]]


def test_what_is_not_given_is_named() -> None:
    lifted = lift(load_model(parser.parse_model(TIES).SerializeToString()))
    with pytest.raises(UnsupportedError, match="input 'x': expected an array, got none"):
        jax_oracle.pullback(lifted.graph, {}, [], [None, None])


def softmax_regression() -> onnx.ModelProto:
    model = parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 17]>
    regression (float[3, 2] x) => (float[3, 4] y)
    <float[2, 4] w = {0.1, -0.2, 0.3, 0.4, 0.5, -0.6, 0.7, 0.8}, float[4] b = {0.1, 0.2, 0.3, 0.4}>
    { z = MatMul (x, w)  y = Add (z, b) }
    """)
    onnx.checker.check_model(model)
    return model


X = np.array([[1, 2], [-1, 0.5], [0.25, -2]], np.float32)
LABELS = np.array([0, 3, 1])


def written_out(
    w: NDArray[np.float64], b: NDArray[np.float64]
) -> tuple[float, dict[str, NDArray[np.float64]]]:
    """The loss of a softmax regression and its gradients, by the textbook."""
    odds = np.exp(X.astype(np.float64) @ w + b)
    chances = odds / odds.sum(axis=1, keepdims=True)
    errors = (chances - np.eye(4)[LABELS]) / 3
    loss = -np.log(chances[np.arange(3), LABELS]).mean()
    return float(loss), {"w": X.T.astype(np.float64) @ errors, "b": errors.sum(axis=0)}


def initial() -> dict[str, NDArray[np.float64]]:
    return {
        tensor.name: onnx.numpy_helper.to_array(tensor).astype(np.float64)
        for tensor in softmax_regression().graph.initializer
    }


def test_the_gradients_of_a_model_are_those_of_the_textbook() -> None:
    found = jax_oracle.gradients(softmax_regression(), {"x": X}, LABELS)
    loss, expected = written_out(**initial())
    assert found.loss == pytest.approx(loss, rel=1e-12)
    assert set(found.gradients) == {"w", "b"}
    for name, gradient in expected.items():
        np.testing.assert_allclose(found.gradients[name], gradient, rtol=1e-12)


def test_losses_of_momentum_are_those_written_out() -> None:
    found, last = jax_oracle.losses(softmax_regression(), [({"x": X}, LABELS)] * 5, jax_oracle.sgd(0.3, 0.9))
    now, moment = initial(), {"w": 0.0, "b": 0.0}
    for loss in found:
        expected, slopes = written_out(**now)
        assert loss == pytest.approx(expected, rel=1e-12)
        moment = {name: 0.9 * moment[name] + slopes[name] for name in now}
        now = {name: now[name] - 0.3 * moment[name] for name in now}
    np.testing.assert_allclose(last["w"], now["w"], rtol=1e-12)


def test_losses_of_adamw_are_those_written_out() -> None:
    update = jax_oracle.adam(0.1, (0.9, 0.99), 1e-6, decay=0.01)
    found, last = jax_oracle.losses(softmax_regression(), [({"x": X}, LABELS)] * 5, update)
    now = initial()
    first, second = ({name: np.zeros_like(array) for name, array in now.items()} for _ in range(2))
    for number, loss in enumerate(found, start=1):
        expected, slopes = written_out(**now)
        assert loss == pytest.approx(expected, rel=1e-12)
        for name, slope in slopes.items():
            first[name] += (1 - 0.9) * (slope - first[name])
            second[name] += (1 - 0.99) * (slope**2 - second[name])
            mean, square = first[name] / (1 - 0.9**number), second[name] / (1 - 0.99**number)
            now[name] = now[name] - 0.1 * (mean / (np.sqrt(square) + 1e-6) + 0.01 * now[name])
    np.testing.assert_allclose(last["b"], now["b"], rtol=1e-12)


def test_a_class_axis_other_than_the_last_is_that_of_images() -> None:
    random = np.random.default_rng(0)
    logits, labels = random.standard_normal((2, 3, 4, 5)), random.integers(0, 3, (2, 4, 5))
    found = float(jax_oracle.cross_entropy(logits, labels, 1))
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    expected = [logs[n, labels[n, i, j], i, j] for n in range(2) for i in range(4) for j in range(5)]
    assert found == pytest.approx(-np.mean(expected), rel=1e-5)


def test_light_networks_learn_their_samples() -> None:
    """Weights are drawn such that training starts well: the loss falls from about log 10 within a few
    steps."""
    samples = datasets.digits(64)
    batches = [({"input": samples["input"]}, samples["labels"])] * 30
    found, _ = jax_oracle.losses(
        zoo.build("light-mlp", batch=64), batches, jax_oracle.adam(0.01), precision="float32"
    )
    assert found[0] < 4
    assert found[-1] < 0.5 * found[0]
