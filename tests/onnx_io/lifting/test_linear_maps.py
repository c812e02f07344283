"""Interpolation, Fourier transforms and lookups that are written as products and copies compute the same."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest

from superopt.onnx_io import lift, load_model
from superopt.onnx_io.lifting.interpolation import COORDINATES, Interpolation
from tests.onnx_io.forcing import written_anew
from tests.onnx_io.kit import assert_same_results, model, node, operators, run, tensor, value, weight

IMAGE, VOLUME = (1, 3, 4, 6), (2, 3, 4, 3, 5)
PRODUCTS = "Reshape MatMul Reshape MatMul Reshape"


def whole(*factors: int) -> onnx.TensorProto:
    return tensor("scales", (1, 1, *factors))


def sizes(*wanted: int) -> onnx.TensorProto:
    return tensor("sizes", wanted, np.int64)


def resized(**attributes: object) -> onnx.NodeProto:
    return node("Resize", "x - scales", "y", **attributes)


def to_sizes(**attributes: object) -> onnx.NodeProto:
    return node("Resize", "x - - sizes", "y", **attributes)


Case = tuple[int, onnx.NodeProto, tuple[int, ...], list[onnx.TensorProto], str]
CASES: dict[str, Case] = {
    "cubic": (13, resized(mode="cubic"), IMAGE, [whole(2, 3)], PRODUCTS),
    "cubic to sizes": (18, to_sizes(mode="cubic"), IMAGE, [sizes(1, 3, 9, 5)], PRODUCTS),
    "cubic along one axis": (
        13,
        to_sizes(mode="cubic"),
        IMAGE,
        [sizes(1, 3, 4, 9)],
        "Reshape MatMul Reshape",
    ),
    "cubic, corners aligned": (
        13,
        to_sizes(mode="cubic", coordinate_transformation_mode="align_corners"),
        IMAGE,
        [sizes(1, 3, 1, 13)],
        PRODUCTS,
    ),
    "cubic, without the outside": (
        13,
        resized(mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5),
        IMAGE,
        [whole(2, 2)],
        PRODUCTS,
    ),
    "a sequence, linear": (
        13,
        resized(mode="linear"),
        (2, 3, 7),
        [whole(3)],
        "Reshape Resize Reshape",
    ),
    "a volume, repeated": (
        13,
        resized(mode="nearest"),
        VOLUME,
        [whole(2, 3, 1)],
        "Reshape Expand Reshape Resize Reshape",
    ),
    "a volume, linear": (
        13,
        resized(mode="linear"),
        VOLUME,
        [whole(2, 2, 2)],
        "Reshape MatMul Reshape MatMul Reshape MatMul Reshape",
    ),
    "a volume to sizes, corners aligned": (
        13,
        to_sizes(mode="linear", coordinate_transformation_mode="align_corners"),
        VOLUME,
        [sizes(2, 3, 6, 3, 2)],
        "Reshape MatMul Reshape MatMul Reshape",
    ),
    "a transform of rows": (17, node("DFT", "x", "y", axis=2), (2, 3, 12, 1), [], "Reshape MatMul Reshape"),
    "half of a spectrum": (
        20,
        node("DFT", "x", "y", onesided=1),
        (2, 3, 9, 1),
        [],
        "Reshape MatMul Reshape",
    ),
    "the inverse of complex numbers": (
        20,
        node("DFT", "x length", "y", inverse=1),
        (5, 16, 2),
        [tensor("length", 16, np.int64)],
        "Reshape MatMul Reshape",
    ),
    "sections with a window": (
        17,
        node("STFT", "x step window", "y", onesided=1),
        (2, 100),
        [tensor("step", 7, np.int64), weight("window", 20)],
        "Reshape Conv Reshape Transpose Reshape",
    ),
    "sections of a length, both halves": (
        17,
        node("STFT", "x step - length", "y", onesided=0),
        (2, 50, 1),
        [tensor("step", 10, np.int64), tensor("length", 16, np.int64)],
        "Reshape Conv Reshape Transpose Reshape",
    ),
    "elements looked up in rows": (
        13,
        node("Gather", "x at", "y", axis=1),
        (128, 300),
        [tensor("at", np.random.default_rng(0).permutation(300), np.int64)],
        "Transpose Gather Transpose",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_is_written_otherwise_and_computes_the_same(case: Case) -> None:
    *given, written = case
    content = made(*given)
    lifted = lift(load_model(content))
    assert not lifted.opaque
    assert all(group.respelled for group in lifted.groups.values())
    anew = written_anew(content)
    assert operators(anew) == written
    assert_same_results(content, anew, rtol=1e-4)


LARGE = {
    "a long transform of a power of two": (20, node("DFT", "x", "y"), (2, 1024, 1), [], "faster"),
    "a transform that is cut": (
        20,
        node("DFT", "x length", "y"),
        (2, 12, 1),
        [tensor("length", 8, np.int64)],
        "pads or cuts",
    ),
    "a transform of columns": (17, node("DFT", "x", "y", axis=1), (2, 12, 3, 1), [], "the rows"),
    "a large volume": (13, resized(mode="linear"), (1, 1, 65, 2, 2), [whole(2, 1, 1)], "faster"),
    "few elements looked up": (
        13,
        node("Gather", "x at", "y", axis=1),
        (9, 8400),
        [tensor("at", [4, 2, 0], np.int64)],
        "not positions in a row",
    ),
    "coordinates of a crop": (
        13,
        node(
            "Resize", "x box scales", "y", mode="cubic", coordinate_transformation_mode="tf_crop_and_resize"
        ),
        IMAGE,
        [whole(2, 2), tensor("box", (0, 0, 0, 0, 1, 1, 1, 1))],
        "looks for cubic pixels",
    ),
}


@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE)
def test_what_the_runtime_does_faster_stays(case: Case) -> None:
    *given, reason = case
    ((_, _, why),) = lift(load_model(made(*given))).opaque
    assert reason in why


def test_open_samples_are_resized_and_transformed() -> None:
    """Only the axes that are mapped must be known."""
    content = model(
        [resized(mode="cubic")],
        [value("x", ["n", 3, 4, 6])],
        [value("y", [None] * 4)],
        [whole(2, 2)],
        opset=13,
    ).SerializeToString()
    anew = written_anew(content)
    assert operators(anew) == PRODUCTS
    for n in (1, 3):
        assert_same_results(content, anew, rtol=1e-4, n=n)


@pytest.mark.parametrize("coordinates", sorted(COORDINATES))
@pytest.mark.parametrize("cubic", [None, -0.75], ids=["linear", "cubic"])
def test_weights_are_those_of_the_runtime(coordinates: str, cubic: float | None) -> None:
    """A Resize of the unit vectors gives them."""
    mode = "linear" if cubic is None else "cubic"
    outside = (0,) if cubic is None else (0, 1)
    for size, made_, excludes in itertools.product((1, 2, 5), (1, 3, 10), outside):
        single = to_sizes(mode=mode, coordinate_transformation_mode=coordinates, exclude_outside=excludes)
        content = made(19, single, (size, 1, size, 1), [sizes(size, 1, made_, 1)])
        (found,) = run(content, {"x": np.eye(size, dtype=np.float32).reshape(size, 1, size, 1)})
        weights = Interpolation(coordinates, cubic, excludes_outside=bool(excludes)).weights(
            size, made_, made_ / size
        )
        np.testing.assert_allclose(weights, found.reshape(size, made_), atol=1e-5)


def made(
    opset: int, single: onnx.NodeProto, shape: tuple[int, ...], constants: list[onnx.TensorProto]
) -> bytes:
    """A model of one node, whose constants are known."""
    content = model([single], [value("x", shape)], [value("y", None)], constants, opset=opset)
    return content.SerializeToString()
