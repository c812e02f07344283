"""Wrap a small model for measuring: parallel copies of it, and inputs in the runtime's image layout."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from typing import TypeVar

import numpy as np
import onnx
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from onnx import TensorProto, helper, numpy_helper

from superopt.onnx_io.changes.probing import MOST_SETTINGS
from superopt.onnx_io.protos import names_within, rename_captured, renamed

TICK = "tick"
"""Additional scalar input of a model with parallel copies."""

BLOCKED = "blocked."
"""Prefix of names of tensors in the runtime's layout for images."""

_TOCK = "tock"
_SPREAD = "spread."
_UNREAD = "unread."
SPREAD_CHANNELS = 3
"""Channels of an input from which a blocked tensor is made: fewer than a block, so that the runtime does not
convert the input, and several, so that signs differ between the channels that are made."""

_CHANNELS = 1
_IMAGE_RANK = 4
_COUNTING = frozenset((TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL))
"""Element types of tensors that may hold indices."""


def with_open_sizes(model: bytes) -> bytes:
    """The model with input sizes and output shapes left open, except for image channels."""
    proto = onnx.ModelProto.FromString(model)
    for value in proto.graph.input:
        shape = value.type.tensor_type.shape
        for axis, dimension in enumerate(shape.dim):
            if len(shape.dim) != _IMAGE_RANK or axis != _CHANNELS:
                dimension.Clear()
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    return proto.SerializeToString()


def copy_name(name: str, copy: int) -> str:
    """The name of a copy's own input or weight."""
    return f"{name}.{copy}"


def with_blocked_inputs(model: bytes, names: Collection[str]) -> bytes:
    """The model with some float inputs [n, c, h, w] replaced by inputs of ``SPREAD_CHANNELS`` channels. A
    convolution expands them to all channels, each a mean of them with its own weights: the runtime keeps the
    result in its layout for images. A second, unused reader prevents the runtime from fusing this convolution
    with the next one."""
    if not names:
        return model
    proto = onnx.ModelProto.FromString(model)
    graph = proto.graph
    inputs = {value.name: value for value in graph.input}
    nodes = list(graph.node)
    graph.ClearField("node")
    for name in names:
        _add_spread(graph, inputs[name])
    places = {name: BLOCKED + name for name in names}
    for node in nodes:
        read = renamed(node, [places.get(name, name) for name in node.input], list(node.output))
        rename_captured(read, places)
        graph.node.append(read)
    return proto.SerializeToString()


def side_by_side(
    model: bytes, count: int, *, shared: Collection[str] = (), blocked: Collection[str] = ()
) -> bytes:
    """A model that runs ``count`` copies of a model and discards their results. Its output is the positive
    part of its scalar input ``TICK``. All copies share the inputs and weights in ``shared``, and the inputs
    in ``blocked``, which are those of ``with_blocked_inputs``; every copy has its own version of the others.
    An output that the model also reads stays an output, so that nothing is fused across it."""
    proto = onnx.ModelProto.FromString(model)
    graph = proto.graph
    parts = _Parts(graph)
    common = {name: name for name in shared} | {name: BLOCKED + name for name in blocked}
    graph.input.append(helper.make_tensor_value_info(TICK, TensorProto.FLOAT, [1]))
    graph.output.append(helper.make_tensor_value_info(_TOCK, TensorProto.FLOAT, [1]))
    graph.node.append(helper.make_node("Relu", [TICK], [_TOCK]))
    graph.input.extend(value for name, value in parts.inputs.items() if name in common)
    graph.initializer.extend(tensor for name, tensor in parts.weights.items() if name in common)
    declared = {value.name: value for value in graph.input}
    for name in blocked:
        _add_spread(graph, declared[name])
    for copy in range(count):
        parts.add_copy(graph, copy, common)
    return proto.SerializeToString()


def _add_spread(graph: onnx.GraphProto, value: onnx.ValueInfoProto) -> None:
    channels = value.type.tensor_type.shape.dim[_CHANNELS]
    shares = np.random.default_rng(0).dirichlet([1.0] * SPREAD_CHANNELS, channels.dim_value)
    weight = shares.astype(np.float32).reshape(*shares.shape, 1, 1)
    graph.initializer.append(numpy_helper.from_array(weight, _SPREAD + value.name))
    inputs, blocked, unread = [value.name, _SPREAD + value.name], BLOCKED + value.name, BLOCKED + _UNREAD
    graph.node.append(helper.make_node("Conv", inputs, [blocked], blocked, kernel_shape=[1, 1]))
    graph.node.append(helper.make_node("Relu", [blocked], [unread + value.name], unread + value.name))
    channels.dim_value = SPREAD_CHANNELS


class _Parts:
    """The inputs, weights, nodes and outputs of a graph under construction."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.inputs = {value.name: value for value in graph.input}
        self.weights = {tensor.name: tensor for tensor in graph.initializer}
        self._inner = [name for name in names_within(graph) if name]
        self._nodes = list(graph.node)
        read = {name for node in self._nodes for name in node.input}
        self._outputs = [value for value in graph.output if value.name in read]
        for field in ("input", "output", "initializer", "node", "value_info"):
            graph.ClearField(field)

    def add_copy(self, graph: onnx.GraphProto, copy: int, common: Mapping[str, str]) -> None:
        """Adds a copy; ``common`` maps the tensors that it shares to their names."""
        names = {name: copy_name(name, copy) for name in self._inner}
        names.update(common)
        names[""] = ""
        for name, value in self.inputs.items():
            if name not in common:
                _add_named(graph.input, value, names[name])
        for name, tensor in self.weights.items():
            if name not in common:
                _tell_apart(_add_named(graph.initializer, tensor, names[name]), copy)
        for value in self._outputs:
            _add_named(graph.output, value, names[value.name])
        for node in self._nodes:
            written = renamed(node, [names[name] for name in node.input], [names[n] for n in node.output])
            written.name = names[node.name]
            rename_captured(written, names)
            graph.node.append(written)


_Named = TypeVar("_Named", onnx.ValueInfoProto, TensorProto)


def _add_named(field: RepeatedCompositeFieldContainer[_Named], part: _Named, name: str) -> _Named:
    added = field.add()
    added.CopyFrom(part)
    added.name = name
    return added


def _tell_apart(tensor: TensorProto, copy: int) -> None:
    """Changes a few bits of the first number, because the runtime merges equal packed weights. Small tensors
    stay as they are: it computes other powers of 2.0000002 than of 2, and does not fuse what it knows."""
    if tensor.data_type in _COUNTING or prod(tensor.dims) <= MOST_SETTINGS:
        return
    if not tensor.raw_data:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    tensor.raw_data = bytes((tensor.raw_data[0] ^ copy % 256,)) + tensor.raw_data[1:]


__all__ = ["BLOCKED", "TICK", "copy_name", "side_by_side", "with_blocked_inputs"]
