"""Generated weights become random ones that fit their role; everything else stays."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper, parser

from superopt.zoo import materialise

NORMALISED = """
<ir_version: {ir}, opset_import: ["" : 17]>
normalised (float[1, 64, 8, 8] x{inputs}) => (float[1, 32, 6, 6] y)
<int64[4] w_shape = {{32, 64, 3, 3}}, int64[1] channels = {{32}}>
{{
  w = ConstantOfShape <value: tensor = float[1] {{0.02}}> (w_shape)
  b = ConstantOfShape <value: tensor = float[1] {{0.02}}> (channels)
  scale = ConstantOfShape <value: tensor = float[1] {{0.02}}> (channels)
  mean = ConstantOfShape <value: tensor = float[1] {{0.02}}> (channels)
  variance = ConstantOfShape <value: tensor = float[1] {{0.02}}> (channels)
  c = Conv (x, w)
  y = BatchNormalization (c, scale, b, mean, variance)
}}
"""

OLD_INPUTS = ", int64[4] w_shape, int64[1] channels"


def normalised(ir: int) -> onnx.ModelProto:
    return parser.parse_model(NORMALISED.format(ir=ir, inputs=OLD_INPUTS if ir < 4 else ""))


def arrays(model: onnx.ModelProto) -> dict[str, NDArray[np.generic]]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


@pytest.mark.parametrize("ir", [3, 8])
def test_weights_fit_their_role(ir: int) -> None:
    model = materialise(normalised(ir))
    onnx.checker.check_model(model, full_check=True)
    weights = arrays(model)
    assert set(weights) == {"w", "b", "scale", "mean", "variance"}
    assert weights["w"].std() == pytest.approx(np.sqrt(1 / (64 * 9)), rel=0.05)
    assert np.abs(weights["b"]).max() < 0.5
    assert np.abs(weights["mean"]).max() < 0.5
    assert weights["mean"].std() > 0
    assert weights["scale"].min() > 0.5
    assert 0.5 <= weights["variance"].min() < weights["variance"].max() < 1.5
    assert [node.op_type for node in model.graph.node] == ["Conv", "BatchNormalization"]


def test_old_models_declare_their_weights_as_inputs() -> None:
    names = [value.name for value in materialise(normalised(3)).graph.input]
    assert names == ["x", "w", "b", "scale", "mean", "variance"]


def test_the_argument_is_left_alone() -> None:
    model = normalised(8)
    before = model.SerializeToString()
    materialise(model)
    assert model.SerializeToString() == before


def test_a_weight_behind_a_reshape_is_found_and_trained_leftovers_are_drawn_anew() -> None:
    model = materialise(
        parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        classifier (float[1, 16] x) => (float[1, 10] y)
        <int64[4] w_shape = {10, 16, 1, 1}, int64[2] flat = {10, 16},
         float[10] b = {100, 100, 100, 100, 100, 100, 100, 100, 100, 100}>
        {
          w = ConstantOfShape <value: tensor = float[1] {0.02}> (w_shape)
          v = Reshape (w, flat)
          y = Gemm <transB: int = 1> (x, v, b)
        }
        """)
    )
    weights = arrays(model)
    assert weights["w"].shape == (10, 16, 1, 1)
    assert weights["w"].std() == pytest.approx(0.25, rel=0.2)
    assert np.abs(weights["b"]).max() < 1
    assert weights["flat"].tolist() == [10, 16]


@pytest.mark.parametrize(
    "body",
    [
        "<int64[1] n = {4}> { z = ConstantOfShape <value: tensor = int64[1] {1}> (n) y = Tile (x, z) }",
        "{ n = Shape (x) z = ConstantOfShape (n) y = Add (x, z) }",
        "<int64[4] n = {1, 1, 1, 1}> { z = ConstantOfShape (n) y = Max (x, z) }",
        "<float[1] b = {7}> { y = Add (x, b) }",
    ],
    ids=["integers", "shape known at run time only", "not a weight", "nothing generated"],
)
def test_what_is_no_generated_weight_stays(body: str) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, 1, 1, 1] x) => (float[1, 1, 1, 1] y) {body}'
    model = parser.parse_model(text)
    assert materialise(model).SerializeToString() == model.SerializeToString()
