"""Micrographs of data movement: layouts that exporters choose."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from superopt.zoo.micrographs.sketch import Micrograph, Sketch, drawn, kernel, pair

_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def _channels_last(*, folded: bool) -> onnx.ModelProto:
    """Two convolutions of a network that keeps channels last, each with the steps of a normalisation and a
    sum, as TensorFlow's exporter writes them."""
    sketch = Sketch()
    result = first = sketch.input(1, 56, 56, 64)
    if folded:
        result = first = sketch.node("Transpose", [first], perm=_TO_FIRST)
    for name in ("first", "second"):
        weights = kernel(name, 64, 64, 1)
        bias, mean, term = (drawn(name + of, 64) for of in ("bias", "mean", "term"))
        factor = np.abs(drawn(name + "factor", 64)) + np.float32(0.5)
        if folded:
            shift = (bias - mean) * factor + term
            result = sketch.conv(result, weights * factor[:, None, None, None], shift)
        else:
            image = sketch.node("Transpose", [result], perm=_TO_FIRST)
            result = sketch.node("Transpose", [sketch.conv(image, weights)], perm=_TO_LAST)
            steps = (("Add", bias), ("Sub", mean), ("Mul", factor), ("Add", term))
            for step, numbers in steps:
                result = sketch.node(step, [result, sketch.weight(numbers[None, None, None])])
        result = sketch.node("Relu", [sketch.node("Add", [result, first])])
    if folded:
        result = sketch.node("Transpose", [result], perm=_TO_LAST)
    return sketch.model((result, (1, 56, 56, 64)))


def _around_sequence(*, small: bool) -> onnx.ModelProto:
    """A filter of each channel of a sequence, taken for an image of one row and then of one column."""
    sketch = Sketch()
    x = sketch.input(1, 400, 128)
    weights = sketch.weight(drawn("w", 128, 1, 20, 1, fan_in=20))
    row, column = (sketch.weight(np.asarray([axis])) for axis in (1, 3))
    if small:
        image = sketch.node("Unsqueeze", [sketch.node("Transpose", [x], perm=(0, 2, 1)), column])
    else:
        image = sketch.node("Transpose", [sketch.node("Unsqueeze", [x, row])], perm=(0, 3, 2, 1))
    result = sketch.node("Conv", [image, weights], kernel_shape=(20, 1), pads=(19, 0, 0, 0), group=128)
    result = sketch.node("Add", [result, image])
    if small:
        result = sketch.node("Transpose", [sketch.node("Squeeze", [result, column])], perm=(0, 2, 1))
    else:
        result = sketch.node("Squeeze", [sketch.node("Transpose", [result], perm=(0, 3, 2, 1)), row])
    return sketch.model((result, (1, 400, 128)))


def _pixels(*, one_by_one: bool) -> onnx.ModelProto:
    """An image from channels, as at the end of networks that enlarge images."""
    sketch = Sketch()
    x = sketch.conv(sketch.input(1, 16, 96, 96), kernel("w", 12, 16, 3))
    if one_by_one:
        columns = sketch.node("Reshape", [x, sketch.weight(np.asarray([-1, 2 * 96, 96]))])
        apart = sketch.node("Transpose", [columns], perm=(0, 2, 1))
        rows = sketch.node("Reshape", [apart, sketch.weight(np.asarray([-1, 2 * 96 * 2, 96]))])
        turned = sketch.node("Transpose", [rows], perm=(0, 2, 1))
        result = sketch.node("Reshape", [turned, sketch.weight(np.asarray([1, 3, 192, 192]))])
    else:
        result = sketch.node("DepthToSpace", [x], blocksize=2, mode="CRD")
    return sketch.model((sketch.node("Sigmoid", [result]), (1, 3, 192, 192)))


WITH_HEADROOM: Mapping[str, Micrograph] = {
    "steps with channels last": pair(_channels_last, "folded"),
    "a filter of a sequence as an image": pair(_around_sequence, "small"),
    "an image from channels": pair(_pixels, "one_by_one"),
}

__all__ = ["WITH_HEADROOM"]
