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
SCALE = np.linspace(0.5, 1.5, 4, dtype=np.float32)

NODES = [
    helper.make_node("MeanVarianceNormalization", ["x"], ["y"]),
    helper.make_node("Shrink", ["x"], ["y"], bias=0.25, lambd=0.7),
    helper.make_node("CastLike", ["x", "scale"], ["y"]),
]


def model_of(node: onnx.NodeProto) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", 1, ["n", *SHAPE[1:]])],
        [helper.make_tensor_value_info("y", 1, ["n", *SHAPE[1:]])],
        [numpy_helper.from_array(SCALE, "scale")] if "scale" in node.input else [],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


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


def test_other_models_stay_as_they_are() -> None:
    model = model_of(helper.make_node("Relu", ["x"], ["y"]))
    assert with_definitions(model) is model


def test_every_definition_is_tried() -> None:
    tried = {node.op_type for node in NODES}
    assert tried == {*STANDARD, *DEFINITIONS}
