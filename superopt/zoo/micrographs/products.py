"""Micrographs of matrix products and the operators between them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx

from superopt.zoo.micrographs.sketch import Micrograph, Sketch, drawn, pair


def _chain(*, right_first: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x, y, z = sketch.input(1024, 32), sketch.input(32, 1024), sketch.input(1024, 32)
    if right_first:
        result = sketch.node("MatMul", [x, sketch.node("MatMul", [y, z])])
    else:
        result = sketch.node("MatMul", [sketch.node("MatMul", [x, y]), z])
    return sketch.model((result, (1024, 32)))


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


def _distributed(*, factored: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x, y, z = (sketch.input(512, 512) for _ in range(3))
    if factored:
        result = sketch.node("Mul", [x, sketch.node("Add", [y, z])])
    else:
        result = sketch.node("Add", [sketch.node("Mul", [x, y]), sketch.node("Mul", [x, z])])
    return sketch.model((result, (512, 512)))


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


def _residual(*, by_sum: bool) -> onnx.ModelProto:
    sketch = Sketch()
    x, y = sketch.input(1, 128, 768), sketch.input(1, 128, 768)
    total = sketch.node("Sum" if by_sum else "Add", [x, y])
    vectors = [sketch.weight(drawn(name, 768)) for name in ("scale", "bias")]
    result = sketch.node("LayerNormalization", [total, *vectors], axis=-1, epsilon=1e-5)
    return sketch.model((result, (1, 128, 768)))


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


WITH_HEADROOM: Mapping[str, Micrograph] = {
    "chain of matmuls": pair(_chain, "right_first"),
    "x W1 W2": pair(_two_products, "folded"),
    "x W1 + x W2": pair(_sum_of_weights, "folded"),
    "x W + y W": pair(_sum_of_inputs, "folded"),
    "x y + x z": pair(_distributed, "factored"),
    "gelu by tanh": pair(_gelu_by_tanh, "by_sigmoid"),
    "low-rank adapter": pair(_adapted, "merged"),
    "hard sigmoid times x": pair(_activated_gate, "fused"),
    "sum before a layer normalisation": pair(_residual, "by_sum"),
}

WITHOUT_HEADROOM: Mapping[str, Micrograph] = {
    "three projections": pair(_projections, "merged"),
    "sum of matmuls": pair(_sum_of_products, "joined"),
}
