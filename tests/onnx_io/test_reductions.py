"""Reductions and normalisations of every operator set are understood, and written anew compute the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.onnx_io import lift, load_model
from tests.onnx_io.forcing import written_anew
from tests.onnx_io.kit import assert_same_results, model, node, operators, tensor, value, weight

AXES = tensor("axes", [-1, 1], np.int64)
OLD = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")

CASES: dict[str, tuple[int, onnx.NodeProto, list[onnx.TensorProto], str]] = {
    **{f"{name}, axes an attribute": (11, node(name, "x", "y", axes=[1, -1]), [], "") for name in OLD},
    **{f"{name}, axes dropped": (11, node(name, "x", "y", axes=[0], keepdims=0), [], "") for name in OLD},
    **{f"{name}, axes an operand": (18, node(name, "x axes", "y"), [AXES], "") for name in OLD},
    "all axes": (18, node("ReduceMean", "x", "y", keepdims=0), [], ""),
    "no axes": (18, node("ReduceSum", "x", "y", noop_with_empty_axes=1), [], ""),
    "negation": (17, node("Neg", "x", "y"), [], ""),
    "exponential": (17, node("Exp", "x", "y"), [], ""),
    "without a bias": (17, node("LayerNormalization", "x w", "y", epsilon=0.25), [weight("w", 4)], ""),
    "with a bias": (17, node("LayerNormalization", "x w b", "y"), [weight("w", 4), weight("b", 4)], ""),
    "several axes": (17, node("LayerNormalization", "x w", "y", axis=1), [weight("w", 3, 4)], ""),
}


def rank_of_result(single: onnx.NodeProto) -> int:
    """3, less the axes that are dropped."""
    attributes = {attribute.name: attribute for attribute in single.attribute}
    if "keepdims" not in attributes:
        return 3
    return 3 - len(attributes["axes"].ints) if "axes" in attributes else 0


@pytest.mark.parametrize(("opset", "single", "weights", "reason"), CASES.values(), ids=CASES)
def test_is_understood_and_computes_the_same(
    opset: int, single: onnx.NodeProto, weights: list[onnx.TensorProto], reason: str
) -> None:
    content = model(
        [single], [value("x", [2, 3, 4])], [value("y", [None] * rank_of_result(single))], weights, opset=opset
    ).SerializeToString()
    assert [why for _, _, why in lift(load_model(content)).opaque] == ([reason] if reason else [])
    assert_same_results(content, written_anew(content))


@pytest.mark.parametrize("name", OLD)
@pytest.mark.parametrize("opset", [11, 23])
def test_several_axes_are_reduced_at_once(name: str, opset: int) -> None:
    by_operand = opset >= (13 if name == "ReduceSum" else 18)
    made = node(name, "x axes", "y") if by_operand else node(name, "x", "y", axes=[1, -1])
    content = model(
        [made], [value("x", [2, 3, 4])], [value("y", [2, 1, 1])], [AXES] if by_operand else [], opset=opset
    ).SerializeToString()
    assert operators(written_anew(content)) == name
    assert_same_results(content, written_anew(content))
