"""Constants whose last places decide a result: they are folded as the runtime computes them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from superopt.onnx_io import lift, load_model
from superopt.onnx_io.emit.folding import fold
from tests.onnx_io.forcing import touched, written_anew
from tests.onnx_io.kit import Array, model, node, run, tensor, value

INF = float("inf")
EXACT = 2**53
COMPARISONS = ("Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual", "Max", "Min")
PAIRS = (
    pytest.param(np.array([[-INF, INF, 1, -INF, 2], [-INF, INF, 1, 3, 1]], np.float32), id="infinities"),
    pytest.param(
        np.array([[EXACT, EXACT + 1, -EXACT, 5, 7], [EXACT + 1, EXACT, -EXACT - 1, 5, 8]], np.int64),
        id="large",
    ),
    pytest.param(np.array([[1 / 3, 0.1, 0, 1e-320], [1 / 3, 0.1 + 1e-17, -0.0, 0]], np.float64), id="close"),
)


def folded_and_run(nodes: list[onnx.NodeProto], pair: Array, kind: int) -> tuple[Array, Array]:
    """What a node of the halves of a constant is folded to, and what the runtime computes."""
    halves = [node("Split", "w", "a b", axis=0), *nodes, node("Identity", "c", "y")]
    weights = [tensor("w", pair, pair.dtype.type)]
    made = model(
        halves, [value("x", [1])], [value("y", [1, pair.shape[1]], kind)], weights
    ).SerializeToString()
    lifted = lift(load_model(made))
    (content,) = fold(touched(lifted.graph), lifted.weight).values()
    (computed,) = run(made, {"x": np.ones(1, np.float32)})
    return content, np.asarray(computed)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    "op_type", ["Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual", "Max", "Min"]
)
def test_comparisons_of_constants(op_type: str, pair: Array) -> None:
    kind = {"M": onnx.helper.np_dtype_to_tensor_dtype(pair.dtype)}.get(op_type[0], TensorProto.BOOL)
    content, computed = folded_and_run([node(op_type, "a b", "c")], pair, kind)
    assert content.dtype == computed.dtype
    assert np.array_equal(content, computed)


def test_choices_of_large_integers() -> None:
    pair = np.array([[EXACT + 1, 5], [EXACT, EXACT + 3]], np.int64)
    nodes = [node("Less", "a b", "d"), node("Where", "d a b", "c")]
    content, computed = folded_and_run(nodes, pair, TensorProto.INT64)
    assert np.array_equal(content, computed)


@pytest.mark.parametrize(
    ("content", "middle"),
    [
        (np.array([[1e6, 2049, 1e-9]], np.float32), TensorProto.FLOAT16),
        (np.array([[2**24 + 1, 2**24 - 1, -7]], np.int64), TensorProto.FLOAT),
        (np.array([[1 / 3, 1e300, 0.1]], np.float64), TensorProto.FLOAT),
    ],
)
def test_conversions_of_constants_round(content: Array, middle: int) -> None:
    nodes = [node("Cast", "a", "d", to=middle), node("Cast", "d", "c", to=TensorProto.DOUBLE)]
    pair = np.concatenate([content, content])
    folded, computed = folded_and_run(nodes, pair, TensorProto.DOUBLE)
    assert np.array_equal(folded, computed)


@pytest.mark.parametrize("op_type", ["PRelu", "Pow"])
def test_numbers_of_double_precision_stay(op_type: str) -> None:
    third = tensor("s", [1 / 3 + 1e-9], np.float64)
    nodes = [node("Abs", "x", "a") if op_type == "Pow" else node("Neg", "x", "a"), node(op_type, "a s", "y")]
    kind = TensorProto.DOUBLE
    made = model(nodes, [value("x", [2], kind)], [value("y", [2], kind)], [third]).SerializeToString()
    feeds = {"x": np.array([1, 2], np.float64)}
    assert np.array_equal(run(written_anew(made), feeds)[0], run(made, feeds)[0])
