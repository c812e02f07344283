"""Operators of gradients mean what ONNX Runtime computes for the nodes that they are written as."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.domains.floats import FloatDomain
from superopt.errors import UnsupportedError
from superopt.ir import ElementType, Graph, Input, TensorType
from superopt.onnx_io import build_model
from superopt.ops.gradients.convolution import ConvDataGradient
from superopt.ops.gradients.pooling import MaxPoolGradient
from superopt.ops.gradients.transposes import LookupGradient
from tests.onnx_io.gradient_cases import GRADIENT_CASES, GradientCase
from tests.onnx_io.kit import session


def graph_of(case: GradientCase) -> Graph:
    editor = Graph.empty().edit()
    inputs = [
        editor.add(Input(f"x{slot}", TensorType(element_of(case, slot), shape))).value
        for slot, shape in enumerate(case.shapes)
    ]
    editor.set_outputs(editor.add(case.operator, inputs).values)
    return editor.build()


def element_of(case: GradientCase, slot: int) -> ElementType:
    return ElementType.INT64 if slot in case.indices else ElementType.FLOAT


def arrays_of(case: GradientCase) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [
        np.asarray(generator.integers(0, 5, shape), np.int64)
        if slot in case.indices
        else np.asarray(generator.normal(size=shape), np.float32)
        for slot, shape in enumerate(case.shapes)
    ]


@pytest.mark.parametrize("case", GRADIENT_CASES, ids=str)
def test_onnx_runtime_computes_what_the_operator_means(case: GradientCase) -> None:
    arrays = arrays_of(case)
    (expected,) = case.operator.evaluate(
        FloatDomain(), *(array.astype(np.float64)[np.newaxis] for array in arrays)
    )
    built = build_model(graph_of(case), {}, 18)
    onnx.checker.check_model(built, full_check=True)
    (got,) = session(built).run(None, {f"x{slot}": array for slot, array in enumerate(arrays)})
    assert got.shape == expected.shape[1:]
    np.testing.assert_allclose(got, expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [13, 21])
def test_other_operator_sets(opset: int) -> None:
    case = GradientCase(ConvDataGradient((2, 4, 7, 6), (2, 1), "same"), ((2, 6, 4, 6), (6, 4, 3, 3)))
    arrays = arrays_of(case)
    (expected,) = case.operator.evaluate(FloatDomain(), *(array[np.newaxis] for array in arrays))
    feed = dict(zip(("x0", "x1"), arrays, strict=True))
    (got,) = session(build_model(graph_of(case), {}, opset)).run(None, feed)
    np.testing.assert_allclose(got, expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "case",
    [
        GradientCase(LookupGradient(6), ((5,), (5, 3)), (0,)),
        GradientCase(MaxPoolGradient((2, 2)), ((1, 1, 4, 4), (1, 1, 3, 3))),
    ],
    ids=str,
)
def test_scatter_adds_since_operator_set_16(case: GradientCase) -> None:
    with pytest.raises(UnsupportedError, match="operator set 15 has no Scatter that adds"):
        build_model(graph_of(case), {}, 15)
