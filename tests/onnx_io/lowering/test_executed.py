"""What a graph executes does not depend on names, order or weights, and on all else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.errors import InvalidModelError
from superopt.onnx_io import Executed, executed


def model() -> onnx.ModelProto:
    """Two branches of a reshaped input, subtracted; a branch of an If."""
    branch = helper.make_graph(
        [helper.make_node("Neg", ["d"], ["n"])],
        "then",
        [],
        [helper.make_tensor_value_info("n", TensorProto.FLOAT, None)],
    )
    other = helper.make_graph(
        [helper.make_node("Abs", ["d"], ["n"])],
        "else",
        [],
        [helper.make_tensor_value_info("n", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"], name="reshape"),
        helper.make_node("Softmax", ["r"], ["a"], name="left", axis=1),
        helper.make_node("MatMul", ["r", "w"], ["b"], name="right"),
        helper.make_node("Sub", ["a", "b"], ["d"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4]),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.array([2, 8]), "shape"),
            numpy_helper.from_array(np.ones((8, 8), np.float32), "w"),
        ],
    )
    return helper.make_model(graph)


def rename(proto: onnx.ModelProto) -> None:
    for node in proto.graph.node:
        node.name = f"{node.name}_renamed"
        node.input[:] = ["q" if name == "r" else name for name in node.input]
        node.output[:] = ["q" if name == "r" else name for name in node.output]


def reorder(proto: onnx.ModelProto) -> None:
    first, second = onnx.NodeProto(), onnx.NodeProto()
    first.CopyFrom(proto.graph.node[1])
    second.CopyFrom(proto.graph.node[2])
    proto.graph.node[1].CopyFrom(second)
    proto.graph.node[2].CopyFrom(first)


def reweigh(proto: onnx.ModelProto) -> None:
    proto.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.zeros((8, 8), np.float32), "w"))


def resize(proto: onnx.ModelProto) -> None:
    proto.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.ones((8, 1), np.float32), "w"))


def reshape(proto: onnx.ModelProto) -> None:
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([8, 2]), "shape"))


def exchange(proto: onnx.ModelProto) -> None:
    proto.graph.node[3].input[:] = ["b", "a"]


def turn(proto: onnx.ModelProto) -> None:
    proto.graph.node[1].attribute[0].i = 0


def nest(proto: onnx.ModelProto) -> None:
    proto.graph.node[4].attribute[0].g.node[0].op_type = "Exp"


def relabel(proto: onnx.ModelProto) -> None:
    proto.graph.input[0].name = "data"
    proto.graph.node[0].input[0] = "data"


def grow(proto: onnx.ModelProto) -> None:
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 8


def listed(proto: onnx.ModelProto, path: Path) -> Executed:
    onnx.save(proto, path)
    return executed(path)


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        (rename, True),
        (relabel, True),
        (grow, False),
        (reorder, True),
        (reweigh, True),
        (resize, False),
        (reshape, False),
        (exchange, False),
        (turn, False),
        (nest, False),
    ],
)
def test_what_is_executed(change: Callable[[onnx.ModelProto], None], is_same: bool, tmp_path: Path) -> None:  # noqa: FBT001
    changed = model()
    change(changed)
    assert (listed(changed, tmp_path / "a.onnx") == listed(model(), tmp_path / "b.onnx")) is is_same


def test_operators_are_counted(tmp_path: Path) -> None:
    found = listed(model(), tmp_path / "model.onnx")
    inner = {"Abs": 1, "Neg": 1}
    assert found.kernels == {"Reshape": 1, "Softmax": 1, "MatMul": 1, "Sub": 1, "If": 1, **inner}
    assert found.count == 7


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("no model")
    with pytest.raises(InvalidModelError, match=r"text\.onnx is not a valid ONNX model"):
        executed(path)
