"""A sum that the runtime does not fuse: written as ONNX's Sum, with broadcasts where that has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from superopt.errors import UnsupportedError
from superopt.ir import ElementType, Graph, Input, TensorType, Weight
from superopt.onnx_io import build_model, executed
from superopt.ops import Operator
from superopt.ops.elementwise.arithmetic import Add, Sum
from superopt.ops.normalization import LayerNormalization
from superopt.ops.shape import Broadcast
from superopt.optimizer.cost.runtime.session import LoadedModel
from tests.onnx_io.kit import session

ROWS = (1, 3, 8)


def broadcast_sum() -> Graph:
    """The sum of rows and one row."""
    editor = Graph.empty().edit()
    x = editor.add(Input("x", TensorType(ElementType.FLOAT, ROWS))).value
    row = editor.add(Input("r", TensorType(ElementType.FLOAT, ROWS[-1:]))).value
    editor.set_outputs(editor.add(Sum(), [x, editor.add(Broadcast(ROWS), [row]).value]).values)
    return editor.build()


def test_operands_are_broadcast_by_sum_itself() -> None:
    model = build_model(broadcast_sum(), {}, 8)
    assert [node.op_type for node in onnx.load_from_string(model).graph.node] == ["Sum"]
    feeds = {"x": np.ones(ROWS, np.float32), "r": np.arange(8, dtype=np.float32)}
    (result,) = session(model).run(None, feeds)
    assert np.array_equal(result, feeds["x"] + feeds["r"])


def test_operator_set_7_broadcasts_no_sum() -> None:
    with pytest.raises(UnsupportedError, match="operator set 7 has no Expand"):
        build_model(broadcast_sum(), {}, 7)


@pytest.mark.parametrize("operator", [Add(), Sum()], ids=repr)
def test_the_runtime_fuses_a_normalisation_with_add_only(operator: Operator, tmp_path: Path) -> None:
    editor = Graph.empty().edit()
    x, y = (editor.add(Input(name, TensorType(ElementType.FLOAT, ROWS))).value for name in "xy")
    vectors = [editor.add(Weight(name, TensorType(ElementType.FLOAT, ROWS[-1:]))).value for name in "gb"]
    total = editor.add(operator, [x, y]).value
    editor.set_outputs(editor.add(LayerNormalization(), [total, *vectors]).values)
    weights = {name: np.ones(ROWS[-1:], np.float32) for name in "gb"}
    LoadedModel(build_model(editor.build(), weights), threads=1, optimized=tmp_path / "executed.onnx")
    is_fused = "com.microsoft.SkipLayerNormalization" in executed(tmp_path / "executed.onnx").kernels
    assert is_fused is (operator == Add())
