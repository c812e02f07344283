"""Convolutions and poolings over one axis are those of an image of one row."""

from __future__ import annotations

from itertools import product

import onnx
import pytest

from superopt.onnx_io import lift, load_model
from tests.onnx_io.forcing import written_anew, written_as_it_was
from tests.onnx_io.kit import assert_same_results, model, node, value, weight

PADDINGS: tuple[dict[str, object], ...] = (
    {},
    {"pads": [1, 1]},
    {"pads": [0, 2]},
    {"auto_pad": "SAME_UPPER"},
    {"auto_pad": "SAME_LOWER"},
    {"auto_pad": "VALID"},
)
CONVOLUTIONS = [
    {"strides": [stride], "dilations": [dilation], **padding}
    for stride, dilation, padding in product((1, 2), (1, 2), PADDINGS)
    if dilation == 1 or padding.get("auto_pad") not in ("SAME_UPPER", "SAME_LOWER")
]
POOLINGS = [
    (name, {"kernel_shape": [3], "strides": [stride], **padding, **more})
    for stride, padding in product((1, 2), PADDINGS)
    for name, more in (
        ("MaxPool", {}),
        ("MaxPool", {"ceil_mode": 1}),
        ("AveragePool", {}),
        ("AveragePool", {"count_include_pad": 1}),
    )
    if not (more.get("ceil_mode") and "auto_pad" in padding)
]


def of(made: onnx.NodeProto, *weights: onnx.TensorProto, shape: tuple[int | str, ...] = (2, 4, 9)) -> bytes:
    return model([made], [value("x", shape)], [value("y", [None] * len(shape))], weights).SerializeToString()


def is_understood(content: bytes) -> bool:
    """Whether the model has no opaque node, and written anew computes the same."""
    assert_same_results(content, written_anew(content), rtol=1e-4)
    assert written_as_it_was(content) == content
    return not lift(load_model(content)).opaque


@pytest.mark.parametrize("attributes", CONVOLUTIONS, ids=str)
def test_a_convolution(attributes: dict[str, object]) -> None:
    for groups in (1, 2, 4):
        made = node("Conv", "x w b", "y", group=groups, **attributes)
        assert is_understood(of(made, weight("w", 8, 4 // groups, 3), weight("b", 8)))


@pytest.mark.parametrize("shape", [("n", 4, 9), (2, 4, "t"), ("n", 4, "t")])
def test_a_convolution_of_unknown_size(shape: tuple[int | str, ...]) -> None:
    made = node("Conv", "x w b", "y", strides=[2], pads=[1, 1])
    assert is_understood(of(made, weight("w", 8, 4, 3), weight("b", 8), shape=shape))


TRANSPOSED: dict[str, tuple[dict[str, list[int] | str], str]] = {
    "plain": ({}, ""),
    "strided": ({"strides": [2]}, ""),
    "margins": ({"strides": [2], "pads": [1, 2]}, ""),
    "dilated": ({"dilations": [2], "auto_pad": "VALID"}, ""),
    "kept": ({"strides": [2], "pads": [1, 1], "output_padding": [1]}, ""),
    "added": ({"strides": [2], "output_padding": [1]}, ""),
    "added and cut": ({"strides": [3], "pads": [2, 1], "output_padding": [2]}, ""),
    "sized": ({"output_shape": [11]}, "its margins follow from the size of its result"),
    "same": ({"auto_pad": "SAME_UPPER"}, "its margins follow from the size of its result"),
}


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize(("attributes", "reason"), TRANSPOSED.values(), ids=TRANSPOSED)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_transposed_convolution(
    attributes: dict[str, list[int] | str], reason: str, groups: int, axes: int
) -> None:
    several = {name: _for_axes(given, axes) for name, given in attributes.items()}
    content = of(
        node("ConvTranspose", "x w b", "y", group=groups, **several),
        weight("w", 4, 5, *[3] * axes),
        weight("b", 5 * groups),
        shape=(2, 4, *[9] * axes),
    )
    assert is_understood(content) is not bool(reason)
    assert [why for _, _, why in lift(load_model(content)).opaque] == ([reason] if reason else [])


def _for_axes(given: list[int] | str, axes: int) -> list[int] | str:
    """The attribute for so many axes; pads come as all begins, then all ends."""
    return [number for number in given for _ in range(axes)] if isinstance(given, list) else given


@pytest.mark.parametrize("shape", [("n", 4, 9), (2, 4, "t"), ("n", 4, "h", "w")])
def test_a_grouped_transposed_convolution_of_unknown_size(shape: tuple[int | str, ...]) -> None:
    made = node("ConvTranspose", "x w", "y", group=2)
    assert is_understood(of(made, weight("w", 4, 3, *[3] * (len(shape) - 2)), shape=shape))


@pytest.mark.parametrize(("name", "attributes"), POOLINGS, ids=str)
def test_a_pooling(name: str, attributes: dict[str, object]) -> None:
    assert is_understood(of(node(name, "x", "y", **attributes)))


@pytest.mark.parametrize("name", ["GlobalMaxPool", "GlobalAveragePool"])
@pytest.mark.parametrize("shape", [(2, 4, 9), (2, 4, 3, 5), (2, 4, 3, 2, 2), ("n", 4, "t")])
def test_a_global_pooling(name: str, shape: tuple[int | str, ...]) -> None:
    assert is_understood(of(node(name, "x", "y"), shape=shape))


def test_a_convolution_over_three_axes_of_few_channels_stays() -> None:
    content = of(node("Conv", "x w", "y"), weight("w", 2, 4, 2, 2, 2), shape=(1, 4, 3, 3, 3))
    ((_, _, why),) = lift(load_model(content)).opaque
    assert why == "it convolves a volume of fewer than 64 channels"
