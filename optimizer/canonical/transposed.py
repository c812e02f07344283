"""Transposes moved behind the operators between them, where they cancel.

Networks that keep channels last are exported with a Transpose before and behind each convolution, and with
steps per channel between them. Moved behind such steps, the two cancel, and the steps follow the convolution
directly, where rules fold them into it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from math import prod
from typing import cast

from superopt.ir.dimensions import Dimension
from superopt.ir.graph import Graph, GraphEditor, Node, NodeId, Value
from superopt.ir.types import TensorType
from superopt.onnx_io.lifting.shape import transposing
from superopt.onnx_io.lifting.transposes import assumed_sizes
from superopt.ops import Operator
from superopt.ops.base import attributes_of, axis_of, operator_from_attributes
from superopt.ops.matrix import Transpose, keeps_order
from superopt.ops.reduction import Reduction
from superopt.ops.roles import Product
from superopt.ops.shape import Broadcast, Cutting, Joining, Reshape
from superopt.ops.traits import traits
from superopt.optimizer.canonical.rows import repeated, repeats_a_number
from superopt.traversal import postorder

_WHY = "transposed later, or not at all"

Permutation = tuple[int, ...]


class MovedTransposes:
    """Transposes of a graph moved to the ends of regions, where fewer elements are transposed then."""

    def __init__(self, graph: Graph, editor: GraphEditor, protected: Container[NodeId]) -> None:
        self._graph, self._editor, self._protected = graph, editor, protected
        self._permutations: dict[NodeId, Permutation] = {}
        self._ends: set[Value] = set()
        self._plain: dict[Value, Value] = {}
        if graph.with_operator(Transpose.name):
            self._choose(_Permutations(graph, protected))

    def _choose(self, known: _Permutations) -> None:
        absorbed: set[NodeId] = set()
        for region in known.regions():
            ends = {value for node in region for value in known.ends(self._graph[node])}
            behind = {user for node in region for user in known.transposes_behind(node)}
            added = sum(known.moved(value) for value in ends) + known.brought(region)
            saved = known.saved(region) + known.follows_convolution(region)
            if saved > added and absorbed.isdisjoint(region) and self._permutations.keys().isdisjoint(behind):
                self._permutations.update((node, known.of[node]) for node in region)
                self._ends |= ends
                absorbed |= behind

    def step(self, given: Node, node: Node, replaced: dict[Value, Value]) -> str | None:
        """Calculates a node without the permutation of its operands, or transposes what is calculated so.

        ``node`` is the ``given`` one with operands that may be ``replaced``. Returns what was done; None for
        nodes outside of regions.
        """
        permutation = self._permutations.get(node.id)
        if permutation is not None:
            return self._calculated(given, node, permutation, replaced)
        before = self._permutations.get(given.inputs[0].node) if given.inputs else None
        if before is None or not isinstance(node.operator, Transpose) or node.id in self._protected:
            return None
        together, why = _merged(node.operator, before)
        plain = self._plain[given.inputs[0]]
        replaced[node.value] = plain if together is None else self._editor.add(together, [plain]).value
        return why

    def _calculated(
        self, given: Node, node: Node, permutation: Permutation, replaced: dict[Value, Value]
    ) -> str:
        operator = cast("Operator", node.operator)
        if isinstance(operator, Transpose):
            self._plain[given.value] = node.inputs[0]
            return _WHY
        if isinstance(operator, Reshape):
            operator = Reshape(_before(_type(self._graph, given.value).shape, permutation))
        elif not operator.element_wise:
            axis = cast("int", getattr(operator, "axis", 0))
            moved = {"axis": permutation[axis_of(operator.name, axis, len(permutation))]}
            operator = operator_from_attributes(operator.name, {**attributes_of(operator), **moved})
        count = len(node.inputs) - operator.side_inputs
        operands = [
            self._without(old, new, permutation)
            for old, new in zip(given.inputs[:count], node.inputs, strict=False)
        ]
        made = self._editor.add(operator, [*operands, *node.inputs[count:]])
        for old, new in zip(given.values, made.values, strict=True):
            self._plain[old] = new
            if old in self._ends:
                is_same = permutation == tuple(range(len(permutation)))
                replaced[old] = new if is_same else self._editor.add(transposing(permutation), [new]).value
        return _WHY

    def _without(self, old: Value, new: Value, permutation: Permutation) -> Value:
        """An operand without the permutation."""
        if old in self._plain:
            return self._plain[old]
        return _inverse_of(self._graph, old, permutation) or _brought(self._editor, new, permutation)


class _Permutations:
    """The permutations that results of Transposes have, and those of operators that may come before these."""

    def __init__(self, graph: Graph, protected: Container[NodeId]) -> None:
        self._graph = graph
        self.of: dict[NodeId, Permutation] = {}
        self._neighbours: dict[NodeId, list[NodeId]] = {}
        for node_id in graph.order:
            node = graph[node_id]
            is_fixed = node_id in protected or node_id in graph.weight_only or bool(node.after)
            if not is_fixed and isinstance(node.operator, Operator):
                self._extend(node, node.operator)

    def _extend(self, node: Node, operator: Operator) -> None:
        if isinstance(operator, Transpose):
            self.of[node.id] = operator.permutation(_type(self._graph, node.value).rank)
            self._neighbours[node.id] = []
            return
        operands = [value.node for value in node.inputs[: len(node.inputs) - operator.side_inputs]]
        before = [each for each in operands if each in self.of]
        found = {self.of[each] for each in before}
        permutation = found.pop() if len(found) == 1 else None
        if isinstance(operator, Reshape) and permutation is not None:
            shapes = (_type(self._graph, value).shape for value in (*node.inputs, node.value))
            permutation = _around_single_positions(permutation, *shapes)
        ranks = {type_.rank if isinstance(type_, TensorType) else 0 for type_ in node.types}
        if permutation is None or ranks != {len(permutation)} or not _may_precede(operator):
            return
        self.of[node.id] = permutation
        self._neighbours[node.id] = before
        for other in before:
            self._neighbours[other].append(node.id)

    def regions(self) -> Iterator[list[NodeId]]:
        """Nodes that read each other."""
        seen = set[NodeId]()
        for node in self.of:
            if node not in seen:
                region = list(postorder([node], self._neighbours.__getitem__))
                seen.update(region)
                yield region

    def brought(self, region: Sequence[NodeId]) -> int:
        """The elements to be moved of operands that have no permutation and do not repeat a number."""
        values: dict[Value, Permutation] = {}
        for node in (self._graph[node_id] for node_id in region if not self._is_transpose(node_id)):
            operator = cast("Operator", node.operator)
            for value in node.inputs[: len(node.inputs) - operator.side_inputs]:
                if value.node not in self.of and not repeats_a_number(self._graph, self._graph[value.node]):
                    values[value] = self.of[node.id]
        moved = 0
        for value, permutation in values.items():
            stored = _stored(self._graph, value)
            is_constant = stored.node in self._graph.weight_only
            if not is_constant and _inverse_of(self._graph, value, permutation) is None:
                moved += _size(_type(self._graph, stored))
        return moved

    def ends(self, node: Node) -> Iterator[Value]:
        """The results of a node that are read otherwise than in its region and by Transposes."""
        outside = [user for user in self._graph.users(node.id) if user not in self._neighbours[node.id]]
        readers = [self._graph[user] for user in outside if not self._is_transpose(user)]
        for value in node.values:
            if value in self._graph.outputs or any(value in reader.inputs for reader in readers):
                yield value

    def follows_convolution(self, region: Sequence[NodeId]) -> bool:
        """Whether steps per channel come directly behind a convolution if the Transposes are moved."""
        nodes = [self._graph[node_id] for node_id in region]
        sources = [node.inputs[0].node for node in nodes if self._is_transpose(node.id)]
        return any(traits(node.operator.name).per_channel for node in nodes) and any(
            traits(self._graph[source].operator.name).product is Product.CONVOLUTION for source in sources
        )

    def saved(self, region: Sequence[NodeId]) -> int:
        """The elements that the Transposes in a region, and those behind it, need not move any more."""
        saved = 0
        for node_id in region:
            if self._is_transpose(node_id):
                saved += self.moved(self._graph[node_id].value)
            for user in self.transposes_behind(node_id):
                value = self._graph[user].value
                together = tuple(self.of[node_id][axis] for axis in self.of[user])
                saved += self.moved(value) - _elements(_type(self._graph, value), together)
        return saved

    def transposes_behind(self, node: NodeId) -> Iterator[NodeId]:
        """Those that read a result of the node."""
        return filter(self._is_transpose, self._graph.users(node))

    def moved(self, value: Value) -> int:
        """The elements that a Transpose with this result moves."""
        return _elements(_type(self._graph, value), self.of[value.node])

    def _is_transpose(self, node: NodeId) -> bool:
        return node in self.of and isinstance(self._graph[node].operator, Transpose)


def _inverse_of(graph: Graph, value: Value, permutation: Permutation) -> Value | None:
    """What a Transpose makes of a value by the inverse permutation, if there is one."""
    for node in (graph[user] for user in graph.users(value.node)):
        if isinstance(node.operator, Transpose) and node.inputs[0] == value:
            own = node.operator.permutation(len(permutation))
            if own == _inverse(permutation):
                return node.value
    return None


def _inverse(permutation: Permutation) -> Permutation:
    """The permutation that undoes this one."""
    return tuple(permutation.index(axis) for axis in range(len(permutation)))


def _stored(graph: Graph | GraphEditor, value: Value) -> Value:
    """What a value repeats; the value itself if it repeats nothing."""
    made = graph[value.node]
    return made.inputs[0] if isinstance(made.operator, Broadcast) else value


def _type(graph: Graph | GraphEditor, value: Value) -> TensorType:
    return cast("TensorType", graph.type_of(value))


def _elements(result: TensorType, permutation: Permutation) -> int:
    if keeps_order(permutation, _before(result.shape, permutation)):
        return 0
    return _size(result)


def _size(type_: TensorType) -> int:
    return prod(assumed_sizes(type_))


def _before(shape: Sequence[Dimension], permutation: Permutation) -> tuple[Dimension, ...]:
    """The shape of which the permutation makes this one."""
    return tuple(shape[axis] for axis in _inverse(permutation))


def _may_precede(operator: Operator) -> bool:
    """Whether an operator may come before a permutation that its operands have, with another axis."""
    if operator.element_wise or isinstance(operator, Reshape):
        return True
    has_axis = isinstance(getattr(operator, "axis", None), int)
    return has_axis and (operator.per_channel or isinstance(operator, Joining | Cutting | Reduction))


def _around_single_positions(
    permutation: Permutation, before: Sequence[Dimension], after: Sequence[Dimension]
) -> Permutation | None:
    """The permutation that a tensor has after a reshape that adds and drops axes of size 1 only; None for
    other reshapes. A new axis stays before the one that it comes before."""
    kept = [axis for axis, size in enumerate(before) if size != 1]
    places = [axis for axis, size in enumerate(after) if size != 1]
    if [before[axis] for axis in kept] != [after[place] for place in places]:
        return None
    origins = {place: permutation[axis] for axis, place in zip(kept, places, strict=True)}
    last = len(permutation)
    next_origins = (
        next((origins[place] for place in range(start, len(after)) if place in origins), last)
        for start in range(len(after))
    )
    keys = [(origin, place) for place, origin in enumerate(next_origins)]
    order = sorted(keys)
    return tuple(order.index(key) for key in keys)


def _brought(graph: GraphEditor, value: Value, permutation: Permutation) -> Value:
    """A value that never has the permutation, as if it had been taken from it."""
    made, type_ = graph[value.node], _type(graph, value)
    shape = _before(type_.shape, permutation)
    if not repeats_a_number(graph, made):
        stored = _stored(graph, value)
        own = _type(graph, stored).shape
        if len(own) < len(shape):
            stored = graph.add(Reshape((*(1,) * (len(shape) - len(own)), *own)), [stored]).value
        moved = graph.add(transposing(_inverse(permutation)), [stored]).value
        return graph.add(Broadcast(shape), [moved]).value if isinstance(made.operator, Broadcast) else moved
    number = repeated(graph, value, type_.with_shape(shape))
    assert number is not None, "a permuted shape has as many axes"
    return number


def _merged(operator: Transpose, before: Permutation) -> tuple[Operator | None, str]:
    """The operator that does both permutations; None if they cancel."""
    found = operator.merged_with(Transpose(before), len(before))
    assert found is not None, "two permutations are one"
    together, why = found
    return (None if together.permutation(len(before)) == tuple(range(len(before))) else together), why


__all__ = ["MovedTransposes"]
