"""Running statistics of batch normalisation as states of a training step: inputs with a next value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx
from onnx import TensorProto, helper

from superopt.errors import InvalidModelError
from superopt.onnx_io.node_building import NodeBuilder, node_label
from superopt.onnx_io.protos import STANDARD_DOMAINS, captured_names, constant_tensor
from superopt.onnx_io.training.batch_norm import Layer, is_batch_norm

NEXT = ".next"
"""What follows the name of a state in the name of the output that is its next value."""

_STATISTICS = (3, 4)
"""The operands of a BatchNormalization that are running statistics."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """A running mean or variance: an overridable initialiser ``input`` called ``name``, and the output with
    its next value."""

    name: str
    input: str
    output: str


@dataclass(frozen=True, slots=True)
class Owner:
    """A use as a statistic: operand ``slot`` of the layers whose operands other than the data are these."""

    slot: int
    operands: tuple[str, ...]


class RunningStatistics:
    """The running statistics of ``graph``. A layer that occurs several times, with all operands but its data
    the same, updates its statistics once for each; layers that share an initialiser otherwise, as exporters
    let tensors of equal content do, get copies of it."""

    def __init__(self, graph: onnx.GraphProto, builder: NodeBuilder) -> None:
        self._graph = graph
        self._builder = builder
        self._stored = {tensor.name: tensor for tensor in graph.initializer}
        self._elsewhere = _read_elsewhere(graph)
        self._owners: dict[str, Owner] = {}
        self._own: dict[tuple[str, Owner], str] = {}
        self._latest: dict[str, str] = {}
        self._constants: dict[str, TensorProto] = {}
        self._aliases: dict[str, str] = {}
        for node in graph.node:
            if node.op_type == "Identity" and node.domain in STANDARD_DOMAINS:
                self._aliases[node.output[0]] = node.input[0]
            elif node.op_type == "Constant" and (tensor := constant_tensor(node)) is not None:
                self._constants[node.output[0]] = tensor

    def owned(self, layer: Layer) -> Layer:
        """The layer with running statistics that are initialisers of its own. Raises InvalidModelError where
        they are neither initialisers nor constants."""
        operands = (layer.scale, layer.bias, layer.mean, layer.variance)
        mean, variance = (
            self._owned(layer, name, Owner(slot, operands))
            for slot, name in zip(_STATISTICS, (layer.mean, layer.variance), strict=True)
        )
        return replace(layer, mean=mean, variance=variance)

    def latest(self, name: str) -> str:
        """The tensor that holds the statistic after the updates written so far."""
        return self._latest.get(name, name)

    def update(self, name: str, value: str) -> None:
        """Records a further update."""
        self._latest[name] = value

    def states(self) -> tuple[Statistic, ...]:
        """Makes every updated statistic an overridable initialiser with a next value as output of the graph.
        Raises InvalidModelError where the graph has an output called as that one."""
        inputs = {value.name for value in self._graph.input}
        for name, value in self._latest.items():
            tensor = self._stored[name]
            if any(output.name == name + NEXT for output in self._graph.output):
                raise InvalidModelError(f"output {name + NEXT!r}: expected no output of that name")
            declared = helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))
            if name not in inputs:
                self._graph.input.append(declared)
            self._builder.write("Identity", [value], name + NEXT)
            declared.name = name + NEXT
            self._graph.output.append(declared)
        return tuple(Statistic(name, name, name + NEXT) for name in self._latest)

    def _owned(self, layer: Layer, name: str, owner: Owner) -> str:
        if (name, owner) not in self._own:
            is_free = name in self._stored and name not in self._elsewhere
            if is_free and self._owners.setdefault(name, owner) == owner:
                self._own[name, owner] = name
            else:
                self._own[name, owner] = self._copy(self._tensor(layer, name), name)
        return self._own[name, owner]

    def _tensor(self, layer: Layer, name: str) -> TensorProto:
        source = name
        for _ in range(len(self._aliases)):
            source = self._aliases.get(source, source)
        tensor = self._stored.get(source, self._constants.get(source))
        if tensor is None:
            raise InvalidModelError(
                f"{node_label(layer.node)}: expected running statistics that are initialisers, got {name!r}, "
                "which is computed or given"
            )
        return tensor

    def _copy(self, tensor: TensorProto, name: str) -> str:
        self._graph.initializer.append(tensor)
        made = self._graph.initializer[-1]
        made.name = self._builder.fresh(name)
        self._stored[made.name] = made
        return made.name


def _read_elsewhere(graph: onnx.GraphProto) -> frozenset[str]:
    """The tensors that are read as something else than running statistics."""
    read = {value.name for value in graph.output}
    for node in graph.node:
        read.update(captured_names(node))
        read.update(_operands_but_statistics(node))
    return frozenset(read)


def _operands_but_statistics(node: onnx.NodeProto) -> Sequence[str]:
    return node.input[: _STATISTICS[0]] if is_batch_norm(node) else node.input
