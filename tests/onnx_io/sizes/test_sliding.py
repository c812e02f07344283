"""Sizes of what windows make are those that ONNX infers from numbers, for every length."""

from __future__ import annotations

from itertools import product

import onnx
import pytest

from superopt.ir import ElementType, TensorType, symbol
from superopt.ir.dimensions import substitute
from superopt.onnx_io.sizes.sliding import slid
from tests.onnx_io.kit import model, node, value, weight

WINDOWS = [
    {"strides": [stride], "dilations": [dilation], **padding}
    for stride, dilation, padding in product(
        (1, 2, 3),
        (1, 2),
        ({}, {"pads": [1, 1]}, {"pads": [0, 2]}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "VALID"}),
    )
]


def inferred(made: onnx.NodeProto, length: int) -> list[int]:
    """The shape that ONNX infers for ``y``."""
    ports = [value("x", [2, 4, length])], [value("y", [2, "c", "l"])]
    found = onnx.shape_inference.infer_shapes(model([made], *ports, [weight("w", 6, 4, 3)]), strict_mode=True)
    return [dimension.dim_value for dimension in found.graph.output[0].type.tensor_type.shape.dim]


@pytest.mark.parametrize("attributes", WINDOWS, ids=str)
@pytest.mark.parametrize("operator", ["Conv", "MaxPool"])
def test_sizes_are_those_of_onnx(operator: str, attributes: dict[str, object]) -> None:
    kernel = {} if operator == "Conv" else {"kernel_shape": [3]}
    made = node(operator, "x w" if operator == "Conv" else "x", "y", **attributes, **kernel)
    data = TensorType(ElementType.FLOAT, (2, 4, symbol("t")))
    own = slid(made, (data, TensorType(ElementType.FLOAT, (6, 4, 3))))
    assert own is not None
    for length in range(6, 15):
        at = [size if isinstance(size, int) else substitute(size, {"t": length}) for size in own.shape]
        assert at == inferred(made, length)


@pytest.mark.parametrize(
    "made",
    [
        node("MaxPool", "x", "y", kernel_shape=[3], ceil_mode=1),
        node("Conv", "x w", "y", pads=[-1, 0]),
        node("Conv", "x w", "y", strides=[1, 1]),
        node("Conv", "x w", "y", domain="com.microsoft"),
        node("Relu", "x", "y"),
    ],
    ids=lambda made: made.op_type,
)
def test_what_is_not_certain_is_left_to_onnx(made: onnx.NodeProto) -> None:
    operands = [TensorType(ElementType.FLOAT, shape) for shape in ((2, 4, symbol("t")), (6, 4, 3))]
    assert slid(made, operands) is None
