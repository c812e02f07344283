"""What kernels share and need beside their results, against the resident size of a process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.onnx_io import load_model
from superopt.optimizer.cost.runtime.memory_session import PROPERTY, Allocator, MemoryPlan
from superopt.optimizer.memory.liveness import liveness
from superopt.optimizer.memory.subject import measured, node_program

SHAPE = (8, 16, 64, 1024)
BYTES = 4 * int(np.prod(SHAPE))

CASES: dict[str, tuple[str, Sequence[str], dict[str, int], float]] = {
    "a function that needs memory of its own": ("Exp", ("a",), {}, 2),
    "an activation in place": ("Relu", ("a",), {}, 1),
    "a softmax of columns transposes twice": ("Softmax", ("a",), {"axis": 1}, 3),
    "a selection computes both halves": ("Where", ("positive", "a", "x"), {}, 4.25),
    "updates in place": ("ScatterElements", ("a", "places", "updates"), {}, 1),
}


@pytest.mark.parametrize(("op_type", "operands", "attributes", "tensors"), CASES.values(), ids=CASES.keys())
def test_a_kernel_needs(
    op_type: str, operands: Sequence[str], attributes: dict[str, int], tensors: float
) -> None:
    source = load_model(model_of(op_type, operands, attributes))
    predicted = liveness(node_program(source).program)
    assert predicted.peak - predicted.resident == pytest.approx(tensors * BYTES, rel=0.001)
    feeds = {"x": np.full(SHAPE, 0.5, np.float32)}
    found = measured(source, feeds, threads=1)
    if found is None:
        pytest.skip("this system does not tell the resident size of a process")
    assert abs(found.bytes - predicted.peak) < 0.4 * BYTES


def model_of(op_type: str, operands: Sequence[str], attributes: dict[str, int]) -> onnx.ModelProto:
    """A node between two others, so that both its operand and its result are computed tensors."""
    nodes = [
        *((helper.make_node("Greater", ["x", "one"], ["positive"]),) if "positive" in operands else ()),
        helper.make_node("Exp", ["x"], ["a"]),
        helper.make_node(op_type, list(operands), ["b"], **attributes),
        helper.make_node("ReduceMax", ["b"], ["y"], keepdims=0),
    ]
    arrays = {
        "one": np.float32(1),
        "places": np.zeros((1, 1, 1, 1), np.int64),
        "updates": np.ones((1, 1, 1, 1), np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "one-kernel",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ())],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    plan = MemoryPlan(limit=1, predicted=1, allocator=Allocator.SYSTEM)
    model.metadata_props.add(key=PROPERTY, value=plan.to_text())
    return model
