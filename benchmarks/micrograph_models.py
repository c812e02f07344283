"""Small graphs as exporters leave them, each with the version that a person would write by hand beside it.

Graphs of the first table leave head-room over ONNX Runtime's full optimisation of them on a CPU; those of the
second are rewritten by hand in ways that pay on other devices and lose here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

OPSET = 17

Array = NDArray[np.float32]
Attribute = int | float | str | Sequence[int]
Floats = Array | NDArray[np.float64]


@dataclass(frozen=True)
class Micrograph:
    """Two builders of models with the same inputs and outputs."""

    original: Callable[[], onnx.ModelProto]
    by_hand: Callable[[], onnx.ModelProto]


class Sketch:
    """A model under construction, tensor by tensor; the names of tensors do not matter."""

    def __init__(self) -> None:
        self._inputs: list[onnx.ValueInfoProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._nodes: list[onnx.NodeProto] = []

    def input(self, *shape: int) -> str:
        """The next input, of single precision: ``x0``, ``x1``, ..."""
        name = f"x{len(self._inputs)}"
        self._inputs.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
        return name

    def node(self, operator: str, inputs: Sequence[str], **attributes: Attribute) -> str:
        """A node with one output."""
        name = f"t{len(self._nodes)}"
        node = helper.make_node(operator, list(inputs), [name], name=f"{operator}_{len(self._nodes)}")
        for key, value in attributes.items():
            node.attribute.append(helper.make_attribute(key, value))
        self._nodes.append(node)
        return name

    def weight(self, array: Floats | NDArray[np.int64]) -> str:
        """A stored tensor, of single precision unless it is of integers."""
        kept = array if array.dtype == np.int64 else array.astype(np.float32)
        self._weights.append(numpy_helper.from_array(kept, f"w{len(self._weights)}"))
        return self._weights[-1].name

    def number(self, value: float) -> str:
        """A stored 0-d number."""
        return self.weight(np.asarray(value, np.float32))

    def conv(
        self, x: str, kernel: Floats, bias: Floats | None = None, *, stride: int = 1, groups: int = 1
    ) -> str:
        """A convolution that keeps the size but for the stride."""
        size = kernel.shape[2]
        inputs = [x, self.weight(kernel), *(() if bias is None else (self.weight(bias),))]
        return self.node(
            "Conv", inputs, kernel_shape=(size, size), pads=(size // 2,) * 4, strides=(stride, stride),
            dilations=(1, 1), group=groups,
        )  # fmt: skip

    def model(self, *outputs: tuple[str, Sequence[int]]) -> onnx.ModelProto:
        """The finished model; outputs with their shapes."""
        declared = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, shape) for n, shape in outputs]
        graph = helper.make_graph(self._nodes, "micrograph", self._inputs, declared, self._weights)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", OPSET)])


def drawn(name: str, *shape: int, fan_in: int = 1) -> Array:
    """Normal numbers over the square root of ``fan_in``; the name is the seed."""
    random = np.random.default_rng([ord(letter) for letter in name])
    return (random.standard_normal(shape) / math.sqrt(fan_in)).astype(np.float32)


def kernel(name: str, out: int, into: int, size: int) -> Array:
    """[out, into, size, size]."""
    return drawn(name, out, into, size, size, fan_in=into * size * size)


def _padded(weights: Floats, size: int) -> Array:
    margin = (size - weights.shape[2]) // 2
    return np.pad(weights, ((0, 0), (0, 0), (margin, margin), (margin, margin))).astype(np.float32)


def _chain(*, right_first: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x, y, z = sketch.input(1024, 32), sketch.input(32, 1024), sketch.input(1024, 32)
    if right_first:
        result = sketch.node("MatMul", [x, sketch.node("MatMul", [y, z])])
    else:
        result = sketch.node("MatMul", [sketch.node("MatMul", [x, y]), z])
    return sketch.model((result, (1024, 32)))


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


def _two_products(*, folded: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(64, 512)
    first, second = drawn("a", 512, 512, fan_in=512), drawn("b", 512, 512, fan_in=512)
    if folded:
        result = sketch.node("MatMul", [x, sketch.weight(first @ second)])
    else:
        once = sketch.node("MatMul", [x, sketch.weight(first)])
        result = sketch.node("MatMul", [once, sketch.weight(second)])
    return sketch.model((result, (64, 512)))


def _sum_of_weights(*, folded: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(64, 512)
    first, second = drawn("a", 512, 512, fan_in=512), drawn("b", 512, 512, fan_in=512)
    if folded:
        result = sketch.node("MatMul", [x, sketch.weight(first + second)])
    else:
        parts = [sketch.node("MatMul", [x, sketch.weight(weights)]) for weights in (first, second)]
        result = sketch.node("Add", parts)
    return sketch.model((result, (64, 512)))


def _sum_of_inputs(*, folded: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x, y = sketch.input(64, 512), sketch.input(64, 512)
    weights = sketch.weight(drawn("a", 512, 512, fan_in=512))
    if folded:
        result = sketch.node("MatMul", [sketch.node("Add", [x, y]), weights])
    else:
        result = sketch.node("Add", [sketch.node("MatMul", [part, weights]) for part in (x, y)])
    return sketch.model((result, (64, 512)))


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


def _distributed(*, factored: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x, y, z = (sketch.input(512, 512) for _ in range(3))
    if factored:
        result = sketch.node("Mul", [x, sketch.node("Add", [y, z])])
    else:
        result = sketch.node("Add", [sketch.node("Mul", [x, y]), sketch.node("Mul", [x, z])])
    return sketch.model((result, (512, 512)))


def _depthwise(*, merged: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(1, 96, 28, 28)
    large, small = kernel("large", 96, 1, 5), kernel("small", 96, 1, 3)
    if merged:
        result = sketch.conv(x, large + _padded(small, 5), groups=96)
    else:
        parts = [sketch.conv(x, weights, groups=96) for weights in (large, small)]
        result = sketch.node("Add", parts)
    return sketch.model((result, (1, 96, 28, 28)))


def _gelu_by_tanh(*, by_sigmoid: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(128, 3072)
    root = math.sqrt(2 / math.pi)
    cube = sketch.node("Pow", [x, sketch.number(3.0)])
    total = sketch.node("Add", [x, sketch.node("Mul", [cube, sketch.number(0.044715)])])
    if by_sigmoid:
        gate = sketch.node("Sigmoid", [sketch.node("Mul", [total, sketch.number(2 * root)])])
        result = sketch.node("Mul", [x, gate])
    else:
        curve = sketch.node("Tanh", [sketch.node("Mul", [total, sketch.number(root)])])
        raised = sketch.node("Add", [curve, sketch.number(1.0)])
        result = sketch.node("Mul", [sketch.node("Mul", [x, raised]), sketch.number(0.5)])
    return sketch.model((result, (128, 3072)))


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
        result = sketch.conv(x, large + _padded(small, 3), a + b)
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


def _adapted(*, merged: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(64, 768)
    base = drawn("base", 768, 768, fan_in=768)
    down, up = drawn("down", 768, 8, fan_in=768), drawn("up", 8, 768, fan_in=8)
    if merged:
        result = sketch.node("MatMul", [x, sketch.weight(base + 2 * (down @ up))])
    else:
        narrow = sketch.node("MatMul", [x, sketch.weight(down)])
        wide = sketch.node("MatMul", [narrow, sketch.weight(up)])
        wide = sketch.node("Mul", [wide, sketch.number(2.0)])
        result = sketch.node("Add", [sketch.node("MatMul", [x, sketch.weight(base)]), wide])
    return sketch.model((result, (64, 768)))


def _activated_gate(*, fused: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(1, 64, 56, 56)
    if fused:
        result = sketch.node("HardSwish", [x])
    else:
        gate = sketch.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5)
        result = sketch.node("Mul", [x, gate])
    return sketch.model((result, (1, 64, 56, 56)))


def _scalar_affine(*, folded: bool) -> onnx.ModelProto:
    """A learned affine step by two numbers before and after a convolution, as mobile networks have it."""
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


def _projections(*, merged: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x = sketch.input(128, 512)
    weights = [drawn(name, 512, 512, fan_in=512) for name in ("q", "k", "v")]
    if merged:
        whole = sketch.node("MatMul", [x, sketch.weight(np.concatenate(weights, axis=1))])
        cuts = [sketch.weight(np.asarray([part * 512])) for part in range(4)]
        axis = sketch.weight(np.asarray([1]))
        parts = [sketch.node("Slice", [whole, cuts[part], cuts[part + 1], axis]) for part in range(3)]
    else:
        parts = [sketch.node("MatMul", [x, sketch.weight(part)]) for part in weights]
    return sketch.model(*((sketch.node("Softmax", [part], axis=-1), (128, 512)) for part in parts))


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


def _sum_of_products(*, joined: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x, y = sketch.input(64, 512), sketch.input(64, 512)
    first, second = drawn("a", 512, 512, fan_in=512), drawn("b", 512, 512, fan_in=512)
    if joined:
        both = sketch.node("Concat", [x, y], axis=1)
        result = sketch.node("MatMul", [both, sketch.weight(np.concatenate([first, second]))])
    else:
        parts = [sketch.node("MatMul", [t, sketch.weight(w)]) for t, w in ((x, first), (y, second))]
        result = sketch.node("Add", parts)
    return sketch.model((result, (64, 512)))


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
    result = sketch.conv(x, _padded(weights, 3) if enlarged else weights)
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


def _pair(build: Callable[..., onnx.ModelProto], flag: str) -> Micrograph:
    return Micrograph(lambda: build(**{flag: False}), lambda: build(**{flag: True}))


WITH_HEADROOM: Mapping[str, Micrograph] = {
    "chain of matmuls": _pair(_chain, "right_first"),
    "two 1x1 convolutions": _pair(_composed_points, "composed"),
    "1x1 convolution, then every second pixel": _pair(_subsampled, "strided"),
    "x W1 W2": _pair(_two_products, "folded"),
    "x W1 + x W2": _pair(_sum_of_weights, "folded"),
    "x W + y W": _pair(_sum_of_inputs, "folded"),
    "batch norm, mul, add": _pair(_normalised, "folded"),
    "x y + x z": _pair(_distributed, "factored"),
    "depthwise 5x5 + 3x3": _pair(_depthwise, "merged"),
    "gelu by tanh": _pair(_gelu_by_tanh, "by_sigmoid"),
    "average pooling after a 1x1 convolution": _pair(_pooled_point, "pooled_first"),
    "max pooling after relu": _pair(_pooled_relu, "pooled_first"),
    "3x3 and 1x1 branches summed": _pair(_branches, "merged"),
    "affine step before a 1x1 convolution": _pair(_affine_point, "folded"),
    "low-rank adapter": _pair(_adapted, "merged"),
    "hard sigmoid times x": _pair(_activated_gate, "fused"),
    "scalar affine steps around a convolution": _pair(_scalar_affine, "folded"),
    "local response normalisation": _pair(_response_normalised, "by_convolution"),
}

WITHOUT_HEADROOM: Mapping[str, Micrograph] = {
    "parallel 1x1 convolutions": _pair(_parallel_points, "merged"),
    "three projections": _pair(_projections, "merged"),
    "sum of convolutions": _pair(_sum_of_convolutions, "joined"),
    "sum of matmuls": _pair(_sum_of_products, "joined"),
    "average pooling as a convolution": _pair(_average, "by_convolution"),
    "1x1 enlarged to 3x3": _pair(_enlarged, "enlarged"),
    "fewer, larger groups": _pair(_grouped, "merged"),
    "separable to dense": _pair(_separable, "dense"),
    "half of gelu into a convolution": _pair(_halved_gelu, "folded"),
}
