"""Networks in small for tests of the equivalence check and of what it is measured by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from superopt.optimizer.cost.runtime.session import Array

_RANDOM = np.random.default_rng(7)


def normal(*shape: int, scale: float = 1.0) -> Array:
    return (_RANDOM.standard_normal(shape) * scale).astype(np.float32)


Made = tuple[str, str, str, Mapping[str, object]]


def network(
    nodes: Sequence[Made],
    weights: Mapping[str, object],
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, int],
) -> onnx.ModelProto:
    """Nodes are (operator, operands, result, attributes); outputs give element types."""
    made: list[onnx.NodeProto] = []
    for operator, operands, result, attributes in nodes:
        node = helper.make_node(operator, operands.split(), result.split())
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        made.append(node)
    graph = helper.make_graph(
        made,
        "network",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, element, None) for name, element in outputs.items()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def typed(model: onnx.ModelProto) -> onnx.ModelProto:
    """With the shapes of its outputs."""
    inferred = onnx.shape_inference.infer_shapes(model)
    known = {value.name: value for value in inferred.graph.value_info}
    for value in inferred.graph.output:
        if value.name in known:
            value.CopyFrom(known[value.name])
    del inferred.graph.value_info[:]
    return inferred


def image_network() -> onnx.ModelProto:
    """A detector in small: convolutions, normalisation, pooling, a resize, a gate, sigmoid at the end."""
    c = 8
    nodes: list[Made] = [
        ("Conv", "x w1 b1", "c1", {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}),
        ("BatchNormalization", "c1 gamma beta mean variance", "n1", {"epsilon": 1e-5}),
        ("Clip", "n1 zero six", "r1", {}),
        ("AveragePool", "r1", "p1", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("Conv", "p1 w2 b2", "c2", {"kernel_shape": [1, 1]}),
        ("LeakyRelu", "c2", "l2", {"alpha": 0.01}),
        ("Add", "l2 p1", "s2", {}),
        ("Relu", "s2", "r2", {}),
        ("GlobalAveragePool", "r2", "g", {}),
        ("HardSigmoid", "g", "gate", {"alpha": 0.2, "beta": 0.5}),
        ("Mul", "r2 gate", "m", {}),
        ("Resize", "m nothing scales", "u",
         {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}),
        ("Concat", "u r1", "cat", {"axis": 1}),
        ("Conv", "cat w3 b3", "z", {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}),
        ("Sigmoid", "z", "y", {}),
    ]  # fmt: skip
    weights = {
        "w1": normal(c, 3, 3, 3, scale=0.3), "b1": normal(c, scale=0.1),
        "gamma": 1 + normal(c, scale=0.1), "beta": 1 + normal(c), "mean": normal(c, scale=0.1),
        "variance": np.array([0.002, 0.5, 0.01, 1, 0.1, 2, 0.05, 0.7], np.float32),
        "zero": np.float32(0), "six": np.float32(6),
        "w2": normal(c, c, 1, 1, scale=0.5), "b2": normal(c, scale=0.1),
        "nothing": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32),
        "w3": normal(4, 2 * c, 3, 3, scale=0.3), "b3": normal(4) - 2,
    }  # fmt: skip
    return typed(network(nodes, weights, {"x": [1, 3, 16, 16]}, {"y": TensorProto.FLOAT}))


def text_network() -> onnx.ModelProto:
    """A layer of a transformer: attention, layer normalisation, a gelu by erf, softmax at the end."""
    d = 16
    nodes: list[Made] = [
        ("MatMul", "x wq", "q", {}), ("MatMul", "x wk", "k", {}),
        ("Transpose", "k", "kt", {"perm": [0, 2, 1]}),
        ("MatMul", "q kt", "scores", {}), ("Softmax", "scores", "weights", {"axis": -1}),
        ("MatMul", "weights x", "mixed", {}), ("Add", "mixed x", "sum", {}),
        ("LayerNormalization", "sum gamma beta", "n", {"axis": -1, "epsilon": 1e-5}),
        ("MatMul", "n w1", "h0", {}), ("Add", "h0 b1", "h", {}),
        ("Mul", "h root", "hr", {}), ("Erf", "hr", "e", {}), ("Add", "e one", "e1", {}),
        ("Mul", "h e1", "he", {}), ("Mul", "he half", "gelu", {}),
        ("MatMul", "gelu w2", "o", {}), ("Add", "o b2", "z", {}), ("Softmax", "z", "y", {"axis": -1}),
        ("ArgMax", "z", "index", {"axis": -1, "keepdims": 0}),
    ]  # fmt: skip
    weights = {
        "wq": normal(d, d, scale=0.2), "wk": normal(d, d, scale=0.2), "gamma": 1 + normal(d, scale=0.1),
        "beta": normal(d, scale=0.1), "w1": normal(d, d, scale=0.3), "b1": normal(d, scale=0.1),
        "root": np.float32(math.sqrt(0.5)), "one": np.float32(1), "half": np.float32(0.5),
        "w2": normal(d, 5, scale=0.3), "b2": normal(5, scale=0.1),
    }  # fmt: skip
    outputs = {"y": TensorProto.FLOAT, "index": TensorProto.INT64}
    return typed(network(nodes, weights, {"x": [2, 6, d]}, outputs))


NETWORKS = {"image": image_network(), "text": text_network()}


def detector(scale: float, shift: float, *, split: bool = False) -> onnx.ModelProto:
    """sigmoid(100 w x + shift) with its sum in one piece or in two: near 0 rounding is all of the output."""
    weight = np.random.default_rng(3).standard_normal((64, 32)).astype(np.float32) * np.float32(scale)
    halves = {"w": weight} if not split else {"w": weight[:40], "v": weight[40:]}
    sums: list[Made] = [("MatMul", "x w", "z", {})] if not split else [
        ("Split", "x sizes", "left right", {"axis": 1}), ("MatMul", "left w", "a", {}),
        ("MatMul", "right v", "b", {}), ("Add", "a b", "z", {}),
    ]  # fmt: skip
    nodes: list[Made] = [*sums, ("Add", "z shift", "t", {}), ("Sigmoid", "t", "y", {})]
    weights = {**halves, "shift": np.full(32, shift, np.float32), "sizes": np.array([40, 24])}
    if not split:
        del weights["sizes"]
    return typed(network(nodes, weights, {"x": [4, 64]}, {"y": TensorProto.FLOAT}))
