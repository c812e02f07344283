"""Reshapes with several open sizes, as they are written, also of tensors without elements."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.ir import ElementType, Graph, Input, TensorType
from superopt.ir.dimensions import Dimension, substitute, symbol
from superopt.onnx_io import build_model
from superopt.ops.shape import Reshape
from tests.onnx_io.kit import session

N, T = symbol("n"), symbol("t")


def reshaped(own: tuple[Dimension, ...], shape: tuple[Dimension, ...], opset: int) -> bytes:
    editor = Graph.empty().edit()
    x = editor.add(Input("x", TensorType(ElementType.FLOAT, own))).value
    editor.set_outputs(editor.add(Reshape(shape), [x]).values)
    return build_model(editor.build(), {}, opset)


def sizes(shape: tuple[Dimension, ...], batch: int) -> list[int]:
    known = (substitute(size, {"n": batch, "t": 5}) for size in shape)
    return [size for size in known if isinstance(size, int)]


@pytest.mark.parametrize("opset", [7, 17])
@pytest.mark.parametrize(
    ("own", "shape", "written"),
    [
        ((N, 8, T), (N, 8, 1, T), "Unsqueeze"),
        ((N, 8, 1, T), (N, 8, T), "Squeeze"),
        ((N, T), (N, 1, 1, T), "Unsqueeze"),
        ((N, 1, T, 1), (N, T), "Squeeze"),
        ((N, 1, T), (N, 1, 1, T), "Unsqueeze"),
        ((N, T, 8), (1, N, T, 8), "Unsqueeze"),
        ((1, N, T, 8), (N, T, 8), "Squeeze"),
        ((N, 8), (N, 1, 8), "Reshape"),
        ((N, 8), (1, N, 8), "Reshape"),
        ((N, T, 8), (N, T, 2, 4), "Reshape"),
        ((N, T, 8), (N * T, 8), "Reshape"),
    ],
)
def test_an_open_batch_may_be_empty(
    own: tuple[Dimension, ...], shape: tuple[Dimension, ...], written: str, opset: int
) -> None:
    content = reshaped(own, shape, opset)
    assert [node.op_type for node in onnx.load_from_string(content).graph.node] == [written]
    for batch in (0, 3):
        x = np.arange(np.prod(sizes(own, batch)), dtype=np.float32).reshape(sizes(own, batch))
        (got,) = session(content).run(None, {"x": x})
        np.testing.assert_array_equal(got, x.reshape(sizes(shape, batch)))
