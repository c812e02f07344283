"""Reverse-mode differentiation of graphs by the adjoint statements of the axiom files (RAF, section 3.1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from superopt.equations.adjoints import Adjoint
from superopt.errors import IllTypedError, UnsupportedError
from superopt.ir.graph import Graph, GraphEditor, Node, NodeId, Value
from superopt.ir.types import TensorType, ValueType
from superopt.ops import Opaque, Operator
from superopt.ops.elementwise.arithmetic import Add
from superopt.ops.elementwise.precision import Cast, precision_of
from superopt.ops.filled import Full
from superopt.ops.shape import Concat, Cutting, Joining, Split
from superopt.optimizer.training.gradients.adjoints import AdjointTable, GradientBuilder
from superopt.traversal import postorder


@dataclass(frozen=True)
class Gradients:
    """The graph with its backward pass. ``of`` maps each value that was asked for to its gradient; values
    that no cotangent reaches are missing. ``used`` counts instances of adjoint statements by name."""

    graph: Graph
    of: Mapping[Value, Value]
    used: Mapping[str, int]


def differentiate(
    graph: Graph,
    wrt: Iterable[Value],
    cotangents: Mapping[Value, Value],
    adjoints: Iterable[Adjoint],
    describe: Callable[[Node], str] | None = None,
    stops: Container[NodeId] = frozenset(),
) -> Gradients:
    """Adds the gradients of the sum of all <value, cotangent> with respect to the values ``wrt``. Nodes that
    read one tensor several times, or share one, have their gradients added. ``describe`` names a node in
    messages; results of ``stops`` count as constants. Raises NoGradientError for a node on the way that has
    no gradient: an opaque one, or one that no adjoint statement is about."""
    reverse = _Reverse(graph, tuple(wrt), AdjointTable(adjoints), describe or _by_operator, stops)
    return reverse.run(cotangents)


class NoGradientError(UnsupportedError):
    """A node without a gradient lies between what is differentiated and what it is differentiated for,
    of which it depends on ``sources``; ``for_its_sizes`` if it may have one when more sizes are known."""

    def __init__(
        self, message: str, node: NodeId, sources: tuple[Value, ...], *, for_its_sizes: bool = True
    ) -> None:
        super().__init__(message)
        self.node = node
        self.sources = sources
        self.for_its_sizes = for_its_sizes


_CONSTANT_BETWEEN_STEPS = ("Ceil", "Floor", "Round", "Sign")
"""Operators of ONNX whose results change in steps; they count as constants."""

_OF_SIZES = ("run time", "unknown rank", "known size", "unknown size")
"""Parts of the reasons why a node stays opaque which known sizes may remove."""


def _by_operator(node: Node) -> str:
    return f"node {node.id} ({node.operator.name})"


class _Reverse:
    def __init__(
        self,
        graph: Graph,
        wrt: tuple[Value, ...],
        table: AdjointTable,
        describe: Callable[[Node], str],
        stops: Container[NodeId],
    ) -> None:
        self._graph = graph
        self._wrt = wrt
        self._table = table
        self._describe = describe
        self._stops = stops
        self._editor: GraphEditor = graph.edit()
        self._builder = GradientBuilder(self._editor, table)
        self._terms: defaultdict[Value, list[Value]] = defaultdict(list)
        self._active = self._varying()

    def run(self, cotangents: Mapping[Value, Value]) -> Gradients:
        for value, cotangent in cotangents.items():
            self._terms[value].append(cotangent)
        for node_id in reversed(self._graph.order):
            if node_id in self._active:
                self._propagate(self._graph[node_id])
        found = {value: self._total(value) for value in self._wrt if value in self._terms}
        return Gradients(self._editor.build(), found, self._table.used)

    def _varying(self) -> frozenset[NodeId]:
        """The nodes with an output that depends on what is differentiated for, and is not discrete."""
        varying = {value.node for value in self._wrt}
        for node_id in self._graph.order:
            node = self._graph[node_id]
            if (
                node_id in self._stops
                or _is_constant_between_steps(node)
                or not any(map(may_vary, node.types))
            ):
                continue
            if any(self._varies_with(value, varying) for value in node.inputs):
                varying.add(node_id)
        return frozenset(varying)

    def _propagate(self, node: Node) -> None:
        reached = [value for value in node.values if value in self._terms]
        slots = [slot for slot, value in enumerate(node.inputs) if self._varies(value)]
        if not reached or not slots:
            return
        operator = node.operator
        if isinstance(operator, Opaque) or not isinstance(operator, Operator):
            cause = self._cause(node)
            reason = getattr(cause.operator, "reason", "") or "no operator describes it"
            raise NoGradientError(
                f"{self._describe(cause)} has no gradient: it lies between the loss and a parameter, and "
                f"stays as it is ({reason})",
                node.id,
                self._sources(node),
                for_its_sizes=any(words in reason for words in _OF_SIZES),
            )
        try:
            if isinstance(operator, Cutting):
                self._terms[node.inputs[0]].append(self._joined(node, operator))
            elif isinstance(operator, Joining):
                self._cut(node, operator, slots)
            elif isinstance(operator, Cast):
                self._cast_back(node)
            else:
                cotangent = self._total(node.value)
                for slot in slots:
                    if slot not in operator.conditions:
                        self._terms[node.inputs[slot]].append(self._builder.gradient(node, slot, cotangent))
        except (UnsupportedError, IllTypedError) as error:
            raise NoGradientError(f"{self._describe(node)}: {error}", node.id, self._sources(node)) from error

    def _sources(self, node: Node) -> tuple[Value, ...]:
        """What is differentiated for, as far as the node depends on it."""
        before = frozenset(postorder([node.id], self._active_inputs))
        return tuple(value for value in self._wrt if value.node in before)

    def _active_inputs(self, node_id: NodeId) -> list[NodeId]:
        return [value.node for value in self._graph[node_id].inputs if value.node in self._active]

    def _cause(self, node: Node) -> Node:
        """The node to name for an opaque one: the first before it that leaves the rank of a tensor open."""
        for value in node.inputs:
            if not isinstance(self._graph.type_of(value), TensorType):
                before = self._graph[value.node]
                return self._cause(before) if isinstance(before.operator, Opaque) else node
        return node

    def _varies(self, value: Value) -> bool:
        return self._varies_with(value, self._active)

    def _varies_with(self, value: Value, varying: Container[NodeId]) -> bool:
        return value.node in varying and may_vary(self._graph.type_of(value))

    def _total(self, value: Value) -> Value:
        """The sum of what all readers contribute."""
        total, *others = self._terms[value]
        for term in others:
            total = self._builder.apply(Add(), total, term)
        self._terms[value] = [total]
        return total

    def _joined(self, node: Node, operator: Cutting) -> Value:
        """The gradient of a tensor that was cut: the pieces joined, zeros for those that nothing reads."""
        pieces = [self._total(value) if value in self._terms else self._zeros(value) for value in node.values]
        return self._builder.apply(Concat(operator.axis), *pieces)

    def _cast_back(self, node: Node) -> None:
        """The gradient of a tensor of any precision that was cast; equations are about float32."""
        (value,) = node.inputs
        type_ = self._graph.type_of(value)
        precision = precision_of(type_.element) if isinstance(type_, TensorType) else None
        assert precision is not None, "what varies is floating point"
        self._terms[value].append(self._builder.apply(Cast(precision), self._total(node.value)))

    def _zeros(self, value: Value) -> Value:
        type_ = self._graph.type_of(value)
        if not isinstance(type_, TensorType):
            raise UnsupportedError(f"expected a tensor of known rank, got {type_}")
        return self._builder.constant(Full(0, type_.shape), type_.element)

    def _cut(self, node: Node, operator: Joining, slots: list[int]) -> None:
        """The gradients of tensors that were joined: the pieces of the cotangent."""
        types = [self._graph.type_of(value) for value in node.inputs]
        sizes = tuple(type_.shape[operator.axis] for type_ in types if isinstance(type_, TensorType))
        cotangent = self._total(node.value)
        if len(sizes) == 1:
            self._terms[node.inputs[0]].append(cotangent)
            return
        pieces = self._builder.apply(Split(operator.axis, sizes), cotangent)
        for slot in slots:
            self._terms[node.inputs[slot]].append(Value(pieces.node, slot))


def _is_constant_between_steps(node: Node) -> bool:
    """Whether the gradient of the node is 0 wherever there is one."""
    return isinstance(node.operator, Opaque) and node.operator.op_type in _CONSTANT_BETWEEN_STEPS


def followed_inputs(graph: Graph, node: NodeId) -> Iterator[Value]:
    """Yield the inputs of a node to which gradients of its outputs may lead."""
    operator = graph[node].operator
    if _is_constant_between_steps(graph[node]):
        return
    conditions = operator.conditions if isinstance(operator, Operator) else ()
    for slot, value in enumerate(graph[node].inputs):
        if slot not in conditions and may_vary(graph.type_of(value)):
            yield value


def may_vary(type_: ValueType) -> bool:
    """Whether values of the type can have gradients: all but integers, truth values and texts."""
    return not isinstance(type_, TensorType) or type_.element.is_float


__all__ = ["Gradients", "NoGradientError", "differentiate", "followed_inputs"]
