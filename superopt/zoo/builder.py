"""A small builder over ``onnx.helper``: the networks of the zoo are written with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from superopt.zoo.weights import WeightSource

__all__ = ["IR_VERSION", "OPSET", "Attribute", "GraphBuilder", "Images"]

IR_VERSION = 8
OPSET = 17

type_of_dtype: Mapping[np.dtype[np.generic], int] = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.int64): TensorProto.INT64,
}

Attribute = int | float | str | Sequence[int]


class GraphBuilder:
    """Grows a model in place, in order; a tensor is known by its ONNX name.

    ``weights`` draws the numbers: builders with one seed that make the same calls give the same bytes.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.weights = WeightSource(seed)
        self._model = helper.make_model(
            onnx.GraphProto(name=name),
            producer_name="superopt.zoo",
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET)],
        )

    def input(self, name: str, shape: Sequence[int], dtype: type[np.float32 | np.int64] = np.float32) -> str:
        """A graph input."""
        kind = type_of_dtype[np.dtype(dtype)]
        self._model.graph.input.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def output(self, name: str, shape: Sequence[int]) -> None:
        """Declares the float tensor ``name`` as a graph output."""
        value = helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
        self._model.graph.output.append(value)

    def weight(self, name: str, array: NDArray[np.float32] | NDArray[np.int64]) -> str:
        """An initialiser."""
        self._model.graph.initializer.add(
            name=name, data_type=type_of_dtype[array.dtype], dims=array.shape, raw_data=array.tobytes()
        )
        return name

    def constant(self, name: str, value: float) -> str:
        """A float scalar, as exporters write it: the tensor of a Constant node."""
        tensor = numpy_helper.from_array(np.asarray(value, dtype=np.float32), name)
        node = helper.make_node("Constant", [], [name], name=f"{name}/Constant", value=tensor)
        self._model.graph.node.append(node)
        return name

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        output: str,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> str:
        """One node with one output; returns the output's name."""
        node = helper.make_node(operator, list(inputs), [output], name=f"{output}/{operator}")
        for key, value in (attributes or {}).items():
            node.attribute.append(helper.make_attribute(key, value))
        self._model.graph.node.append(node)
        return output

    def model(self) -> onnx.ModelProto:
        """The finished model."""
        return self._model


class Images:
    """Layers of image networks, as PyTorch exports them in inference form; tensors are [n, c, h, w]."""

    def __init__(self, graph: GraphBuilder) -> None:
        self._graph = graph

    def conv(
        self, x: str, name: str, channels: tuple[int, int], kernel: int, *,
        stride: int = 1, padding: int = 0, groups: int = 1, biased: bool = False,
    ) -> str:  # fmt: skip
        """A square convolution from ``channels[0]`` to ``channels[1]``."""
        graph = self._graph
        into, out = channels
        shape = (out, into // groups, kernel, kernel)
        inputs = [x, graph.weight(f"{name}.weight", graph.weights.he(shape, shape[1] * kernel * kernel))]
        if biased:
            inputs.append(graph.weight(f"{name}.bias", graph.weights.bias((out,))))
        attributes: dict[str, Attribute] = {
            "dilations": [1, 1],
            "group": groups,
            "kernel_shape": [kernel, kernel],
            "pads": [padding] * 4,
            "strides": [stride, stride],
        }
        return graph.node("Conv", inputs, f"{name}.out", attributes)

    def batch_norm(self, x: str, name: str, channels: int, gain: float = 1.0) -> str:
        """Normalisation by statistics; ``gain`` is the mean of the scales."""
        graph = self._graph
        affine = graph.weights.affine(channels, gain)
        inputs = [
            x,
            graph.weight(f"{name}.weight", affine.scale),
            graph.weight(f"{name}.bias", affine.bias),
            graph.weight(f"{name}.running_mean", affine.mean),
            graph.weight(f"{name}.running_var", affine.variance),
        ]
        return graph.node("BatchNormalization", inputs, f"{name}.out", {"epsilon": 1e-5, "momentum": 0.9})

    def relu(self, x: str) -> str:
        """max(x, 0)."""
        return self._graph.node("Relu", [x], f"{x}.relu")

    def max_pool(self, x: str, name: str, *, padding: int = 0, ceil: int = 0) -> str:
        """3x3, stride 2."""
        attributes: dict[str, Attribute] = {
            "ceil_mode": ceil,
            "kernel_shape": [3, 3],
            "pads": [padding] * 4,
            "strides": [2, 2],
        }
        return self._graph.node("MaxPool", [x], name, attributes)

    def pool_and_flatten(self, x: str) -> str:
        """[n, c, h, w] -> [n, c]."""
        pooled = self._graph.node("GlobalAveragePool", [x], "pooled")
        return self._graph.node("Flatten", [pooled], "flat", {"axis": 1})
