"""A convolution is computed by a bilinear algorithm where that is measured to be faster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import superopt
from benchmarks.models.bilinear_layers import Layer, write_layers


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half the multiplications of this layer are worth much more than what their transforms cost."""
    path = tmp_path_factory.mktemp("layer") / "layer.onnx"
    write_layers([Layer("", 256, 256, (28, 28), (3, 3))], path)
    return path


def test_a_layer_has_fewer_multiplications_and_nearly_the_same_values(layer: Path) -> None:
    result = superopt.optimize(layer, threads=1, budget=60, max_candidates=300)
    report = result.report.to_json()
    assert report["returned"] == "optimized"
    assert len([step for step in report["trace"] if "bilinear_conv" in step["equation"]]) == 1
    before, after = (report["inventory"][when]["flops"] for when in ("before", "after"))
    assert after < 0.6 * before
    image = np.random.default_rng(1).standard_normal((1, 256, 28, 28)).astype(np.float32)
    expected, got = (
        np.asarray(onnxruntime.InferenceSession(model).run(None, {"x": image})[0])
        for model in (layer.read_bytes(), result.model.SerializeToString())
    )
    assert 0 < np.abs(expected - got).max() < 2e-5 * np.abs(expected).max()


def test_images_of_open_sizes_are_convolved_so_too(layer: Path) -> None:
    model = onnx.load(layer)
    for value in (*model.graph.input, *model.graph.output):
        for axis, name in ((0, "n"), (2, "h"), (3, "w")):
            value.type.tensor_type.shape.dim[axis].dim_param = name
    result = superopt.optimize(
        model, dims={"n": 1, "h": 28, "w": 28}, threads=1, budget=60, max_candidates=300
    )
    assert len([step for step in result.report.trace if "bilinear_conv" in step.equation]) == 1
    sessions = [onnxruntime.InferenceSession(m.SerializeToString()) for m in (model, result.model)]
    for samples, height, width in [(1, 28, 28), (2, 31, 26), (1, 1, 3), (0, 28, 28)]:
        image = np.random.default_rng(1).standard_normal((samples, 256, height, width)).astype(np.float32)
        expected, got = (np.asarray(session.run(None, {"x": image})[0]) for session in sessions)
        assert expected.shape == got.shape
        assert np.abs(expected - got).max(initial=0) <= 2e-5 * np.abs(expected).max(initial=0)


@pytest.mark.parametrize("dilation", [1, 3])
def test_a_long_filter_is_computed_in_parts(tmp_path: Path, dilation: int) -> None:
    path = tmp_path / "sequence.onnx"
    write_layers([Layer("", 192, 192, (1500,), (11,))], path)
    model = onnx.load(path)
    (pads,) = [each for each in model.graph.node[0].attribute if each.name == "pads"]
    pads.ints[:] = [5 * dilation] * 2
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("dilations", [dilation]))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[2].dim_param = "t"
    result = superopt.optimize(model, dims={"t": 1500}, threads=1, budget=60, max_candidates=300)
    (equation,) = [step.equation for step in result.report.trace if "bilinear_conv" in step.equation]
    assert "zeros=(0, " in equation
    sessions = [onnxruntime.InferenceSession(m.SerializeToString()) for m in (model, result.model)]
    for length in (1500, 1, 2, 703):
        sequence = np.random.default_rng(1).standard_normal((1, 192, length)).astype(np.float32)
        expected, got = (np.asarray(session.run(None, {"x": sequence})[0]) for session in sessions)
        assert expected.shape == got.shape
        assert np.abs(expected - got).max() < 5e-5 * np.abs(expected).max()


def test_a_volume_is_convolved_by_slices_with_fewer_multiplications(tmp_path: Path) -> None:
    path = tmp_path / "volume.onnx"
    write_layers([Layer("", 128, 128, (8, 24, 24), (3, 3, 3))], path)
    result = superopt.optimize(path, threads=1, budget=60, max_candidates=300)
    assert len([step for step in result.report.trace if "bilinear_conv" in step.equation]) == 1
    volume = np.random.default_rng(1).standard_normal((1, 128, 8, 24, 24)).astype(np.float32)
    expected, got = (
        np.asarray(onnxruntime.InferenceSession(model).run(None, {"x": volume})[0])
        for model in (path.read_bytes(), result.model.SerializeToString())
    )
    assert expected.shape == got.shape
    assert 0 < np.abs(expected - got).max() < 2e-5 * np.abs(expected).max()


def test_exact_rounding_leaves_these_algorithms_out(layer: Path) -> None:
    result = superopt.optimize(layer, threads=1, budget=60, max_candidates=300, exact_rounding=True)
    assert "bilinear_conv" not in str(result.report.to_json()["trace"])
