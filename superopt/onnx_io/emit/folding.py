"""Constant folding: values that depend only on weights are computed in float64 and rounded once, and before
and after steps that compare or convert numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from superopt.domains import Array
from superopt.domains.arrays import aligned
from superopt.domains.floats import FloatDomain
from superopt.errors import UnsupportedError
from superopt.ir.graph import Graph, Node, NodeId, Value, Weight
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.protos import dtype_of
from superopt.ops import Operator
from superopt.traversal import postorder

_REMEMBERED = 1 << 26


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


class _ByOrder(FloatDomain):
    """For comparisons: of a difference, only the sign. Equal infinities and large integers have one, too."""

    def subtract(self, left: Array, right: Array) -> Array:
        """1, 0 or -1; NaN where one of them is."""
        left, right = aligned(left, right)
        sign = np.subtract(np.greater(left, right), np.less(left, right), dtype=np.float64)
        return np.where(np.isnan(left) | np.isnan(right), np.nan, sign)


_BY_ORDER = _ByOrder(np.float64)


class Folder:
    """Evaluates weight-only values on demand; results are remembered up to ``_REMEMBERED`` bytes."""

    def __init__(self, graph: Graph, weight: Callable[[str], Array]) -> None:
        self._graph = graph
        self._weight = weight
        self._domain = FloatDomain(np.float64)
        self._arrays: dict[Value, Array] = {}
        self._bytes = 0

    def value(self, value: Value) -> Array:
        """The content of a weight-only value, rounded to its element type."""
        for node_id in postorder(self._missing((value,)), lambda n: self._missing(self._graph[n].inputs)):
            self._evaluate(self._graph[node_id])
        found = np.asarray(self._rounded(value)[0])
        if self._bytes > _REMEMBERED:
            self.clear()
        return found

    def clear(self) -> None:
        """Forgets all results."""
        self._arrays.clear()
        self._bytes = 0

    def _rounded(self, value: Value) -> Array:
        """What is known of the value, rounded to its element type."""
        array, element = self._arrays[value], self._element(value)
        if element is ElementType.BOOL:
            return array > 0
        with np.errstate(over="ignore"):
            return array.astype(dtype_of(element), copy=False) if element.is_movable else array

    def _element(self, value: Value) -> ElementType:
        type_ = self._graph.type_of(value)
        return type_.element if isinstance(type_, TensorType) else ElementType.OTHER

    def _computes_exactly(self, node: Node) -> bool:
        """Whether it computes with integers, which wrap around, or with truth values."""
        operator = node.operator
        known = isinstance(operator, Operator) and (operator.polynomial or operator.comparing)
        return known and not any(self._element(v).is_float for v in (*node.inputs, *node.values))

    def _changes_type(self, node: Node) -> bool:
        """Whether it converts or compares numbers, so that their last places decide its result."""
        operator = node.operator
        if not isinstance(operator, Operator) or operator.moves:
            return False
        read = (value for slot, value in enumerate(node.inputs) if slot not in operator.conditions)
        return any(self._element(value) is not self._element(node.value) for value in read)

    def _missing(self, values: Iterable[Value]) -> list[NodeId]:
        """The nodes that must still be evaluated to have the values."""
        return [value.node for value in values if Value(value.node) not in self._arrays]

    def _evaluate(self, node: Node) -> None:
        operator = node.operator
        if isinstance(operator, Weight):
            results: tuple[Array, ...] = (np.asarray(self._weight(operator.label))[np.newaxis],)
        elif isinstance(operator, Operator):
            if operator.moves or self._computes_exactly(node):
                operands = [self._arrays[value] for value in node.inputs]
            elif self._changes_type(node):
                operands = [self._rounded(value) for value in node.inputs]
            else:
                operands = [self._arrays[value].astype(np.float64) for value in node.inputs]
            domain = _BY_ORDER if self._element(node.value) is ElementType.BOOL else self._domain
            results = operator.evaluate(domain, *operands)
        else:
            raise UnsupportedError(f"{operator.name} does not depend on weights alone and cannot be folded")
        self._arrays.update(zip(node.values, results, strict=True))
        if self._changes_type(node):
            self._arrays.update({value: self._rounded(value) for value in node.values})
        self._bytes += sum(self._arrays[value].nbytes for value in node.values)


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
