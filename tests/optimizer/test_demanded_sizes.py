"""Sizes of inputs that follow from the weights of the layers that read them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

from superopt.onnx_io import lift, load_model
from superopt.optimizer.check import declared_ports
from superopt.optimizer.check.demanded import demanded_sizes
from tests.onnx_io.kit import model, node, tensor, value, weight


def _recurrent(layout: str) -> onnx.ModelProto:
    """Frames without a batch, which a recurrent layer reads."""
    return model(
        [
            node("Identity", "x", "frames"),
            node("Unsqueeze", "frames axes", "sequence"),
            node(layout, "sequence w r", "y"),
        ],
        [value("x", ["t", "n"])],
        [value("y", None)],
        [
            weight("w", 1, {"LSTM": 20, "GRU": 15, "RNN": 5}[layout], 7),
            weight("r", 1, 20, 5),
            tensor("axes", np.asarray([1])),
        ],
    )


def _image_with_channels_last() -> onnx.ModelProto:
    return model(
        [node("Transpose", "x", "moved", perm=[0, 3, 1, 2]), node("Conv", "moved w", "y", group=2)],
        [value("x", ["n", "h", "w", "c"])],
        [value("y", None)],
        [weight("w", 4, 3, 1, 1)],
    )


def _product(before: str) -> onnx.ModelProto:
    return model(
        [node(before, "x", "h"), node("MatMul", "h w", "y")],
        [value("x", ["n", "t", "c"])],
        [value("y", None)],
        [weight("w", 9, 2)],
    )


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (_recurrent("LSTM"), {("x", 1): 7}),
        (_recurrent("GRU"), {("x", 1): 7}),
        (_recurrent("RNN"), {("x", 1): 7}),
        (_image_with_channels_last(), {("x", 3): 6}),
        (_product("Identity"), {("x", 2): 9}),
        (_product("Transpose"), {("x", 0): 9}),
        (_product("Flatten"), {}),
    ],
)
def test_sizes_are_those_of_weights(made: onnx.ModelProto, expected: Mapping[tuple[str, int], int]) -> None:
    lifted = lift(load_model(made, lambda _: ""))
    assert demanded_sizes(lifted, declared_ports(lifted)) == expected
