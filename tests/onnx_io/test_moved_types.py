"""Tensors of every element type are moved, cut and joined, and written anew give the same results."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.onnx_io import lift, load_model
from tests.onnx_io.forcing import written_anew
from tests.onnx_io.kit import model, node, run, tensor, value

DTYPES = {
    onnx.TensorProto.BOOL: np.bool_,
    onnx.TensorProto.INT8: np.int8,
    onnx.TensorProto.UINT8: np.uint8,
    onnx.TensorProto.INT32: np.int32,
    onnx.TensorProto.INT64: np.int64,
    onnx.TensorProto.DOUBLE: np.float64,
}
NODES = [
    node("Transpose", "x", "t", perm=[1, 0]),
    node("Reshape", "t s", "r"),
    node("Slice", "r one three zero", "p"),
    node("Gather", "p first", "g", axis=1),
    node("Unsqueeze", "g zero", "u"),
    node("Expand", "u wide", "e"),
    node("Concat", "e e", "c", axis=0),
    node("Split", "c", "left right", axis=1),
    node("Concat", "left right", "y", axis=1),
]
WEIGHTS = {
    "s": [4, 6],
    "zero": [0],
    "one": [1],
    "three": [3],
    "first": [0, 1, 2, 3],
    "wide": [3, 2, 4],
}


@pytest.mark.parametrize("element", DTYPES)
def test_elements_of_any_type_are_moved(element: int) -> None:
    weights = [tensor(name, content, np.int64) for name, content in WEIGHTS.items()]
    content = model(
        NODES, [value("x", [6, 4], element)], [value("y", [None] * 3, element)], weights
    ).SerializeToString()
    lifted = lift(load_model(content))
    assert lifted.opaque == ()
    given = {"x": (np.arange(24) % 7 - 2).reshape(6, 4).astype(DTYPES[element])}
    for expected, got in zip(run(content, given), run(written_anew(content), given), strict=True):
        assert np.asarray(got).dtype == np.asarray(expected).dtype
        np.testing.assert_array_equal(got, expected)


def test_text_stays_as_it_is() -> None:
    content = model(
        [node("Reshape", "x s", "y")],
        [value("x", [4], onnx.TensorProto.STRING)],
        [value("y", [2, 2], onnx.TensorProto.STRING)],
        [tensor("s", [2, 2], np.int64)],
    ).SerializeToString()
    assert lift(load_model(content)).opaque == (("y", "Reshape", "string operands stay as they are"),)
