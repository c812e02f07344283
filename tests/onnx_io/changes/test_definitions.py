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

CONSTANTS = {
    "scale": SCALE,
    **{
        f"i{'_'.join(map(str, numbers)).replace('-', 'm')}": np.array(numbers, np.int64)
        for numbers in (
            *([0], [1], [2], [3], [-1], [-2], [-3], [1, -1], [3, 1], [2, 3], [-4, 3], [1, 4], [-1, 1]),
            *([0, 0, 1, 2, 0, 0, 2, 1], [1, 3, 0, 2], [0, 3, 1, 0], [4, 4], [9, 0], [1, 2], [1, 5]),
        )
    },
    "axis1": np.array(1, np.int64),
    "axism1": np.array(-1, np.int32),
    "axis2": np.array(2, np.int64),
    "lowest": np.array([-(2**63) + 1], np.int64),
}

NODES = [
    helper.make_node("Pad", ["x", "i0_0_1_2_0_0_2_1"], ["y"], mode="reflect"),
    helper.make_node("Pad", ["x", "i0_0_1_2_0_0_2_1"], ["y"], mode="edge"),
    helper.make_node("Pad", ["x", "i1_3_0_2", "", "i2_3"], ["y"], mode="wrap"),
    helper.make_node("Pad", ["x", "i0_3_1_0", "", "i1_m1"], ["y"], mode="edge"),
    helper.make_node("Slice", ["x", "im1", "lowest", "i3", "im1"], ["y"]),
    helper.make_node("Slice", ["x", "im1_1", "im4_3", "i3_1", "im1_1"], ["y"]),
    helper.make_node("Slice", ["x", "i1_4", "i9_0", "i1_2", "i1_m1"], ["y"]),
    helper.make_node("Slice", ["x", "im1", "i0", "i2", "im2"], ["y"]),
    helper.make_node("Trilu", ["x"], ["y"]),
    helper.make_node("Trilu", ["x", "axis1"], ["y"], upper=0),
    helper.make_node("Trilu", ["x", "axis2"], ["y"]),
    *(
        helper.make_node("CumSum", ["x", axis], ["y"], exclusive=exclusive, reverse=reverse)
        for axis in ("axis1", "axism1", "axis2")
        for exclusive in (0, 1)
        for reverse in (0, 1)
    ),
    helper.make_node("MeanVarianceNormalization", ["x"], ["y"]),
    helper.make_node("Shrink", ["x"], ["y"], bias=0.25, lambd=0.7),
    helper.make_node("CastLike", ["x", "scale"], ["y"]),
]


def model_of(node: onnx.NodeProto) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", 1, ["n", *SHAPE[1:]])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(content, name) for name, content in CONSTANTS.items() if name in node.input],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def label(node: onnx.NodeProto) -> str:
    return " ".join(
        [
            node.op_type,
            *node.input[1:],
            *(f"{a.name}={helper.get_attribute_value(a)}" for a in node.attribute),
        ]
    )


@pytest.mark.parametrize("node", NODES, ids=label)
def test_definitions_compute_the_same(node: onnx.NodeProto) -> None:
    model = model_of(node)
    defined = with_definitions(model)
    assert node.op_type not in {left.op_type for left in defined.graph.node}
    assert lift(load_model(defined), for_gradients=True).opaque == ()
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32) * 3
    (expected,) = session(model.SerializeToString()).run(None, {"x": x})
    (got,) = session(defined.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("node", NODES[:11], ids=label)
def test_numbers_of_constant_nodes_are_known(node: onnx.NodeProto) -> None:
    model = model_of(node)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    del model.graph.initializer[:]
    nodes = [
        helper.make_node("Constant", [], [name], value_ints=content.tolist())
        if content.ndim
        else helper.make_node("Constant", [], [name], value_int=int(content))
        for name, content in stored.items()
    ]
    model.graph.ClearField("node")
    model.graph.node.extend([*nodes, node])
    assert node.op_type not in {left.op_type for left in with_definitions(model).graph.node}


@pytest.mark.parametrize(("version", "is_defined"), [(3, True), (10, False)])
def test_numbers_that_callers_can_override_are_not_known(version: int, *, is_defined: bool) -> None:
    """Since IR version 4, an initialiser that is a graph input is only a default."""
    node = helper.make_node("Pad", ["x", "i0_0_1_2_0_0_2_1"], ["y"], mode="reflect")
    model = model_of(node)
    model.ir_version = version
    model.graph.input.append(helper.make_tensor_value_info(node.input[1], 7, [8]))
    assert ("Pad" not in {left.op_type for left in with_definitions(model).graph.node}) is is_defined


def test_other_models_stay_as_they_are() -> None:
    model = model_of(helper.make_node("Relu", ["x"], ["y"]))
    assert with_definitions(model) is model


def test_every_definition_is_tried() -> None:
    tried = {node.op_type for node in NODES}
    assert tried == {*STANDARD, *DEFINITIONS}
