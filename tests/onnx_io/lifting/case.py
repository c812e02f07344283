"""A model with its graph as text and its nodes written anew, to say what lifting and writing do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx
from onnx import TensorProto

from tests.onnx_io.kit import graph, model


@dataclass(frozen=True)
class Case:
    """A model by its nodes (the last one makes the output), its graph as text, and its nodes written anew."""

    name: str
    nodes: Sequence[onnx.NodeProto]
    inputs: Sequence[onnx.ValueInfoProto]
    lifted: str
    written: str
    weights: Sequence[TensorProto] = field(default=())
    opset: int = 17

    def model(self) -> bytes:
        """The model, its output typed by ONNX."""
        outputs = [onnx.ValueInfoProto(name=name) for name in self.nodes[-1].output]
        made = model(self.nodes, self.inputs, outputs, self.weights, opset=self.opset)
        inferred = onnx.shape_inference.infer_shapes(made, data_prop=True)
        made.graph.CopyFrom(graph(self.nodes, self.inputs, inferred.graph.output, self.weights))
        return made.SerializeToString()
