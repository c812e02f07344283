"""Output types of opaque nodes observed in a run, where shape inference gives none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np

from superopt.errors import UnsupportedError
from superopt.ir.graph import Graph, Input, NodeId, Value, Weight
from superopt.ir.types import ElementType, TensorType, UnknownType
from superopt.onnx_io import LiftedModel, build_model
from superopt.onnx_io.protos import contains_loop
from superopt.ops.opaque import Opaque
from superopt.optimizer.cost.machine import bytes_of
from superopt.optimizer.cost.measuring.random_content import DTYPES, array_of
from superopt.optimizer.cost.runtime.session import Array, LoadedModel, RuntimeRefusedError
from superopt.traversal import postorder

Port: TypeAlias = "tuple[int, int]"
"""Index of an opaque node in its model, and index of one of its outputs."""

_FEW = 64
_MAX_BYTES = 96 * 2**20


def observed_types(
    lifted: LiftedModel, sized: Callable[[TensorType], TensorType]
) -> Mapping[Port, TensorType]:
    """Output types of unknown rank, from one run of the nodes that produce them and of those that compute
    their shapes, on random inputs; empty where the runtime refuses, or where such inputs would determine a
    loop's iteration count. ``sized`` gives types concrete sizes."""
    graph = lifted.graph
    unknown = [value for node in graph for value in node.values if _is_unknown(graph, value)]
    try:
        part = _Part(graph, sized, unknown)
        nodes = lifted.source.proto.graph.node
        if any(contains_loop(nodes[index]) for index in part.copied):
            return {}
        if part.bytes > _MAX_BYTES:
            return {}
        weights = {label: _content(lifted, label, type_) for label, type_ in part.weights.items()}
        model = LoadedModel(build_model(part.graph, weights, source=lifted.source), 1)
        results = model.run({label: array_of(type_) for label, type_ in part.inputs.items()})
    except (RuntimeRefusedError, UnsupportedError, KeyError):
        return {}
    found: dict[Port, TensorType] = {}
    for value, result in zip(unknown, results, strict=True):
        operator = graph[value.node].operator
        if isinstance(operator, Opaque) and isinstance(result, np.ndarray):
            found[operator.index, value.port] = _type_of(cast("Array", result))
    return found


def _type_of(array: Array) -> TensorType:
    element = next((e for e, dtype in DTYPES.items() if np.dtype(dtype) == array.dtype), ElementType.OTHER)
    return TensorType(element, tuple(array.shape))


def _content(lifted: LiftedModel, label: str, type_: TensorType) -> Array:
    """The content of a weight: the original where it may be a shape, else random."""
    few = isinstance(type_.elements, int) and type_.elements <= _FEW
    return np.asarray(lifted.weight(label)) if few else array_of(type_)


def _is_unknown(graph: Graph, value: Value) -> bool:
    return isinstance(graph.type_of(value), UnknownType)


class _Part:
    """The subgraph that produces values of unknown rank, and its inputs."""

    def __init__(
        self, graph: Graph, sized: Callable[[TensorType], TensorType], unknown: Sequence[Value]
    ) -> None:
        self.inputs: dict[str, TensorType] = {}
        self.weights: dict[str, TensorType] = {}
        self.copied: list[int] = []
        self._graph = graph
        self._sized = sized
        self._editor = Graph.empty().edit()
        self._places: dict[Value, Value] = {}
        made = self._made(unknown)
        for node in map(graph.nodes.__getitem__, graph.order):
            if node.id in made:
                if isinstance(node.operator, Opaque):
                    self.copied.append(node.operator.index)
                inputs = tuple(map(self._place, node.inputs))
                added = self._editor.add(node.operator, inputs, types=node.types)
                self._places.update(zip(node.values, added.values, strict=True))
        self._editor.set_outputs(self._places[value] for value in unknown)
        self.graph = self._editor.build()

    @property
    def bytes(self) -> int:
        """Total bytes of the inputs."""
        return sum(map(bytes_of, (*self.inputs.values(), *self.weights.values())))

    def _made(self, unknown: Sequence[Value]) -> set[NodeId]:
        """The nodes of unknown values, and those of the shapes that they need."""
        ends = (value.node for value in unknown)
        return set(postorder(ends, lambda n: (v.node for v in self._graph[n].inputs if self._is_shape(v))))

    def _is_shape(self, value: Value) -> bool:
        node, type_ = self._graph[value.node], self._graph.type_of(value)
        if isinstance(node.operator, Input | Weight) or not isinstance(type_, TensorType):
            return False
        elements = self._sized(type_).elements
        return type_.element is ElementType.INT64 and isinstance(elements, int) and elements <= _FEW

    def _place(self, value: Value) -> Value:
        if value not in self._places:
            node, type_ = self._graph[value.node], self._graph.type_of(value)
            if not isinstance(type_, TensorType) or type_.element not in DTYPES:
                raise UnsupportedError(f"cannot generate a value of type {type_}")
            sized = self._sized(type_)
            operator = node.operator
            if isinstance(operator, Weight):
                self.weights[operator.label] = sized
            else:
                operator = Input(f"x{len(self.inputs)}", sized)
                self.inputs[operator.label] = sized
            self._places[value] = self._editor.add(operator).value
        return self._places[value]


__all__ = ["Port", "observed_types"]
