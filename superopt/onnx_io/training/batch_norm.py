"""Batch normalisation by the statistics of the batch, as plain nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from superopt.errors import InvalidModelError
from superopt.ir.types import ElementType, TensorType, ValueType
from superopt.onnx_io.node_building import NodeBuilder, node_label
from superopt.onnx_io.protos import STANDARD_DOMAINS, captured_names, simplest_fraction

DEFAULT_EPSILON, DEFAULT_MOMENTUM = 1e-5, 0.9

_TRAINING_IS_AN_ATTRIBUTE = 14


@dataclass(frozen=True, slots=True)
class RunningOutputs:
    """The names by which a graph reads the next running statistics of a node in training mode, if it does."""

    mean: str
    variance: str


def is_batch_norm(node: onnx.NodeProto) -> bool:
    """Whether the node is a BatchNormalization of the standard domain."""
    return node.op_type == "BatchNormalization" and node.domain in STANDARD_DOMAINS


def as_new_form(graph: onnx.GraphProto, opset: int) -> None:
    """Removes from BatchNormalization nodes, in place, what operator set 14 no longer has: further outputs,
    which had the training mode. Raises InvalidModelError where one is read."""
    if opset >= _TRAINING_IS_AN_ATTRIBUTE:
        return
    found = as_inference_form(graph)
    if found:
        # Such an output may have the name of the input that it replaces.
        raise InvalidModelError(
            f"output {next(iter(found))!r} of a BatchNormalization: expected running statistics that nothing "
            f"reads, as the model has operator set {opset}; export it at 14 or newer"
        )


def as_inference_form(graph: onnx.GraphProto) -> Mapping[str, RunningOutputs]:
    """Turns all BatchNormalization nodes into inference form, in place: one output, running statistics. The
    result gives, by that output, the other outputs of a node in training mode that the graph reads. Raises
    InvalidModelError for statistics per position (``spatial=0``), and where saved statistics are read."""
    read = {name for node in graph.node for name in (*node.input, *captured_names(node))}
    read.update(value.name for value in graph.output)
    found: dict[str, RunningOutputs] = {}
    for node in filter(is_batch_norm, graph.node):
        attributes = {attribute.name: attribute for attribute in node.attribute}
        if "spatial" in attributes and not attributes["spatial"].i:
            raise InvalidModelError(
                f"{node_label(node)}: expected statistics per channel, got spatial=0, which operator set 9 "
                "removed"
            )
        outputs = [*node.output, "", "", "", ""][1:5]
        if not read.isdisjoint(filter(None, outputs[2:])):
            raise InvalidModelError(f"{node_label(node)}: expected saved statistics that nothing reads")
        if not read.isdisjoint(filter(None, outputs[:2])):
            mean, variance = (name if name in read else "" for name in outputs[:2])
            found[node.output[0]] = RunningOutputs(mean, variance)
        del node.output[1:]
        kept = [attribute for attribute in node.attribute if attribute.name != "training_mode"]
        del node.attribute[:]
        node.attribute.extend(kept)
    return found


@dataclass(frozen=True, slots=True)
class Layer:
    """The operands of a BatchNormalization node of ``channels`` channels and of rank ``rank``."""

    node: onnx.NodeProto
    data: str
    scale: str
    bias: str
    mean: str
    variance: str
    rank: int
    channels: int
    epsilon: float
    momentum: float


def layer_of(node: onnx.NodeProto, types: Mapping[str, ValueType]) -> Layer:
    """The layer of a node. Raises InvalidModelError for other element types than float32, an unknown rank,
    and an unknown number of channels."""
    operands = [types.get(name) for name in node.input]
    for name, type_ in zip(node.input, operands, strict=True):
        if not isinstance(type_, TensorType):
            raise InvalidModelError(f"{node_label(node)}: expected {name!r} of known rank, got {type_}")
        if type_.element is not ElementType.FLOAT:
            raise InvalidModelError(
                f"{node_label(node)}: expected float32 operands, got {name!r} of {type_.element}; "
                "--batch-norm frozen keeps it as it is"
            )
    data, mean = operands[0], operands[3]
    assert isinstance(data, TensorType)
    assert isinstance(mean, TensorType)
    channels = mean.shape[0] if mean.rank == 1 else None
    if data.rank < 2 or not isinstance(channels, int):
        raise InvalidModelError(
            f"{node_label(node)}: expected data of 2 or more axes and a known number of channels, got "
            f"{data} and {mean}"
        )
    attributes = {attribute.name: attribute.f for attribute in node.attribute}
    name, scale, bias, mean_name, variance = node.input
    return Layer(
        node, name, scale, bias, mean_name, variance, data.rank, channels,
        attributes.get("epsilon", DEFAULT_EPSILON), attributes.get("momentum", DEFAULT_MOMENTUM),
    )  # fmt: skip


class BatchNormWriter:
    """Writes layers into ``builder``, each a normalisation by the mean and the biased variance over all axes
    but 1."""

    def __init__(self, builder: NodeBuilder) -> None:
        self._builder = builder

    def write(self, layer: Layer) -> tuple[str, str]:
        """Writes the normalisation; returns the names of mean and biased variance of the batch, of shape
        [channels]."""
        build, out = self._builder, layer.node.output[0]
        axes = np.array([axis for axis in range(layer.rank) if axis != 1], np.int64)
        over = build.constant("batch_axes", axes)
        mean = build.add("ReduceMean", [layer.data, over], f"{out}.mean")
        centred = build.add("Sub", [layer.data, mean], f"{out}.centred")
        squares = build.add("Mul", [centred, centred], f"{out}.squares")
        variance = build.add("ReduceMean", [squares, over], f"{out}.variance")
        epsilon = build.constant("batch_epsilon", np.array(layer.epsilon, np.float32))
        shifted = build.add("Add", [variance, epsilon], f"{out}.shifted")
        deviation = build.add("Sqrt", [shifted], f"{out}.deviation")
        shape = build.constant(
            "batch_shape", np.array([1, layer.channels, *[1] * (layer.rank - 2)], np.int64)
        )
        scale = build.add("Reshape", [layer.scale, shape], f"{out}.scale")
        factor = build.add("Div", [scale, deviation], f"{out}.factor")
        scaled = build.add("Mul", [centred, factor], f"{out}.scaled")
        bias = build.add("Reshape", [layer.bias, shape], f"{out}.bias")
        build.write("Add", [scaled, bias], out)
        flat = build.constant("batch_channels", np.array([layer.channels], np.int64))
        return (
            build.add("Reshape", [mean, flat], f"{out}.batch_mean"),
            build.add("Reshape", [variance, flat], f"{out}.batch_variance"),
        )

    def unbiased(self, layer: Layer, variance: str) -> str:
        """Writes the variance times N / (N - 1), or times N where N is 1; N elements belong to a channel."""
        build, out = self._builder, layer.node.output[0]
        size = build.add("Size", [layer.data], f"{out}.size")
        per = build.constant("batch_channels", np.array(layer.channels, np.int64))
        count = build.add("Div", [size, per], f"{out}.count")
        one = build.constant("batch_one", np.array(1, np.int64))
        fewer = build.add("Max", [build.add("Sub", [count, one], f"{out}.fewer"), one], f"{out}.fewer")
        real = [build.add("Cast", [n], f"{out}.real", {"to": TensorProto.FLOAT}) for n in (count, fewer)]
        share = build.add("Div", real, f"{out}.share")
        return build.add("Mul", [variance, share], f"{out}.unbiased")

    def updated(self, layer: Layer, old: str, batch: str) -> str:
        """Writes ``momentum * old + (1 - momentum) * batch``; returns its name."""
        build, name = self._builder, f"{batch}.next"
        momentum = simplest_fraction(layer.momentum)
        kept, added = (
            build.constant("batch_momentum", np.array(float(share), np.float32))
            for share in (momentum, 1 - momentum)
        )
        terms = [
            build.add("Mul", [old, kept], f"{name}.kept"),
            build.add("Mul", [batch, added], f"{name}.added"),
        ]
        return build.add("Add", terms, name)
