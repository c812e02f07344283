"""Transpositions that only move axes of size 1 are written as Reshape, others as Transpose."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.ir import ElementType, Graph, Input, TensorType, Weight
from superopt.ir.dimensions import Dimension, symbol
from superopt.onnx_io import build_model
from superopt.ops.elementwise.affine import BiasAdd
from superopt.ops.matrix import Matmul, Transpose
from tests.onnx_io.kit import session

N, M = symbol("n"), symbol("m")
SIZES = {N: 3, M: 4}


def f32(*shape: Dimension) -> TensorType:
    return TensorType(ElementType.FLOAT, shape)


def transposed(shape: tuple[Dimension, ...], perm: tuple[int, ...], opset: int) -> onnx.ModelProto:
    editor = Graph.empty().edit()
    x = editor.add(Input("x", f32(*shape))).value
    editor.set_outputs(editor.add(Transpose(perm), [x]).values)
    return onnx.load_from_string(build_model(editor.build(), {}, opset))


@pytest.mark.parametrize("opset", [7, 17])
@pytest.mark.parametrize(
    ("shape", "perm", "written"),
    [
        ((1, 5), (1, 0), "Reshape"),
        ((5, 1), (1, 0), "Reshape"),
        ((5, 1), (), "Reshape"),
        ((2, 1, 5), (0, 2, 1), "Reshape"),
        ((1, 2, 5, 1), (1, 3, 2, 0), "Reshape"),
        ((1, 1), (1, 0), "Reshape"),
        ((N, 5, 1), (0, 2, 1), "Reshape"),
        ((1, N, 5), (1, 0, 2), "Reshape"),
        ((2, 5), (1, 0), "Transpose"),
        ((1, 2, 5), (0, 2, 1), "Transpose"),
        ((N, 5), (1, 0), "Transpose"),
        ((1, N, M), (1, 0, 2), "Transpose"),
        ((0, 1), (1, 0), "Transpose"),
    ],
)
def test_written_as(shape: tuple[Dimension, ...], perm: tuple[int, ...], written: str, opset: int) -> None:
    model = transposed(shape, perm, opset)
    assert [node.op_type for node in model.graph.node] == [written]
    sizes = [size if isinstance(size, int) else SIZES[size] for size in shape]
    for first in (sizes[0], 0) if N in shape[:1] else (sizes[0],):
        x = np.arange(np.prod([first, *sizes[1:]]), dtype=np.float32).reshape(first, *sizes[1:])
        (got,) = session(model.SerializeToString()).run(None, {"x": x})
        np.testing.assert_array_equal(got, x.transpose(perm or None))


def test_a_row_is_reshaped_for_gemm() -> None:
    editor = Graph.empty().edit()
    x = editor.add(Input("x", f32(1, 5))).value
    w, bias = (editor.add(Weight(label, f32(*shape))).value for label, shape in (("w", (7, 5)), ("b", (1,))))
    product = editor.add(Matmul(), [w, editor.add(Transpose(), [x]).value]).value
    editor.set_outputs(editor.add(BiasAdd(1), [product, bias]).values)
    random = np.random.default_rng(0)
    weights = {
        "w": random.normal(size=(7, 5)).astype(np.float32),
        "b": random.normal(size=(1,)).astype(np.float32),
    }
    content = build_model(editor.build(), weights)
    nodes = onnx.load_from_string(content).graph.node
    assert [(node.op_type, len(node.attribute)) for node in nodes] == [("Reshape", 0), ("Gemm", 0)]
    row = random.normal(size=(1, 5)).astype(np.float32)
    (got,) = session(content).run(None, {"x": row})
    np.testing.assert_allclose(got, weights["w"] @ row.T + weights["b"], rtol=1e-5)
