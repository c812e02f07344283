"""Sizes that are computed at run time are those that ONNX Runtime makes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.onnx_io.forcing import written_anew
from tests.onnx_io.kit import operators, run

POOLED = """(float[N,3,T] x, float[1] b) => (float[N,3,U] y, float[N,3,U] z) {
    p = MaxPool<kernel_shape = [2], strides = [2]>(x)
    s = Shape(p) e = Expand(b, s) y = Softmax<axis = 2>(e) z = Add(p, y) }"""
"""An image that is smaller than its window has one output in ONNX Runtime, not none."""


@pytest.mark.parametrize("opset", [11, 13, 17])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_an_image_smaller_than_its_window_has_one_output(opset: int, size: int) -> None:
    head = f'<ir_version: 7, opset_import: ["": {opset}]> agraph '
    model = onnx.parser.parse_model(head + POOLED).SerializeToString()
    written = written_anew(model)
    assert "Div" in operators(written), "the size is computed from that of the input"
    feeds = {"x": np.ones((2, 3, size), np.float32), "b": np.full(1, 0.5, np.float32)}
    for expected, got in zip(run(model, feeds), run(written, feeds), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
