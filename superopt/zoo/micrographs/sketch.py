"""Building blocks of micrographs: a model under construction, and random weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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


def pair(build: Callable[..., onnx.ModelProto], flag: str) -> Micrograph:
    """The graph that a builder makes without the flag, and by hand with it."""
    return Micrograph(lambda: build(**{flag: False}), lambda: build(**{flag: True}))


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


def padded(weights: Floats, size: int) -> Array:
    """A convolution's weights in the middle of zeros: [out, into, size, size]."""
    margin = (size - weights.shape[2]) // 2
    return np.pad(weights, ((0, 0), (0, 0), (margin, margin), (margin, margin))).astype(np.float32)
