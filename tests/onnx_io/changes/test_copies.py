"""Models around a small model: copies side by side, inputs in the runtime's layout for images."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.onnx_io.changes.copies import (
    SPREAD_CHANNELS,
    TICK,
    copy_name,
    side_by_side,
    with_blocked_inputs,
)
from superopt.optimizer.cost.runtime.session import LoadedModel, profiled_model

_EQUAL_NODES_STAY = ("CommonSubexpressionElimination",)


def model(text: str) -> bytes:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}').SerializeToString()


def operators(content: bytes, feeds: dict[str, np.ndarray]) -> list[str]:
    """The kernels of a run, sorted."""
    with profiled_model(content, threads=1, without=_EQUAL_NODES_STAY) as loaded:
        loaded.run(feeds)
        (run,) = loaded.end_profile()
    return sorted(kernel.operator for kernel in run)


@pytest.mark.parametrize("shared", [(), ("x",), ("x", "w")], ids=["nothing", "input", "input and weight"])
def test_every_copy_runs_whatever_they_share(shared: tuple[str, ...]) -> None:
    product = model("(float[2,3] x) => (float[2,2] y) <float[3,2] w = {1,2,3,4,5,6}> { y = MatMul(x, w) }")
    copies = side_by_side(product, 3, shared=shared)
    x = np.ones((2, 3), np.float32)
    names = ["x"] if "x" in shared else [copy_name("x", copy) for copy in range(3)]
    feeds = {TICK: np.ones(1, np.float32), **dict.fromkeys(names, x)}
    assert operators(copies, feeds) == ["MatMul"] * 3 + ["Relu"]


def test_weights_of_copies_differ_by_little_and_settings_not_at_all() -> None:
    """Indices, and numbers by which the runtime chooses kernels, are the same in all copies."""
    numbers = list(range(1, 18))
    text = f"""(float[17] x) => (float[2] z)
               <float[17] w = {{{", ".join(map(str, numbers))}}}, float two = {{2}}, int64[2] rows = {{3, 1}}>
               {{ y = Add(x, w) square = Pow(y, two) z = Gather(square, rows) }}"""
    graph = onnx.ModelProto.FromString(side_by_side(model(text), 4)).graph
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = [arrays[copy_name("w", copy)] for copy in range(4)]
    assert len({array.tobytes() for array in weights}) == 4
    for copy in range(4):
        np.testing.assert_allclose(weights[copy], numbers, rtol=1e-6)
        assert arrays[copy_name("two", copy)] == 2
        assert arrays[copy_name("rows", copy)].tolist() == [3, 1]


def test_an_output_that_the_model_reads_stays_an_output() -> None:
    text = "(float[1,8,4,4] x) => (float[1,8,4,4] y, float[1,8,4,4] z) { y = Relu(x) z = Sqrt(y) }"
    loaded = LoadedModel(side_by_side(model(text), 2), 1)
    assert [port.name for port in loaded.outputs] == ["tock", copy_name("y", 0), copy_name("y", 1)]


def test_a_blocked_input_is_a_mean_of_few_channels_and_keeps_the_layout() -> None:
    positive = model("(float[1,32,6,6] x) => (float[1,32,6,6] y) { y = Relu(x) }")
    few = np.random.default_rng(0).normal(size=(1, SPREAD_CHANNELS, 6, 6)).astype(np.float32)
    blocked = with_blocked_inputs(positive, ["x"])
    (shares,) = (onnx.numpy_helper.to_array(t) for t in onnx.ModelProto.FromString(blocked).graph.initializer)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    (found,) = LoadedModel(blocked, 1).run({"x": few})
    made = np.einsum("nchw,kc->nkhw", few, shares[:, :, 0, 0])
    np.testing.assert_allclose(found, np.maximum(made, 0), atol=1e-6)
    assert with_blocked_inputs(positive, []) is positive
    copies = side_by_side(positive, 5, blocked=["x"])
    kernels = operators(copies, {TICK: np.ones(1, np.float32), "x": few})
    assert kernels.count("Conv") == 1
    assert kernels.count("Relu") == 5 + 1 + 1


def test_channels_of_a_blocked_input_differ_in_signs() -> None:
    """A kernel that branches would otherwise be priced on signs that a processor has learned."""
    same = model("(float[1,32,50,50] x) => (float[1,32,50,50] y) { y = Identity(x) }")
    few = np.random.default_rng(0).choice((-1.0, 1.0), (1, SPREAD_CHANNELS, 50, 50)).astype(np.float32)
    (found,) = LoadedModel(with_blocked_inputs(same, ["x"]), 1).run({"x": few})
    patterns = {np.signbit(channel).tobytes() for channel in found[0]}
    assert len(patterns) > SPREAD_CHANNELS
