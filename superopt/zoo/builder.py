"""A small builder over ``onnx.helper``, with which the zoo's networks are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from superopt.zoo.blueprint import Blueprint
from superopt.zoo.weights import Draw

__all__ = ["IR_VERSION", "OPSET", "Attribute", "GraphBuilder"]

IR_VERSION = 8
OPSET = 17

type_of_dtype: Mapping[np.dtype[np.generic], int] = {
    np.dtype(np.bool_): TensorProto.BOOL,
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.int64): TensorProto.INT64,
}

Attribute = int | float | str | Sequence[int]


class GraphBuilder:
    """Builds a model in place, node by node; tensors are identified by ONNX name. Weights are generated
    later, in the order in which they were added: see ``Blueprint``."""

    def __init__(self, name: str, opset: int = OPSET) -> None:
        self._draws: dict[str, Draw] = {}
        self._model = helper.make_model(
            onnx.GraphProto(name=name),
            producer_name="superopt.zoo",
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", opset)],
        )

    def input(
        self, name: str, shape: Sequence[int | str], dtype: type[np.float32 | np.int64] = np.float32
    ) -> str:
        """A graph input; a text is the name of an open dimension."""
        kind = type_of_dtype[np.dtype(dtype)]
        self._model.graph.input.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def output(self, name: str, shape: Sequence[int | str]) -> None:
        """Declares the float tensor ``name`` as a graph output."""
        value = helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
        self._model.graph.output.append(value)

    def weight(self, name: str, draw: Draw) -> str:
        """A random initialiser."""
        self._model.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=draw.shape)
        self._draws[name] = draw
        return name

    def buffer(self, name: str, array: NDArray[np.float32] | NDArray[np.int64] | NDArray[np.bool_]) -> str:
        """An initialiser with the given content, not counted as a parameter."""
        self._model.graph.initializer.add(
            name=name, data_type=type_of_dtype[array.dtype], dims=array.shape, raw_data=array.tobytes()
        )
        return name

    def integers(self, name: str, values: Sequence[int]) -> str:
        """A one-dimensional int64 initialiser: a shape, axes, sizes."""
        return self.buffer(name, np.asarray(values, dtype=np.int64))

    def constant(self, name: str, value: float | NDArray[np.float32]) -> str:
        """A float scalar or array in a Constant node, as exporters write it: no parameter of training."""
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
        return self.nodes(operator, inputs, [output], attributes)[0]

    def nodes(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Sequence[str]:
        """One node with any number of outputs; returns their names."""
        name = next(output for output in outputs if output)
        node = helper.make_node(operator, list(inputs), list(outputs), name=f"{name}/{operator}")
        for key, value in (attributes or {}).items():
            node.attribute.append(helper.make_attribute(key, value))
        self._model.graph.node.append(node)
        return outputs

    def blueprint(self) -> Blueprint:
        """The finished network."""
        return Blueprint(self._model, self._draws)
