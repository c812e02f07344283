"""Definitions of operators by simpler ones compute the same, and leave nothing opaque."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from superopt.onnx_io import lift, load_model
from superopt.onnx_io.changes.definitions import DEFINITIONS, STANDARD, with_definitions
from tests.onnx_io.kit import session

SHAPE = (2, 4, 3, 5)
VECTORS = {name: np.linspace(low, 1.5, 4, dtype=np.float32) for name, low in (("scale", 0.5), ("shift", -1))}

NODES = [
    *(
        helper.make_node(name, ["x"], ["y"])
        for name in (
            "Celu",
            "Elu",
            "MeanVarianceNormalization",
            "Mish",
            "Selu",
            "Shrink",
            "Softplus",
            "Softsign",
        )
    ),
    helper.make_node("Elu", ["x"], ["y"], alpha=0.3),
    helper.make_node("ThresholdedRelu", ["x"], ["y"], alpha=0.7),
    *(
        helper.make_node(name, ["x", "axes"], ["y"], keepdims=keep)
        for name in ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare")
        for keep in (0, 1)
    ),
    helper.make_node("InstanceNormalization", ["x", "scale", "shift"], ["y"], epsilon=0.25),
    helper.make_node("GroupNormalization", ["x", "scale", "shift"], ["y"], num_groups=2),
    helper.make_node("CastLike", ["x", "scale"], ["y"]),
    helper.make_node("Mean", ["x", "x", "scale_of_columns"], ["y"]),
]


def model_of(node: onnx.NodeProto) -> onnx.ModelProto:
    weights = {
        **VECTORS,
        "axes": np.array([1, 3]),
        "scale_of_columns": np.linspace(-1, 1, SHAPE[-1], dtype=np.float32),
    }
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", 1, ["n", *SHAPE[1:]])],
        [helper.make_tensor_value_info("y", 1, ["n", *result_of(node)])],
        [numpy_helper.from_array(array, name) for name, array in weights.items() if name in node.input],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def result_of(node: onnx.NodeProto) -> tuple[int, ...]:
    """The sizes of the result but the first."""
    if not node.op_type.startswith("Reduce"):
        return SHAPE[1:]
    keeps = helper.get_node_attr_value(node, "keepdims")
    return (1, SHAPE[2], 1) if keeps else (SHAPE[2],)


def label(node: onnx.NodeProto) -> str:
    return " ".join([node.op_type, *(f"{a.name}={helper.get_attribute_value(a)}" for a in node.attribute)])


@pytest.mark.parametrize("node", NODES, ids=label)
def test_definitions_compute_the_same(node: onnx.NodeProto) -> None:
    model = model_of(node)
    defined = with_definitions(model)
    assert lift(load_model(defined)).opaque == ()
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32) * 3
    (expected,) = session(model.SerializeToString()).run(None, {"x": x})
    (got,) = session(defined.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_softplus_does_not_overflow() -> None:
    defined = with_definitions(model_of(helper.make_node("Softplus", ["x"], ["y"])))
    x = np.zeros(SHAPE, np.float32)
    x[..., 0], x[..., 1] = 1000, -1000
    (got,) = session(defined.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(got[..., 0], 1000)
    np.testing.assert_array_equal(got[..., 1], 0)


def test_other_models_stay_as_they_are() -> None:
    model = model_of(helper.make_node("Relu", ["x"], ["y"]))
    assert with_definitions(model) is model


def test_every_definition_is_tried() -> None:
    tried = {node.op_type for node in NODES}
    assert tried | {"ReduceLogSum"} == {*STANDARD, *DEFINITIONS}
