"""Transpositions that only move axes of size 1 are written as Reshape, others as one or two Transposes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
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


TWO = "Transpose Flatten Reshape Transpose"
OPEN = "Transpose Reshape Transpose"
RESHAPED = "Transpose Flatten Reshape"


@pytest.mark.parametrize("opset", [7, 13, 21])
@pytest.mark.parametrize(
    ("shape", "perm", "written"),
    [
        ((1, 16, 20, 24), (0, 3, 2, 1), TWO),
        ((2, 16, 20, 24), (3, 0, 2, 1), TWO),
        ((16, 20, 24), (2, 1, 0), TWO),
        ((N, 16, 20, 24), (0, 3, 2, 1), TWO),
        ((1, 32, 2, 2, 14, 14), (0, 1, 4, 2, 5, 3), TWO),
        ((8, 64, 16, 4), (0, 2, 1, 3), TWO),
        ((1, 1, 128, 64), (0, 3, 2, 1), RESHAPED),
        ((1, 1, N, 64), (0, 3, 2, 1), RESHAPED),
        ((40, 1, 64), (2, 1, 0), RESHAPED),
        ((N, 16, M, 24), (0, 3, 2, 1), OPEN),
        ((N, 1, M, 24), (0, 3, 2, 1), OPEN),
        ((1, 4, 5, 6), (0, 3, 2, 1), "Transpose"),
        ((1, 64, 20, 24), (0, 2, 3, 1), "Transpose"),
        ((8, 16, 12, 20), (2, 3, 0, 1), "Transpose"),
        ((4, 20, 24, 32), (2, 1, 0, 3), "Transpose"),
        ((4, 0, 24, 32), (0, 3, 2, 1), "Transpose"),
    ],
)
def test_what_moves_several_axes_is_written_as_two(
    shape: tuple[Dimension, ...], perm: tuple[int, ...], written: str, opset: int
) -> None:
    model = transposed(shape, perm, opset)
    assert " ".join(node.op_type for node in model.graph.node) == written
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    fastest = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    sizes = [size if isinstance(size, int) else SIZES[size] for size in shape]
    for first in (sizes[0], 0) if N in shape[:1] else (sizes[0],):
        x = np.arange(np.prod([first, *sizes[1:]]), dtype=np.float32).reshape(first, *sizes[1:])
        (got,) = fastest.run(None, {"x": x})
        np.testing.assert_array_equal(got, x.transpose(perm))


@pytest.mark.parametrize("shape", [(1, 16, 20, 24), (1, 1, 128, 64)])
def test_onnx_runtime_does_not_join_the_two(shape: tuple[int, ...], tmp_path: Path) -> None:
    model, optimized = transposed(shape, (0, 3, 2, 1), 17), tmp_path / "optimized.onnx"
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(optimized)
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    kept = [node for node in onnx.load(optimized).graph.node if node.op_type == "Transpose"]
    assert [0, 3, 2, 1] not in [list(node.attribute[0].ints) for node in kept]


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
