"""Reductions and normalisations of every operator set are understood, and written anew compute the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.onnx_io import lift, load_model
from tests.onnx_io.forcing import written_anew
from tests.onnx_io.kit import (
    assert_same_results,
    model,
    node,
    operators,
    session,
    tensor,
    value,
    weight,
)

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


@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceSum"])
@pytest.mark.parametrize(
    ("shape", "axis", "is_product"),
    [
        ((1, 64, 16, 16), 1, True),
        (("n", 64, 16, 16), 1, True),
        (("n", 64, "h", "w"), 1, True),
        ((1, 1, 256, 64), 2, True),
        ((1, 197, 768), 1, True),
        ((4, 64, 16, 16), 1, False),
        ((1, "c", 16, 16), 1, False),
        ((1, 64, 16, 16), 3, False),
        ((1, 64, 4, 4), 1, False),
        ((1, 65536, 1, 1), 1, False),
    ],
    ids=str,
)
def test_a_sum_before_other_axes_is_a_product(
    kind: str, shape: tuple[int | str, ...], axis: int, *, is_product: bool
) -> None:
    """Also for other sizes than those known here, and for no samples."""
    made = node(kind, "x axes", "y")
    result = [1 if place == axis else size for place, size in enumerate(shape)]
    content = model(
        [made], [value("x", list(shape))], [value("y", result)], [tensor("axes", [axis], np.int64)], opset=18
    ).SerializeToString()
    written = written_anew(content)
    assert ("MatMul" in operators(written).split()) == is_product
    (group,) = lift(load_model(content)).groups.values()
    assert group.respelled == is_product
    for samples, size in ((1, 30), (3, 16), (0, 16)):
        sizes = {"n": samples, "h": size, "w": size + 1, "c": 5}
        x = np.random.default_rng(0).normal(size=[sizes.get(s, s) for s in shape]).astype(np.float32)  # type: ignore[arg-type]
        (expected,), (got,) = (session(one).run(None, {"x": x}) for one in (content, written))
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5 * x.shape[axis] ** 0.5)
