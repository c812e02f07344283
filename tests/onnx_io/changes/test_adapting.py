"""Models with their functions inlined, or at another operator set, compute the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, parser

from superopt.errors import InvalidModelError
from superopt.onnx_io import LoweredModel, load_model
from superopt.onnx_io.changes.adapting import at_opset, without_functions
from tests.onnx_io.kit import assert_same_results, listing, model, node, operators, tensor, value, weight

FUNCTIONS = parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
calls (float[n,4] x) => (float[n,4] y)
<float[4] w = {1, 2, 3, 4}>
{
    a = local.twice(x)
    b = local.soft(a)
    y = Mul(b, w)
}
<domain: "local", opset_import: ["" : 17, "local" : 1]>
twice (p) => (q) { q = Add(p, p) }
<domain: "local", opset_import: ["" : 17, "local" : 1]>
soft (p) => (q)
{
    r = local.twice(p)
    q = Sigmoid(r)
}
""")

LAYER = model(
    [node("Squeeze", "x axes", "a"), node("LayerNormalization", "a s", "y", axis=-1)],
    [value("x", ["n", 1, 4])],
    [value("y", ["n", 4])],
    [tensor("axes", [1], np.int64), weight("s", 4)],
)

SQUEEZED = model(
    [node("Squeeze", "x axes", "a"), node("Softmax", "a", "y", axis=-1)],
    [value("x", ["n", 1, 4])],
    [value("y", ["n", 4])],
    [tensor("axes", [1], np.int64)],
)


def test_functions_are_inlined() -> None:
    source = load_model(FUNCTIONS)
    inlined = without_functions(source)
    content = LoweredModel.of_source(inlined, {}).to_bytes()
    assert operators(content) == "Add Add Sigmoid Mul"
    assert not onnx.ModelProto.FromString(content).functions
    assert_same_results(FUNCTIONS.SerializeToString(), content)
    assert (inlined.adapted, inlined.received) == (("inlining 2 functions",), source)
    assert inlined.sha256 == source.sha256
    assert without_functions(inlined) is inlined


@pytest.mark.parametrize("opset", [12, 13, 17, 18, 21, 24])
def test_a_model_is_converted_to_any_operator_set(opset: int) -> None:
    source = load_model(SQUEEZED)
    converted = at_opset(source, opset)
    content = LoweredModel.of_source(converted, {}).to_bytes()
    proto = onnx.ModelProto.FromString(content)
    assert [entry.version for entry in proto.opset_import] == [opset]
    assert proto.ir_version >= helper.find_min_ir_version_for(proto.opset_import)
    assert_same_results(SQUEEZED.SerializeToString(), content)
    assert (converted is source) == (opset == 17)
    assert listing(content).startswith("a = Squeeze(x)" if opset < 13 else "a = Squeeze(x, axes)")


@pytest.mark.parametrize(
    ("given", "opset", "message"),
    [
        (LAYER, 16, "node .*LayerNorm.* cannot be converted from operator set 17 to 16: .*; export .* 16$"),
        (FUNCTIONS, 18, "the model has functions, .* inline them with --inline-functions"),
        (SQUEEZED, 999, "operator set 999: expected at most [0-9]+, the newest that is known"),
    ],
)  # fmt: skip
def test_what_cannot_be_converted_is_refused(given: onnx.ModelProto, opset: int, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        at_opset(load_model(given), opset)
