"""Layers of image networks, as PyTorch exports them in inference form; tensors are [n, c, h, w]."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from superopt.zoo import weights
from superopt.zoo.builder import Attribute, GraphBuilder

__all__ = ["Images", "Pads", "Pair"]

Pair = int | tuple[int, int]
"""(height, width), or one number for both."""

Pads = Pair | tuple[int, int, int, int]
"""One number for all sides, (height, width), or (top, left, bottom, right)."""

MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


class Images:
    """Adds layers to ``graph``; ``epsilon`` is that of its normalisations."""

    def __init__(self, graph: GraphBuilder, epsilon: float = 1e-5) -> None:
        self.graph = graph
        self._epsilon = epsilon

    def conv(
        self, x: str, name: str, channels: tuple[int, int], kernel: Pair, *,
        stride: int = 1, padding: Pads = 0, groups: int = 1, biased: bool = False, gain: float = 1.0,
    ) -> str:  # fmt: skip
        """A convolution from ``channels[0]`` to ``channels[1]`` of a rectified input."""
        draw = weights.rectified(_filters(channels, kernel, groups), (1, 2, 3), gain)
        return self._convolved(x, name, draw, stride, padding, groups, biased=biased)

    def linear_conv(
        self, x: str, name: str, channels: tuple[int, int], kernel: Pair, *,
        stride: int = 1, padding: Pads = 0, groups: int = 1, biased: bool = False,
    ) -> str:  # fmt: skip
        """A convolution of an input of both signs."""
        shape = _filters(channels, kernel, groups)
        draw = weights.lecun(shape, math.prod(shape[1:]))
        return self._convolved(x, name, draw, stride, padding, groups, biased=biased)

    def _convolved(
        self, x: str, name: str, draw: weights.Draw, stride: int, padding: Pads, groups: int, *, biased: bool
    ) -> str:
        inputs = [x, self.graph.weight(f"{name}.weight", draw)]
        if biased:
            inputs.append(self.graph.weight(f"{name}.bias", weights.bias(draw.shape[:1])))
        attributes: dict[str, Attribute] = {
            "dilations": [1, 1],
            "group": groups,
            "kernel_shape": draw.shape[2:],
            "pads": _pads(padding),
            "strides": [stride, stride],
        }
        return self.graph.node("Conv", inputs, f"{name}.out", attributes)

    def batch_norm(self, x: str, name: str, channels: int, gain: float = 1.0) -> str:
        """Batch normalisation with stored statistics; ``gain`` is the mean of the scales."""
        affine = weights.affine(channels, gain)
        inputs = [
            x,
            self.graph.weight(f"{name}.weight", affine.scale),
            self.graph.weight(f"{name}.bias", affine.bias),
            self.graph.weight(f"{name}.running_mean", affine.mean),
            self.graph.weight(f"{name}.running_var", affine.variance),
        ]
        attributes: dict[str, Attribute] = {"epsilon": self._epsilon, "momentum": 0.9}
        return self.graph.node("BatchNormalization", inputs, f"{name}.out", attributes)

    def scale_and_shift(self, x: str, name: str, channels: int, gain: float = 1.0) -> str:
        """A normalisation as in a frozen TensorFlow graph: a product and a sum per channel."""
        shape = (1, channels, 1, 1)
        scale = self.graph.weight(f"{name}.scale", weights.scale(shape, gain))
        shift = self.graph.weight(f"{name}.shift", weights.bias(shape))
        return self.graph.node(
            "Add", [self.graph.node("Mul", [x, scale], f"{name}.mul"), shift], f"{name}.add"
        )

    def relu(self, x: str) -> str:
        """max(x, 0)."""
        return self.graph.node("Relu", [x], f"{x}.relu")

    def max_pool(
        self, x: str, name: str, *, kernel: int = 3, stride: int = 2, padding: Pads = 0, ceil: int = 0
    ) -> str:
        """The maximum of each window."""
        attributes: dict[str, Attribute] = {
            "ceil_mode": ceil,
            "kernel_shape": [kernel, kernel],
            "pads": _pads(padding),
            "strides": [stride, stride],
        }
        return self.graph.node("MaxPool", [x], name, attributes)

    def average_pool(
        self, x: str, name: str, kernel: int, *, stride: int = 1, padding: Pads = 0, counted: int = 0
    ) -> str:
        """The mean of each window; ``counted`` is 1 where padding counts."""
        attributes: dict[str, Attribute] = {
            "ceil_mode": 0,
            "count_include_pad": counted,
            "kernel_shape": [kernel, kernel],
            "pads": _pads(padding),
            "strides": [stride, stride],
        }
        return self.graph.node("AveragePool", [x], name, attributes)

    def concat(self, parts: Sequence[str], name: str) -> str:
        """Concatenation along the channels."""
        return self.graph.node("Concat", parts, name, {"axis": 1})

    def pool_and_flatten(self, x: str) -> str:
        """[n, c, h, w] -> [n, c]."""
        pooled = self.graph.node("GlobalAveragePool", [x], "pooled")
        return self.graph.node("Flatten", [pooled], "flat", {"axis": 1})

    def linear(self, x: str, name: str, sizes: tuple[int, int], output: str, gain: float = 1.0) -> str:
        """x·Wᵀ + b of a rectified [n, sizes[0]]."""
        weight = self.graph.weight(f"{name}.weight", weights.rectified((sizes[1], sizes[0]), (1,), gain))
        bias = self.graph.weight(f"{name}.bias", weights.bias((sizes[1],)))
        attributes: dict[str, Attribute] = {"alpha": 1.0, "beta": 1.0, "transB": 1}
        return self.graph.node("Gemm", [x, weight, bias], output, attributes)

    def standardised(self, x: str) -> str:
        """(x - mean) / deviation of ImageNet, the first step of a model that takes raw images."""
        mean = self.graph.buffer("preprocess.mean", np.asarray(MEAN, dtype=np.float32).reshape(1, 3, 1, 1))
        deviation = np.asarray(DEVIATION, dtype=np.float32).reshape(1, 3, 1, 1)
        x = self.graph.node("Sub", [x, mean], "preprocess.centred")
        return self.graph.node("Div", [x, self.graph.buffer("preprocess.std", deviation)], "preprocess.out")

    def dropout(self, x: str, name: str) -> str:
        """Kept by some exporters; the identity at inference."""
        return self.graph.node("Dropout", [x], name)


def _filters(channels: tuple[int, int], kernel: Pair, groups: int) -> tuple[int, int, int, int]:
    return (channels[1], channels[0] // groups, *_pair(kernel))


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


def _pads(padding: Pads) -> list[int]:
    if isinstance(padding, tuple) and len(padding) == 4:
        return list(padding)
    height, width = _pair(padding)
    return [height, width, height, width]
