"""Replace ``ConstantOfShape`` weights by seeded random values scaled by the weight's role."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from superopt.zoo import weights
from superopt.zoo.weights import AFFINE_GAIN, RESIDUAL_GAIN, Draw, Stream

__all__ = ["materialise"]

RELABELLING = frozenset({"Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
PASSING = RELABELLING | {"AveragePool", "Concat", "Dropout", "GlobalAveragePool", "LRN"}
SUMS = frozenset({"Add", "Sum"})
FLOATS = frozenset({TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16})
IR_WITH_FREE_INITIALIZERS = 4


class Role(Enum):
    """What a parameter does in the node that finally reads it."""

    WEIGHT = auto()
    BIAS = auto()
    SCALE = auto()
    VARIANCE = auto()


ROLES: Mapping[tuple[str, int], Role] = {
    ("Conv", 1): Role.WEIGHT,
    ("Conv", 2): Role.BIAS,
    ("ConvTranspose", 1): Role.WEIGHT,
    ("ConvTranspose", 2): Role.BIAS,
    ("Gemm", 1): Role.WEIGHT,
    ("Gemm", 2): Role.BIAS,
    ("MatMul", 1): Role.WEIGHT,
    ("BatchNormalization", 1): Role.SCALE,
    ("BatchNormalization", 2): Role.BIAS,
    ("BatchNormalization", 3): Role.BIAS,
    ("BatchNormalization", 4): Role.VARIANCE,
    ("Mul", 0): Role.SCALE,
    ("Mul", 1): Role.SCALE,
    ("Add", 0): Role.BIAS,
    ("Add", 1): Role.BIAS,
}


@dataclass(frozen=True)
class Parameter:
    """A float tensor that takes part in the computation as a weight of known shape."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]


@dataclass(frozen=True)
class Use:
    """Input ``index`` of ``node``."""

    node: onnx.NodeProto
    index: int


class Uses:
    """Who makes and who reads each tensor of a graph."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.producer = {output: node for node in graph.node for output in node.output}
        self.readers: defaultdict[str, list[Use]] = defaultdict(list)
        for node in graph.node:
            for index, name in enumerate(node.input):
                self.readers[name].append(Use(node, index))

    def final_reader(self, tensor: str) -> Use | None:
        """The first reader of ``tensor`` that does more than to relabel its dimensions."""
        for use in self.readers[tensor]:
            if use.node.op_type not in RELABELLING or use.index != 0:
                return use
            return self.final_reader(use.node.output[0])
        return None

    def source(self, tensor: str) -> str:
        """The tensor that ``tensor`` relabels."""
        node = self.producer.get(tensor)
        if node is None or node.op_type not in RELABELLING:
            return tensor
        return self.source(node.input[0])


def materialise(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """A copy of ``model`` whose generated weights are random initialisers; the argument is left alone.

    A weight is a ``ConstantOfShape`` of constant shape and of floats that a convolution, a matrix product, a
    normalisation, or a Mul or Add beside a computed tensor reads, directly or through a reshape. If there is
    one, the float initialisers with such a role are drawn anew too: trained statistics do not fit random
    weights. A model without generated weights comes back equal.
    """
    out = onnx.ModelProto()
    out.CopyFrom(model)
    uses = Uses(out.graph)
    generated = {parameter.name: parameter for parameter in _generated(out.graph)}
    roles = {name: role for name in generated if (role := _role(uses, name)) is not None}
    if not roles:
        return out
    kept = {p.name: p for p in _initialized(out.graph) if p.name not in generated}
    roles |= {name: role for name in kept if (role := _role(uses, name)) is not None}
    parameters = generated | kept
    stream = Stream(seed)
    drawn = {
        name: stream.array(_draw(uses, parameters, name, roles[name])).astype(parameters[name].dtype)
        for name in parameters
        if name in roles
    }
    _replace(out, drawn)
    return out


def _generated(graph: onnx.GraphProto) -> Iterable[Parameter]:
    shapes = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and len(node.attribute) == 1 and node.attribute[0].name == "value":
            shapes[node.output[0]] = node.attribute[0].t
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            continue
        value = next((a.t for a in node.attribute if a.name == "value"), None)
        kind = TensorProto.FLOAT if value is None else value.data_type
        if kind in FLOATS:
            shape = numpy_helper.to_array(shapes[node.input[0]])
            yield Parameter(node.output[0], tuple(map(int, shape)), helper.tensor_dtype_to_np_dtype(kind))


def _initialized(graph: onnx.GraphProto) -> Iterable[Parameter]:
    for tensor in graph.initializer:
        if tensor.data_type in FLOATS:
            dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            yield Parameter(tensor.name, tuple(tensor.dims), dtype)


def _role(uses: Uses, tensor: str) -> Role | None:
    use = uses.final_reader(tensor)
    return None if use is None else ROLES.get((use.node.op_type, use.index))


def _draw(uses: Uses, parameters: Mapping[str, Parameter], name: str, role: Role) -> Draw:
    shape = parameters[name].shape
    use = uses.final_reader(name)
    assert use is not None, f"{name} has a role, so something reads it"
    match role:
        case Role.WEIGHT:
            axes = _summed_axes(use.node, len(shape))
            if _rectified(uses, use.node.input[0]):
                return weights.rectified(shape, axes)
            return weights.lecun(shape, math.prod(shape[axis] for axis in axes))
        case Role.BIAS:
            return weights.bias(shape)
        case Role.SCALE:
            return weights.scale(shape, _gain(uses, parameters, use.node))
        case Role.VARIANCE:
            return weights.variance(shape)


def _summed_axes(node: onnx.NodeProto, rank: int) -> tuple[int, ...]:
    """The axes of a weight that one output element of ``node`` sums over."""
    transposed = any(a.name == "transB" and a.i for a in node.attribute)
    if node.op_type == "Conv" or (node.op_type == "Gemm" and transposed):
        return tuple(range(1, rank))
    if node.op_type == "ConvTranspose":
        return (0, *range(2, rank))
    return (max(rank - 2, 0),)


def _rectified(uses: Uses, tensor: str) -> bool:
    """Whether half of the energy of ``tensor`` was cut off by a relu (max pooling brings it back)."""
    node = uses.producer.get(tensor)
    if node is None:
        return False
    if node.op_type in PASSING:
        return all(
            _rectified(uses, name) for name in (node.input if node.op_type == "Concat" else node.input[:1])
        )
    return node.op_type == "Relu"


def _gain(uses: Uses, parameters: Mapping[str, Parameter], node: onnx.NodeProto) -> float:
    """Normalisations that end in a residual sum are scaled down, so that the sum does not grow with depth."""
    if node.op_type != "BatchNormalization":
        return 1.0
    gain = AFFINE_GAIN
    for use in uses.readers[node.output[0]]:
        terms = use.node.input
        if use.node.op_type not in SUMS or any(uses.source(term) in parameters for term in terms):
            continue
        makers = [uses.producer.get(term) for term in terms]
        if all(maker is not None and maker.op_type == "BatchNormalization" for maker in makers):
            return gain * math.sqrt(1.0 / len(terms))
        return gain * RESIDUAL_GAIN
    return gain


def _replace(model: onnx.ModelProto, drawn: Mapping[str, NDArray[np.generic]]) -> None:
    """Stores ``drawn`` as initialisers, and drops their generators and the shapes that only those read."""
    graph = model.graph
    removed = [n for n in graph.node if n.op_type == "ConstantOfShape" and n.output[0] in drawn]
    shapes = {node.input[0] for node in removed}
    nodes = [n for n in graph.node if not (n.op_type == "ConstantOfShape" and n.output[0] in drawn)]
    unread = shapes - {name for node in nodes for name in node.input} - {out.name for out in graph.output}
    nodes = [n for n in nodes if not (n.op_type == "Constant" and n.output[0] in unread)]
    initializers = [t for t in graph.initializer if t.name not in drawn and t.name not in unread]
    inputs = [value for value in graph.input if value.name not in unread]
    if model.ir_version < IR_WITH_FREE_INITIALIZERS:
        declared = {value.name for value in inputs}
        for name, array in drawn.items():
            if name not in declared:
                kind = helper.np_dtype_to_tensor_dtype(array.dtype)
                inputs.append(helper.make_tensor_value_info(name, kind, list(array.shape)))
    del graph.node[:], graph.initializer[:], graph.input[:]
    graph.node.extend(nodes)
    graph.initializer.extend(initializers)
    for name, array in drawn.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.initializer.add(name=name, data_type=kind, dims=array.shape, raw_data=array.tobytes())
    graph.input.extend(inputs)
