"""Convolutions, pools and their kernels, written anew in plain numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial

import numpy as np

from tests.verifier.brute.basics import Attributes, Real, Shape, ShapeOf, ValueOf, need
from tests.verifier.brute.elementwise import power, sigmoid


def margins_of(
    size: int, kernel: int, stride: int, dilation: int, padding: object, axis: int
) -> tuple[int, int]:
    """How many elements are put before and after."""
    extent = dilation * (kernel - 1) + 1
    if isinstance(padding, tuple):
        return padding[axis], padding[axis + 2]
    if padding == "valid":
        return 0, 0
    if padding == "same":
        need(extent % 2 == 1)
        return extent // 2, extent // 2
    positions = math.ceil(size / stride)
    total = max(0, (positions - 1) * stride + extent - size)
    return (total // 2, total - total // 2) if padding == "same_upper" else (total - total // 2, total // 2)


def _positions(
    size: int, kernel: int, stride: int, dilation: int, padding: object, axis: int
) -> list[list[int]]:
    """For each position of the window the indices that it sees; those outside of the tensor are padding."""
    before, after = margins_of(size, kernel, stride, dilation, padding, axis)
    extent = dilation * (kernel - 1) + 1
    starts = range(-before, size + after - extent + 1, stride)
    need(kernel > 0 and len(starts) > 0)
    return [[start + dilation * offset for offset in range(kernel)] for start in starts]


def _window_axes(attributes: Attributes, shape: Shape, kernel: Shape) -> list[list[list[int]]]:
    stride, dilation = attributes.get("stride", (1, 1)), attributes.get("dilation", (1, 1))
    padding = attributes.get("padding", "valid")
    return [
        _positions(shape[2 + axis], kernel[axis], stride[axis], dilation[axis], padding, axis)
        for axis in range(2)
    ]


def _pool_shape(attributes: Attributes, shape: Shape) -> Shape:
    need(len(shape) == 4)
    padding, kernel = attributes.get("padding", "valid"), attributes["kernel"]
    if isinstance(padding, tuple):
        need(all(padding[side] < kernel[side % 2] for side in range(4)))
    rows, columns = _window_axes(attributes, shape, kernel)
    return (*shape[:2], len(rows), len(columns))


def _pool(attributes: Attributes, x: Real) -> Real:
    rows, columns = _window_axes(attributes, x.shape, attributes["kernel"])
    maximum = "includes_padding" not in attributes
    result = np.empty((*x.shape[:2], len(rows), len(columns)))
    for i, row in enumerate(rows):
        inner_rows = [r for r in row if 0 <= r < x.shape[2]]
        for j, column in enumerate(columns):
            inner_columns = [c for c in column if 0 <= c < x.shape[3]]
            window = x[:, :, inner_rows][:, :, :, inner_columns]
            if maximum:
                result[:, :, i, j] = window.max(axis=(2, 3))
            else:
                whole = attributes["includes_padding"]
                count = len(row) * len(column) if whole else len(inner_rows) * len(inner_columns)
                result[:, :, i, j] = window.sum(axis=(2, 3)) / count
    return result


def _average_pool(attributes: Attributes, x: Real) -> Real:
    return _pool({"includes_padding": 0, **attributes}, x)


def _conv_groups(channels: int, weight: Shape) -> int:
    outputs, per_group = weight[:2]
    need(channels % per_group == 0 and outputs % (channels // per_group) == 0)
    return channels // per_group


def conv_shape(attributes: Attributes, data: Shape, weight: Shape) -> Shape:
    need(len(data) == len(weight) == 4)
    _conv_groups(data[1], weight)
    rows, columns = _window_axes(attributes, data, weight[2:])
    return (data[0], weight[0], len(rows), len(columns))


def conv(attributes: Attributes, x: Real, w: Real) -> Real:
    n, rows, columns = (conv_shape(attributes, x.shape, w.shape)[axis] for axis in (0, 2, 3))
    groups = _conv_groups(x.shape[1], w.shape)
    stride, dilation = attributes.get("stride", (1, 1)), attributes.get("dilation", (1, 1))
    padding = attributes.get("padding", "valid")
    margins = [
        margins_of(x.shape[2 + axis], w.shape[2 + axis], stride[axis], dilation[axis], padding, axis)
        for axis in range(2)
    ]
    padded = np.pad(x, ((0, 0), (0, 0), *margins))
    result = np.zeros((n, groups, w.shape[0] // groups, rows, columns))
    for kh, kw in np.ndindex(w.shape[2:]):
        top, left = kh * dilation[0], kw * dilation[1]
        seen = padded[
            :, :, top : top + rows * stride[0] : stride[0], left : left + columns * stride[1] : stride[1]
        ]
        seen = seen[:, :, :rows, :columns].reshape(n, groups, w.shape[1], rows, columns)
        kernel = w[:, :, kh, kw].reshape(groups, w.shape[0] // groups, w.shape[1])
        result += np.einsum("ngchw,goc->ngohw", seen, kernel)
    return _ACTIVATIONS[attributes.get("activation", "none")](result.reshape(n, w.shape[0], rows, columns))


def _transposed_shape(attributes: Attributes, data: Shape, weight: Shape) -> Shape:
    need(len(data) == len(weight) == 4 and data[1] == weight[0] and min(*data, *weight) > 0)
    stride, dilation = attributes.get("stride", (1, 1)), attributes.get("dilation", (1, 1))
    margins = _cut_off(attributes, weight)
    sizes = [
        (data[2 + axis] - 1) * stride[axis]
        + (weight[2 + axis] - 1) * dilation[axis]
        + 1
        - margins[axis]
        - margins[axis + 2]
        for axis in range(2)
    ]
    need(min(sizes) > 0)
    return (data[0], weight[1], sizes[0], sizes[1])


def _cut_off(attributes: Attributes, weight: Shape) -> Shape:
    padding = attributes.get("padding", "valid")
    need(padding in ("valid", "same") or isinstance(padding, tuple))
    if padding == "same":
        reach = [d * (k - 1) for d, k in zip(attributes.get("dilation", (1, 1)), weight[2:], strict=True)]
        need(all(number % 2 == 0 for number in reach))
        return (reach[0] // 2, reach[1] // 2) * 2
    return (0, 0, 0, 0) if padding == "valid" else padding


def _transposed(attributes: Attributes, x: Real, w: Real) -> Real:
    stride, dilation = attributes.get("stride", (1, 1)), attributes.get("dilation", (1, 1))
    n, outputs, rows, columns = _transposed_shape({**attributes, "padding": "valid"}, x.shape, w.shape)
    result = np.zeros((n, outputs, rows, columns))
    for i, j in np.ndindex(x.shape[2:]):
        for kh, kw in np.ndindex(w.shape[2:]):
            row, column = i * stride[0] + kh * dilation[0], j * stride[1] + kw * dilation[1]
            result[:, :, row, column] += x[:, :, i, j] @ w[:, :, kh, kw]
    top, left, bottom, right = _cut_off(attributes, w.shape)
    return result[:, :, top : rows - bottom, left : columns - right]


_ACTIVATIONS: Mapping[object, Callable[[Real], Real]] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
}


def _enlarge_shape(attributes: Attributes, shape: Shape) -> Shape:
    need(len(shape) == 4)
    sizes = list(zip(shape[2:], attributes["kernel"], strict=True))
    need(all(new >= old and (new - old) % 2 == 0 for old, new in sizes))
    return (*shape[:2], *attributes["kernel"])


def _enlarge(attributes: Attributes, w: Real) -> Real:
    result = np.zeros(_enlarge_shape(attributes, w.shape))
    top, left = ((new - old) // 2 for old, new in zip(w.shape[2:], attributes["kernel"], strict=True))
    result[:, :, top : top + w.shape[2], left : left + w.shape[3]] = w
    return result


def _identity_kernel_shape(attributes: Attributes) -> Shape:
    need(all(size % 2 for size in attributes["kernel"]))
    return (attributes["channels"], attributes["channels"], *attributes["kernel"])


def _identity_kernel(attributes: Attributes) -> Real:
    result = np.zeros(_identity_kernel_shape(attributes))
    for channel in range(attributes["channels"]):
        result[(channel, channel, *(size // 2 for size in attributes["kernel"]))] = 1
    return result


def _neighbours(attributes: Attributes, channels: int) -> Real:
    """[channels, channels]: who is summed with whom."""
    size = attributes["size"]
    below, above = (size - 1) // 2, math.ceil((size - 1) / 2)
    return np.array([[float(-below <= j - i <= above) for j in range(channels)] for i in range(channels)])


def _band_kernel(attributes: Attributes) -> Real:
    entry = float(Fraction(attributes["alpha"]) / attributes["size"])
    return _neighbours(attributes, attributes["channels"])[:, :, None, None] * entry


def _response_shape(_: Attributes, weight: Shape, vector: Shape) -> Shape:
    need(len(weight) == 4 and len(vector) == 1)
    _conv_groups(vector[0], weight)
    return (weight[0],)


def _response(_: Attributes, weight: Real, vector: Real) -> Real:
    outputs_per_group = weight.shape[0] // _conv_groups(len(vector), weight.shape)
    kernel = weight.sum(axis=(2, 3))
    starts = [o // outputs_per_group * weight.shape[1] for o in range(weight.shape[0])]
    return np.array([kernel[o] @ vector[s : s + weight.shape[1]] for o, s in enumerate(starts)])


def _lrn(attributes: Attributes, x: Real) -> Real:
    alpha, beta = attributes.get("alpha", Fraction(1, 10000)), attributes.get("beta", Fraction(3, 4))
    sums = np.einsum("ij,njhw->nihw", _neighbours(attributes, x.shape[1]), x**2)
    base = float(attributes.get("bias", 1)) + float(Fraction(alpha) / attributes["size"]) * sums
    return x / power({"exponent": beta}, base)


def _image(_: Attributes, shape: Shape) -> Shape:
    need(len(shape) == 4)
    return shape


def _backwards(_: Attributes, w: Real) -> Real:
    result = np.empty_like(w)
    for row, column in np.ndindex(w.shape[2:]):
        result[:, :, row, column] = w[:, :, w.shape[2] - 1 - row, w.shape[3] - 1 - column]
    return result


def _larger_shape(attributes: Attributes, shape: Shape) -> Shape:
    need(len(shape) == 4)
    rows, columns = attributes["stride"]
    return (*shape[:2], shape[2] * rows, shape[3] * columns)


def _repeated(attributes: Attributes, x: Real) -> Real:
    rows, columns = attributes["stride"]
    return np.repeat(np.repeat(x, rows, axis=2), columns, axis=3)


def _line(places: Real, line: Real) -> Real:
    return np.interp(places, np.arange(len(line)), line)


def _interpolated(attributes: Attributes, x: Real) -> Real:
    for axis, factor in zip((2, 3), attributes["stride"], strict=True):
        size = x.shape[axis]
        places = (np.arange(factor * size) + 0.5) / factor - 0.5
        x = np.apply_along_axis(partial(_line, places), axis, x)
    return x


SHAPES: Mapping[str, ShapeOf] = {
    "conv": conv_shape,
    "conv_transpose": _transposed_shape,
    "enlarge": _enlarge_shape,
    "flip": _image,
    "avgpool_kernel": lambda a: (a["channels"], 1, *a["kernel"]),
    "identity_kernel": _identity_kernel_shape,
    "band_kernel": lambda a: (a["channels"], a["channels"], 1, 1),
    "kernel_response": _response_shape,
    "lrn": _image,
    **dict.fromkeys(("maxpool", "avgpool"), _pool_shape),
    "global_avgpool": lambda a, s: (*_image(a, s)[:2], 1, 1),
    **dict.fromkeys(("upsample_nearest", "upsample_linear"), _larger_shape),
}

VALUES: Mapping[str, ValueOf] = {
    "conv": conv,
    "conv_transpose": _transposed,
    "enlarge": _enlarge,
    "flip": _backwards,
    "avgpool_kernel": lambda a: np.full((a["channels"], 1, *a["kernel"]), 1 / math.prod(a["kernel"])),
    "identity_kernel": _identity_kernel,
    "band_kernel": _band_kernel,
    "kernel_response": _response,
    "lrn": _lrn,
    "maxpool": _pool,
    "avgpool": _average_pool,
    "global_avgpool": lambda _, x: x.mean(axis=(2, 3), keepdims=True),
    "upsample_nearest": _repeated,
    "upsample_linear": _interpolated,
}
