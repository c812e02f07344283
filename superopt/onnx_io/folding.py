"""Constant folding: values that depend only on weights are computed in float64 and rounded once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from superopt.domains import Array
from superopt.domains.floats import FloatDomain
from superopt.errors import UnsupportedError
from superopt.ir.graph import Graph, Node, NodeId, Value, Weight
from superopt.ir.types import TensorType
from superopt.onnx_io.protos import dtype_of
from superopt.ops import Operator
from superopt.traversal import postorder


def fold(graph: Graph, weight: Callable[[str], Array]) -> dict[Value, Array]:
    """The weight-only values that other nodes or graph outputs read, except weights themselves. ``weight``
    gives the content of a weight by its label. Arrays have the element type of the value."""
    folded = graph.weight_only
    wanted = {
        value for node in graph if node.id not in folded for value in node.inputs if value.node in folded
    }
    wanted.update(value for value in graph.outputs if value.node in folded)
    folder = Folder(graph, weight)
    return {
        value: folder.value(value)
        for value in sorted(wanted)
        if not isinstance(graph[value.node].operator, Weight)
    }


class Folder:
    """Evaluates weight-only values on demand and caches the results."""

    def __init__(self, graph: Graph, weight: Callable[[str], Array]) -> None:
        self._graph = graph
        self._weight = weight
        self._domain = FloatDomain(np.float64)
        self._arrays: dict[Value, Array] = {}

    def value(self, value: Value) -> Array:
        """The content of a weight-only value, rounded to its element type."""
        for node_id in postorder(self._missing((value,)), lambda n: self._missing(self._graph[n].inputs)):
            self._evaluate(self._graph[node_id])
        array = self._arrays[value][0]
        type_ = self._graph.type_of(value)
        if isinstance(type_, TensorType) and type_.element.is_movable:
            with np.errstate(over="ignore"):
                return np.asarray(array, dtype_of(type_.element))
        return array

    def _has_integers(self, node: Node) -> bool:
        """Whether it computes with integers, which wrap around."""
        types = (self._graph.type_of(value) for value in (*node.inputs, *node.values))
        return all(isinstance(t, TensorType) and t.element.is_integer for t in types)

    def _missing(self, values: Iterable[Value]) -> list[NodeId]:
        """The nodes that must still be evaluated to have the values."""
        return [value.node for value in values if Value(value.node) not in self._arrays]

    def _evaluate(self, node: Node) -> None:
        operator = node.operator
        if isinstance(operator, Weight):
            results: tuple[Array, ...] = (np.asarray(self._weight(operator.label))[np.newaxis],)
        elif isinstance(operator, Operator):
            operands = [self._arrays[value] for value in node.inputs]
            if not operator.moves and not (operator.polynomial and self._has_integers(node)):
                operands = [array.astype(np.float64) for array in operands]
            results = operator.evaluate(self._domain, *operands)
        else:
            raise UnsupportedError(f"{operator.name} does not depend on weights alone and cannot be folded")
        self._arrays.update(zip(node.values, results, strict=True))


def folded_bytes(graph: Graph, value: Value) -> tuple[int, int]:
    """The bytes of the folded value, and those of the distinct weights that it is computed from."""
    needed = postorder([value.node], lambda node: (source.node for source in graph[node].inputs))
    weights = (node for node in map(graph.__getitem__, needed) if isinstance(node.operator, Weight))
    return _bytes(graph, value), sum(_bytes(graph, node.value) for node in weights)


def _bytes(graph: Graph, value: Value) -> int:
    type_ = graph.type_of(value)
    if not isinstance(type_, TensorType) or not isinstance(type_.elements, int):
        return 0
    return type_.elements * type_.element.bytes_per_element


__all__ = ["Folder", "fold", "folded_bytes"]
