"""Recipes: functions that write a graph node as ONNX nodes, and the interface available to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol, TypeAlias

from superopt.domains import Array
from superopt.errors import UnsupportedError
from superopt.ir.dimensions import Dimension, as_symbol
from superopt.ir.graph import Graph, GraphOperator, Input, Node, NodeId, Value, Weight
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.emit.folding import folded_bytes
from superopt.ops import Opaque, Operator
from superopt.ops.traits import traits

OnnxAttribute: TypeAlias = "int | float | str | Sequence[int]"


class Writer(Protocol):
    """Interface through which a recipe writes ONNX nodes."""

    @property
    def opset(self) -> int:
        """The version of the standard operators."""
        ...

    def node(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, OnnxAttribute] | None = None,
    ) -> None:
        """Writes one ONNX node."""
        ...

    def calculated(
        self, op_type: str, inputs: Sequence[str], attributes: Mapping[str, OnnxAttribute] | None = None
    ) -> str:
        """The name of the output of an ONNX node about sizes; equal ones are written once."""
        ...

    def constant(self, array: Array, hint: str) -> str:
        """The name of an initialiser with that content; equal contents share one."""
        ...

    def temporary(self, hint: str) -> str:
        """A fresh name for a tensor internal to the recipe."""
        ...


@dataclass(frozen=True, slots=True)
class Operand:
    """A value that a recipe reads. For a weight-only value, ``shape`` is the shape in which it is stored, and
    ``rank`` permits leading axes of size 1 to be added or removed up to that rank, where the reader
    broadcasts."""

    value: Value
    shape: tuple[int, ...] | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A constant of one element, with that many axes, that replaces a tensor repeating it."""

    value: Fraction | int
    element: ElementType
    rank: int = 0


Write: TypeAlias = "Callable[[Writer, tuple[str, ...], tuple[str, ...]], None]"


@dataclass(frozen=True, slots=True)
class Recipe:
    """ONNX nodes for one or more graph nodes. ``write`` gets the names of ``operands`` and of ``defines``,
    the values that it produces."""

    defines: tuple[Value, ...]
    operands: tuple[Operand | Number, ...]
    write: Write


class Emission:
    """A graph being written: which values become initialisers, and where symbols can be read. Nodes in
    ``untouched`` are written as they were read."""

    LARGE = 1 << 24
    GROWTH = 8

    def __init__(self, graph: Graph, opset: int, untouched: frozenset[NodeId]) -> None:
        self.graph = graph
        self.opset = opset
        self.untouched = untouched
        self._is_worth_storing: dict[Value, bool] = {}

    def type(self, value: Value) -> TensorType:
        """The type of an operand."""
        type_ = self.graph.type_of(value)
        if not isinstance(type_, TensorType):
            raise UnsupportedError(f"expected a tensor, got a {type_}")
        return type_

    def rank(self, value: Value) -> int:
        """The rank of an operand."""
        return self.type(value).rank

    def resolve(self, value: Value) -> Value:
        """The value behind identity nodes."""
        node = self.graph[value.node]
        while _is_identity(node.operator) and node.id not in self.untouched:
            value = node.inputs[0]
            node = self.graph[value.node]
        return value

    @cached_property
    def constant_nodes(self) -> frozenset[NodeId]:
        """Nodes that can be constant-folded: they depend on weights only and have known shapes."""
        found: set[NodeId] = set()
        for node_id in self.graph.order:
            node = self.graph[node_id]
            if (
                node_id in self.graph.weight_only
                and all(value.node in found for value in node.inputs)
                and all(
                    isinstance(t, TensorType) and all(isinstance(d, int) for d in t.shape) for t in node.types
                )
            ):
                found.add(node_id)
        return frozenset(found)

    def is_constant(self, value: Value) -> bool:
        """Whether the value becomes an initialiser: not where that would only enlarge the file."""
        if value.node not in self.constant_nodes:
            return False
        if isinstance(self.graph[value.node].operator, Weight):
            return True
        if value not in self._is_worth_storing:
            size, sources = folded_bytes(self.graph, value)
            self._is_worth_storing[value] = size <= self.LARGE or size <= self.GROWTH * sources
        return self._is_worth_storing[value]

    def producer(self, value: Value, operator: type[Operator]) -> Node | None:
        """The producer of the value, if it has one reader and its operator is of that class."""
        node = self.graph[value.node]
        if (
            isinstance(node.operator, operator)
            and self.graph.is_used_once(value)
            and not self.is_constant(value)
        ):
            return node
        return None

    @cached_property
    def _symbol_sources(self) -> Mapping[str, tuple[tuple[Value, int], ...]]:
        """Sources of symbols: inputs, then outputs of opaque nodes, then values that inherit a symbol from an
        operand. Other values get their size from the symbol, so it cannot be read from them."""
        ranked: tuple[dict[str, list[tuple[Value, int]]], ...] = ({}, {}, {})
        for node_id in self.graph.order:
            node = self.graph[node_id]
            given = [t.symbols for v in node.inputs if isinstance(t := self.graph.type_of(v), TensorType)]
            own = isinstance(node.operator, Input), isinstance(node.operator, Opaque), True
            found = ranked[own.index(True)]
            for value, type_ in zip(node.values, node.types, strict=True):
                for axis, dimension in enumerate(type_.shape if isinstance(type_, TensorType) else ()):
                    label = as_symbol(dimension)
                    if label is not None and (any(own[:2]) or any(label in names for names in given)):
                        found.setdefault(label, []).append((value, axis))
        labels = dict.fromkeys(label for found in ranked for label in found)
        return {label: tuple(p for found in ranked for p in found.get(label, ())) for label in labels}

    def symbol_source(self, label: str, reader: NodeId) -> tuple[Value, int]:
        """A value that ``reader`` may read, and an axis of that symbolic size."""
        for value, axis in self._symbol_sources.get(label, ()):
            if not self._depends(value.node, reader):
                return value, axis
        where = self.graph[reader].operator.name
        raise UnsupportedError(f"{where}: no tensor that is computed before it has a dimension {label}")

    def _depends(self, node: NodeId, earlier: NodeId) -> bool:
        """Whether a node depends on another one, or is the same."""
        position = self.graph.position
        stack, seen = [node], {node}
        while stack:
            current = stack.pop()
            if current == earlier:
                return True
            sources = {value.node for value in self.graph[current].inputs}.union(self.graph[current].after)
            fresh = {source for source in sources - seen if position[source] >= position[earlier]}
            seen |= fresh
            stack.extend(fresh)
        return False


def _is_identity(operator: GraphOperator) -> bool:
    own = traits(operator.name)
    return own.renames and own.element_wise


def known(where: str, dimension: Dimension) -> int:
    """The dimension as a number; raises UnsupportedError for a symbolic one."""
    if not isinstance(dimension, int):
        raise UnsupportedError(f"{where}: ONNX needs a known size here, got {dimension}")
    return dimension
