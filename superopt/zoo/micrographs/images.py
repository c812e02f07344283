"""Micrographs of image networks: convolutions, pooling and normalisation."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx

from superopt.zoo.micrographs.sketch import Array, Micrograph, Sketch, drawn, kernel, padded, pair


def _composed_points(*, composed: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(1, 64, 28, 28)
    first, second = kernel("first", 256, 64, 1), kernel("second", 64, 256, 1)
    if composed:
        product = (second[:, :, 0, 0] @ first[:, :, 0, 0])[:, :, None, None]
        result = sketch.conv(x, np.ascontiguousarray(product))
    else:
        result = sketch.conv(sketch.conv(x, first), second)
    return sketch.model((result, (1, 64, 28, 28)))


def _subsampled(*, strided: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(1, 128, 28, 28)
    weights = kernel("w", 128, 128, 1)
    if strided:
        result = sketch.conv(x, weights, stride=2)
    else:
        ends = np.asarray([np.iinfo(np.int64).max] * 2)
        bounds = (np.asarray([0, 0]), ends, np.asarray([2, 3]), np.asarray([2, 2]))
        result = sketch.node("Slice", [sketch.conv(x, weights), *map(sketch.weight, bounds)])
    return sketch.model((result, (1, 128, 14, 14)))


def _normalised(*, folded: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(1, 64, 56, 56)
    scale, bias, mean = (drawn(name, 64) for name in ("scale", "bias", "mean"))
    variance, factor, term = (np.abs(drawn(name, 64)) + np.float32(0.5) for name in ("v", "factor", "term"))
    if folded:
        deviation = np.sqrt(variance + np.float32(1e-5))
        total = (bias - mean * scale / deviation) * factor + term
        numbers = (scale / deviation * factor, total, np.zeros_like(scale), np.ones_like(scale))
        result = sketch.node("BatchNormalization", [x, *map(sketch.weight, numbers)], epsilon=0.0)
    else:
        numbers = (scale, bias, mean, variance)
        result = sketch.node("BatchNormalization", [x, *map(sketch.weight, numbers)], epsilon=1e-5)
        result = sketch.node("Mul", [result, sketch.weight(factor[:, None, None])])
        result = sketch.node("Add", [result, sketch.weight(term[:, None, None])])
    return sketch.model((result, (1, 64, 56, 56)))


def _depthwise(*, merged: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(1, 96, 28, 28)
    large, small = kernel("large", 96, 1, 5), kernel("small", 96, 1, 3)
    if merged:
        result = sketch.conv(x, large + padded(small, 5), groups=96)
    else:
        parts = [sketch.conv(x, weights, groups=96) for weights in (large, small)]
        result = sketch.node("Add", parts)
    return sketch.model((result, (1, 96, 28, 28)))


def _pooled_point(*, pooled_first: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x, weights = sketch.input(1, 256, 28, 28), kernel("w", 128, 256, 1)

    def pooled(tensor: str) -> str:
        return sketch.node("AveragePool", [tensor], kernel_shape=(2, 2), strides=(2, 2))

    result = sketch.conv(pooled(x), weights) if pooled_first else pooled(sketch.conv(x, weights))
    return sketch.model((result, (1, 128, 14, 14)))


def _pooled_relu(*, pooled_first: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(1, 64, 112, 112)

    def pooled(tensor: str) -> str:
        return sketch.node("MaxPool", [tensor], kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))

    result = sketch.node("Relu", [pooled(x)]) if pooled_first else pooled(sketch.node("Relu", [x]))
    return sketch.model((result, (1, 64, 56, 56)))


def _branches(*, merged: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(1, 64, 28, 28)
    large, small = kernel("large", 64, 64, 3), kernel("small", 64, 64, 1)
    a, b = drawn("a", 64), drawn("b", 64)
    if merged:
        result = sketch.conv(x, large + padded(small, 3), a + b)
    else:
        result = sketch.node("Add", [sketch.conv(x, large, a), sketch.conv(x, small, b)])
    return sketch.model((sketch.node("Relu", [result]), (1, 64, 28, 28)))


def _affine_point(*, folded: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x, weights = sketch.input(1, 64, 56, 56), kernel("w", 64, 64, 1)
    factor, term = drawn("factor", 64), drawn("term", 64)
    if folded:
        bias = weights[:, :, 0, 0] @ term
        result = sketch.conv(x, weights * factor[None, :, None, None], bias)
    else:
        scaled = sketch.node("Mul", [x, sketch.weight(factor[:, None, None])])
        result = sketch.conv(sketch.node("Add", [scaled, sketch.weight(term[:, None, None])]), weights)
    return sketch.model((result, (1, 64, 56, 56)))


def _scalar_affine(*, folded: bool) -> onnx.ModelProto:
    """A learned affine step by two numbers before and after a convolution, as in mobile networks."""
    sketch = Sketch()
    x, weights, bias = sketch.input(1, 32, 56, 56), kernel("w", 64, 32, 1), drawn("b", 64)
    factors, terms = (1.25, 0.8), (0.125, -0.375)
    if folded:
        inner = bias + np.float32(terms[0]) * weights.sum(axis=(1, 2, 3))
        folded_weights = weights * np.float32(factors[0] * factors[1])
        result = sketch.conv(x, folded_weights, inner * np.float32(factors[1]) + np.float32(terms[1]))
    else:
        before = sketch.node("Mul", [x, sketch.weight(np.asarray([factors[0]], np.float32))])
        before = sketch.node("Add", [before, sketch.weight(np.asarray([terms[0]], np.float32))])
        after = sketch.conv(before, weights, bias)
        after = sketch.node("Mul", [after, sketch.weight(np.asarray([factors[1]], np.float32))])
        result = sketch.node("Add", [after, sketch.weight(np.asarray([terms[1]], np.float32))])
    return sketch.model((result, (1, 64, 56, 56)))


def _larger_point(*, enlarged_last: bool) -> onnx.ModelProto:
    """A feature pyramid: linear upsampling of an image, and a 1x1 convolution of it."""
    sketch = Sketch()
    x, weights = sketch.input(1, 64, 28, 28), kernel("w", 64, 64, 1)
    image = sketch.conv(x, weights) if enlarged_last else x
    larger = _larger(sketch, image, 2)
    result = larger if enlarged_last else sketch.conv(larger, weights)
    return sketch.model((result, (1, 64, 56, 56)))


def _decoded(*, enlarged_last: bool) -> onnx.ModelProto:
    """The decoder of SegFormer: images of four sizes are upsampled, concatenated, and mixed by a 1x1
    convolution."""
    sketch = Sketch()
    images = [sketch.input(1, 64, 64 // factor, 64 // factor) for factor in (1, 2, 4, 8)]
    weights = kernel("w", 64, 256, 1)
    if enlarged_last:
        parts = [sketch.conv(x, part) for x, part in zip(images, np.split(weights, 4, axis=1), strict=True)]
        parts[1:] = [_larger(sketch, part, 2**number) for number, part in enumerate(parts[1:], start=1)]
        result = parts[0]
        for part in parts[1:]:
            result = sketch.node("Add", [result, part])
    else:
        images[1:] = [_larger(sketch, x, 2**number) for number, x in enumerate(images[1:], start=1)]
        result = sketch.conv(sketch.node("Concat", images, axis=1), weights)
    return sketch.model((result, (1, 64, 64, 64)))


def _larger(sketch: Sketch, image: str, factor: int) -> str:
    scales = sketch.weight(np.asarray([1, 1, factor, factor], np.float32))
    return sketch.node("Resize", [image, "", scales], mode="linear")


def _response_normalised(*, by_convolution: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(1, 96, 27, 27)
    size, alpha, beta = 5, 1e-4, 0.75
    if by_convolution:
        distance = np.abs(np.subtract.outer(np.arange(96), np.arange(96)))
        band = np.where(distance <= size // 2, alpha / size, 0.0).astype(np.float32)[:, :, None, None]
        base = sketch.conv(sketch.node("Mul", [x, x]), band, np.full(96, 1, np.float32))
        root = sketch.node("Sqrt", [base])
        power = sketch.node("Mul", [root, sketch.node("Sqrt", [root])])
        result = sketch.node("Div", [x, power])
    else:
        result = sketch.node("LRN", [x], size=size, alpha=alpha, beta=beta, bias=1.0)
    return sketch.model((result, (1, 96, 27, 27)))


def _parallel_points(*, merged: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(1, 128, 28, 28)
    weights = [kernel(name, 64, 128, 1) for name in ("a", "b")]
    if merged:
        both = sketch.conv(x, np.concatenate(weights))
        return sketch.model((both, (1, 128, 28, 28)))
    parts = [sketch.conv(x, part) for part in weights]
    return sketch.model((sketch.node("Concat", parts, axis=1), (1, 128, 28, 28)))


def _sum_of_convolutions(*, joined: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x, y = sketch.input(1, 64, 28, 28), sketch.input(1, 64, 28, 28)
    first, second = kernel("a", 64, 64, 3), kernel("b", 64, 64, 3)
    if joined:
        both = sketch.node("Concat", [x, y], axis=1)
        result = sketch.conv(both, np.concatenate([first, second], axis=1))
    else:
        result = sketch.node("Add", [sketch.conv(x, first), sketch.conv(y, second)])
    return sketch.model((result, (1, 64, 28, 28)))


def _average(*, by_convolution: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(1, 96, 28, 28)
    if by_convolution:
        result = sketch.conv(x, np.full((96, 1, 3, 3), 1 / 9, np.float32), groups=96)
    else:
        result = sketch.node(
            "AveragePool", [x], kernel_shape=(3, 3), strides=(1, 1), pads=(1,) * 4, count_include_pad=1
        )
    return sketch.model((result, (1, 96, 28, 28)))


def _enlarged(*, enlarged: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x, weights = sketch.input(1, 64, 28, 28), kernel("a", 64, 64, 1)
    result = sketch.conv(x, padded(weights, 3) if enlarged else weights)
    return sketch.model((result, (1, 64, 28, 28)))


def _grouped(*, merged: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x, weights = sketch.input(1, 128, 28, 28), kernel("a", 128, 4, 3)
    if merged:
        wide = np.zeros((128, 8, 3, 3), np.float32)
        for out in range(128):
            start = 4 * (out // 4 % 2)
            wide[out, start : start + 4] = weights[out]
        result = sketch.conv(x, wide, groups=16)
    else:
        result = sketch.conv(x, weights, groups=32)
    return sketch.model((result, (1, 128, 28, 28)))


def _separable(*, dense: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(1, 64, 28, 28)
    depth, point = kernel("depth", 64, 1, 3), kernel("point", 64, 64, 1)
    if dense:
        result = sketch.conv(x, point * depth[None, :, 0])
    else:
        result = sketch.conv(sketch.conv(x, depth, groups=64), point)
    return sketch.model((result, (1, 64, 28, 28)))


def _halved_gelu(*, folded: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x, weights = sketch.input(1, 128, 28, 28), kernel("w", 64, 128, 1)
    curve = sketch.node("Erf", [sketch.node("Div", [x, sketch.number(math.sqrt(2))])])
    product = sketch.node("Mul", [x, sketch.node("Add", [curve, sketch.number(1.0)])])
    if folded:
        result = sketch.conv(product, weights * np.float32(0.5))
    else:
        result = sketch.conv(sketch.node("Mul", [product, sketch.number(0.5)]), weights)
    return sketch.model((result, (1, 64, 28, 28)))


def _channel_shares(*, in_parts: bool) -> onnx.ModelProto:
    """The distances to the sides of a box, as a YOLOv8 head computes them from shares of 16 bins."""
    sketch = Sketch()
    x = sketch.input(1, 16, 4, 8400)
    if in_parts:
        largest = sketch.node("ReduceMax", [x], axes=(1,), keepdims=1)
        powers = sketch.node("Exp", [sketch.node("Sub", [x, largest])])
        total = sketch.node("ReduceSum", [powers, sketch.weight(np.asarray([1]))], keepdims=1)
        shares = sketch.node("Div", [powers, total])
    else:
        shares = sketch.node("Softmax", [x], axis=1)
    bins = np.arange(16, dtype=np.float32)[None, :, None, None]
    return sketch.model((sketch.conv(shares, bins), (1, 1, 4, 8400)))


def _mish(*, in_parts: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.conv(sketch.input(1, 32, 56, 56), kernel("w", 64, 32, 1))
    if in_parts:
        decay = sketch.node("Exp", [sketch.node("Neg", [sketch.node("Abs", [x])])])
        rest = sketch.node("Log", [sketch.node("Add", [decay, sketch.number(1.0)])])
        raised = sketch.node("Add", [sketch.node("Relu", [x]), rest])
    else:
        raised = sketch.node("Softplus", [x])
    result = sketch.node("Mul", [x, sketch.node("Tanh", [raised])])
    return sketch.model((result, (1, 64, 56, 56)))


def _shifted_gate(*, in_one_layout: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.conv(sketch.input(1, 16, 40, 80), kernel("w", 128, 16, 1))
    x = sketch.node("Mul", [x, sketch.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5)])
    term = drawn("term", 128)
    if in_one_layout:
        numbers = (np.ones_like(term), term, np.zeros_like(term), np.ones_like(term))
        x = sketch.node("BatchNormalization", [x, *map(sketch.weight, numbers)], epsilon=0.0)
    else:
        x = sketch.node("Add", [x, sketch.weight(term[:, None, None])])
    return sketch.model((sketch.conv(x, kernel("deep", 128, 1, 3), groups=128), (1, 128, 40, 80)))


def _columns(*, turned: bool) -> onnx.ModelProto:
    """A kernel of one column, as in networks for sound that are written as image networks."""
    sketch = Sketch()
    x = sketch.input(1, 128, 128, 1)
    weights = drawn("w", 64, 128, 64, 1, fan_in=128 * 64)
    if turned:
        row = sketch.node("Reshape", [x, sketch.weight(np.asarray([1, 128, 1, 128]))])
        row = _same(sketch, row, np.ascontiguousarray(weights.swapaxes(2, 3)))
        result = sketch.node("Reshape", [row, sketch.weight(np.asarray([1, 64, 128, 1]))])
    else:
        result = _same(sketch, x, weights)
    return sketch.model((result, (1, 64, 128, 1)))


def _few_outputs(size: int, *, padding: int, transposed: bool) -> onnx.ModelProto:
    """The last convolution of a network that makes images."""
    sketch = Sketch()
    x, weights = sketch.input(1, 32, 96, 96), kernel("w", 3, 32, size)
    result = 96 - (size - 1) + 2 * padding
    shape = {"kernel_shape": (size, size), "strides": (1, 1), "dilations": (1, 1)}
    if transposed:
        flipped = np.ascontiguousarray(weights[:, :, ::-1, ::-1].swapaxes(0, 1))
        cut = (size - 1 - padding,) * 4
        y = sketch.node("ConvTranspose", [x, sketch.weight(flipped)], pads=cut, **shape)
    else:
        y = sketch.node("Conv", [x, sketch.weight(weights)], pads=(padding,) * 4, **shape)
    return sketch.model((y, (1, 3, result, result)))


def _padded_to_few(*, transposed: bool) -> onnx.ModelProto:
    return _few_outputs(3, padding=1, transposed=transposed)


def _cut_to_few(*, transposed: bool) -> onnx.ModelProto:
    return _few_outputs(9, padding=0, transposed=transposed)


def _large_window(*, in_two: bool) -> onnx.ModelProto:
    """A pooling of spatial pyramid pooling (YOLO)."""
    sketch = Sketch()
    x = sketch.input(1, 256, 20, 20)
    for rows, columns in ((1, 13), (13, 1)) if in_two else ((13, 13),):
        pads = (rows // 2, columns // 2) * 2
        x = sketch.node("MaxPool", [x], kernel_shape=(rows, columns), pads=pads, strides=(1, 1))
    return sketch.model((x, (1, 256, 20, 20)))


def _same(sketch: Sketch, x: str, weights: Array) -> str:
    inputs = [x, sketch.weight(weights)]
    return sketch.node("Conv", inputs, kernel_shape=weights.shape[2:], auto_pad="SAME_UPPER")


WITH_HEADROOM: Mapping[str, Micrograph] = {
    "two 1x1 convolutions": pair(_composed_points, "composed"),
    "1x1 convolution, then every second pixel": pair(_subsampled, "strided"),
    "batch norm, mul, add": pair(_normalised, "folded"),
    "depthwise 5x5 + 3x3": pair(_depthwise, "merged"),
    "average pooling after a 1x1 convolution": pair(_pooled_point, "pooled_first"),
    "max pooling after relu": pair(_pooled_relu, "pooled_first"),
    "3x3 and 1x1 branches summed": pair(_branches, "merged"),
    "affine step before a 1x1 convolution": pair(_affine_point, "folded"),
    "scalar affine steps around a convolution": pair(_scalar_affine, "folded"),
    "local response normalisation": pair(_response_normalised, "by_convolution"),
    "1x1 convolution of a larger image": pair(_larger_point, "enlarged_last"),
    "1x1 convolution of joined images": pair(_decoded, "enlarged_last"),
    "softmax over channels": pair(_channel_shares, "in_parts"),
    "mish": pair(_mish, "in_parts"),
    "a vector added between convolutions": pair(_shifted_gate, "in_one_layout"),
    "convolution along columns": pair(_columns, "turned"),
    "3x3 convolution to 3 channels": pair(_padded_to_few, "transposed"),
    "unpadded 9x9 convolution to 3 channels": pair(_cut_to_few, "transposed"),
    "max pooling by 13x13 windows": pair(_large_window, "in_two"),
}

WITHOUT_HEADROOM: Mapping[str, Micrograph] = {
    "parallel 1x1 convolutions": pair(_parallel_points, "merged"),
    "sum of convolutions": pair(_sum_of_convolutions, "joined"),
    "average pooling as a convolution": pair(_average, "by_convolution"),
    "1x1 enlarged to 3x3": pair(_enlarged, "enlarged"),
    "fewer, larger groups": pair(_grouped, "merged"),
    "separable to dense": pair(_separable, "dense"),
    "half of gelu into a convolution": pair(_halved_gelu, "folded"),
}
