"""A small graph network over vertices with features, as ONNX models for training and for use.

    h = relu(x W + b)
    h = h + relu(h U + A h V + A' h W + b)          for each layer; A are edges, A' those reversed
    value = log(sum of exp(h u + x v) over the vertices)

The value is a sum in the exponential domain, so that parts of a whole add up as times do. DisCo's estimator
(Yi et al. 2022, section 4.3) has layers of attention and dense layers after the sum in place of this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from superopt.zoo.builder import GraphBuilder
from superopt.zoo.weights import Draw

if TYPE_CHECKING:
    import onnx

Floats = NDArray[np.float32]

VERTICES, EDGES, PRESENT, VALUE, LOSS = "vertices", "edges", "present", "value", "loss"
"""Inputs and outputs: features [graphs, vertices, features], 1 where an edge leads from one vertex (second
axis) to another (third axis), 0 for a vertex and ``ABSENT`` for padding [graphs, vertices, 1]; value [graphs,
1]."""

CONSTANT = "differences"
"""A matrix of the model of pairs that is not trained."""

ABSENT = -1e4
_OPSET = 17


@dataclass(frozen=True, slots=True)
class GraphNetwork:
    """The sizes of a network."""

    features: int
    width: int = 32
    layers: int = 2

    def trained_on_values(self, graphs: int, vertices: int, seed: int) -> onnx.ModelProto:
        """The network for batches of so many graphs of so many vertices, to be trained by the mean absolute
        difference of its value and the target."""
        builder = GraphBuilder("graph-network", _OPSET)
        self._value(builder, self._inputs(builder, graphs, vertices))
        builder.output(VALUE, (graphs, 1))
        return builder.blueprint().model(seed)

    def trained_on_pairs(self, pairs: int, vertices: int, seed: int) -> onnx.ModelProto:
        """The network for batches of pairs of graphs, the one with the lower value first: inputs have
        an axis of 2 after the first one. Its output ``LOSS`` is the mean of log(1 + exp(lower - higher)), a
        pairwise logistic loss."""
        builder = GraphBuilder("graph-network-pairs", _OPSET)
        sizes = (2 * pairs, vertices)
        flat = [
            builder.node(
                "Reshape",
                [
                    builder.input(name, (pairs, 2, vertices, columns)),
                    builder.integers(f"{name}.shape", (*sizes, columns)),
                ],
                f"{name}.flat",
            )
            for name, columns in ((VERTICES, self.features), (EDGES, vertices), (PRESENT, 1))
        ]
        self._value(builder, (flat[0], flat[1], flat[2]))
        differences = np.zeros((pairs, 2 * pairs), np.float32)
        differences[np.arange(pairs), 2 * np.arange(pairs)] = 1
        differences[np.arange(pairs), 2 * np.arange(pairs) + 1] = -1
        margin = builder.node("MatMul", [builder.buffer(CONSTANT, differences), VALUE], "margin")
        raised = builder.node("Exp", [margin], "raised")
        shifted = builder.node("Add", [raised, builder.constant("one", 1.0)], "shifted")
        logistic = builder.node("Log", [shifted], "logistic")
        builder.node("ReduceMean", [logistic], LOSS, {"axes": [0, 1], "keepdims": 0})
        builder.output(LOSS, ())
        return builder.blueprint().model(seed)

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of the weights by name."""
        builder = GraphBuilder("graph-network", _OPSET)
        self._value(builder, self._inputs(builder, 1, 1))
        return {name: draw.shape for name, draw in builder.blueprint().draws.items()}

    def applied(self, weights: Mapping[str, Floats]) -> onnx.ModelProto:
        """The trained network for any number of graphs and vertices."""
        builder = GraphBuilder("graph-network", _OPSET)
        self._value(builder, self._inputs(builder, "graphs", "vertices"))
        builder.output(VALUE, ("graphs", 1))
        model = builder.blueprint().model(0)
        for tensor in model.graph.initializer:
            if tensor.name in weights:
                tensor.raw_data = np.asarray(weights[tensor.name], np.float32).tobytes()
        return model

    def _inputs(self, builder: GraphBuilder, graphs: int | str, vertices: int | str) -> tuple[str, str, str]:
        return (
            builder.input(VERTICES, (graphs, vertices, self.features)),
            builder.input(EDGES, (graphs, vertices, vertices)),
            builder.input(PRESENT, (graphs, vertices, 1)),
        )

    def _value(self, builder: GraphBuilder, inputs: tuple[str, str, str]) -> None:
        given, edges, present = inputs
        reversed_edges = builder.node("Transpose", [edges], "reversed", {"perm": [0, 2, 1]})
        sums = [self._linear(builder, "first", given, (self.features, self.width), math.sqrt(2))]
        hidden = builder.node("Relu", [self._biased(builder, "first", sums, self.width)], "hidden.0")
        for layer in range(1, self.layers + 1):
            before = builder.node("MatMul", [edges, hidden], f"layer.{layer}.read")
            after = builder.node("MatMul", [reversed_edges, hidden], f"layer.{layer}.reading")
            sums = [
                self._linear(builder, f"layer.{layer}.{name}", tensor, (self.width, self.width), 0.7)
                for name, tensor in (("own", hidden), ("before", before), ("after", after))
            ]
            changed = builder.node(
                "Relu", [self._biased(builder, f"layer.{layer}", sums, self.width)], f"layer.{layer}.changed"
            )
            hidden = builder.node("Add", [hidden, changed], f"hidden.{layer}")
        own = self._linear(builder, "each.hidden", hidden, (self.width, 1), 0.3)
        direct = self._linear(builder, "each.direct", given, (self.features, 1), 0.3)
        each = builder.node("Add", [own, direct], "each")
        counted = builder.node("Add", [each, present], "counted")
        builder.node("ReduceLogSumExp", [counted], VALUE, {"axes": [1], "keepdims": 0})

    @staticmethod
    def _linear(builder: GraphBuilder, name: str, x: str, sizes: tuple[int, int], gain: float) -> str:
        deviation = gain / math.sqrt(sizes[0])
        weight = builder.weight(f"{name}.weight", Draw(sizes, "normal", 0.0, deviation))
        return builder.node("MatMul", [x, weight], f"{name}.product")

    @staticmethod
    def _biased(builder: GraphBuilder, name: str, terms: Sequence[str], width: int) -> str:
        bias = builder.weight(f"{name}.bias", Draw((width,), "normal", 0.0, 0.01))
        total = terms[0]
        for number, term in enumerate((*terms[1:], bias)):
            total = builder.node("Add", [total, term], f"{name}.sum.{number}")
        return total
