"""Peak memory of a graph: its weights and the largest set of simultaneously live tensors.

Fusion groups are the operations of a program (``superopt.optimizer.memory.liveness``), scheduled depth-first
from the outputs, first operand first. A reshaped or broadcast tensor shares the memory of its operand. An
elementwise kernel may overwrite an operand of equal size that is not read later. Inputs belong to the caller
and are held throughout, as are outputs for which the caller has the memory: the next states of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator
from dataclasses import dataclass
from typing import Protocol

from superopt.ir.graph import Graph, Input, NodeId, Value
from superopt.ir.plan import FusionGroup
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import Operator
from superopt.ops.traits import ALIASES, traits
from superopt.optimizer.cost.machine import bytes_of
from superopt.optimizer.memory.liveness import Operation, Program, liveness
from superopt.traversal import postorder

_PENALTY = 1e12


class HasSizes(Protocol):
    """Substitutes numbers for symbolic dimensions."""

    def type(self, type_: TensorType) -> TensorType:
        """The type with numbers for symbols."""
        ...


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of weights, and peak bytes of live tensors."""

    weights: int
    tensors: int

    @property
    def peak(self) -> int:
        """Sum of both, in bytes."""
        return self.weights + self.tensors


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """Constraint: maximum bytes that a graph may need (TASO, section 2.6 of the dissertation)."""

    bytes: int

    def penalty(self, memory: Memory) -> float:
        """Return 0 within the limit, and above it a penalty that exceeds any cost and grows with the
        excess."""
        return float(round(_PENALTY * max(0, memory.peak - self.bytes) / self.bytes))


def memory_of(
    graph: Graph,
    free: Container[NodeId],
    owner: Callable[[NodeId], FusionGroup | None],
    sizes: HasSizes,
    placed: Collection[int] = (),
) -> Memory:
    """Memory of the graph; ``free`` are folded nodes, ``owner`` gives the group of every other one, and
    ``placed`` are the numbers of the outputs whose memory is the caller's."""
    groups = _Groups(graph, free, owner, sizes, placed)
    return Memory(groups.weights(), liveness(groups.program()).peak)


class _Groups:
    def __init__(
        self,
        graph: Graph,
        free: Container[NodeId],
        owner: Callable[[NodeId], FusionGroup | None],
        sizes: HasSizes,
        placed: Collection[int],
    ) -> None:
        self._graph = graph
        self._placed = frozenset(graph.outputs[number] for number in placed)
        self._free = free
        self._sizes = sizes
        self._when: dict[NodeId, int] = {}
        self._groups: list[FusionGroup] = []
        self._tensors: dict[Value, int] = {}
        last = {
            id(group): group
            for node_id in reversed([*_depth_first(graph)])
            if node_id not in free and (group := owner(node_id)) is not None
        }
        for group in reversed(last.values()):
            self._when.update(dict.fromkeys(group.members, len(self._groups)))
            self._groups.append(group)

    def program(self) -> Program:
        """The groups in execution order."""
        reads = [self._reads(group) for group in self._groups]
        outputs = [root for value in self._graph.outputs if (root := self._root(value)) is not None]
        written: list[list[int]] = [[] for _ in self._groups]
        held = 0
        for root in dict.fromkeys((*(root for roots in reads for root in roots), *outputs)):
            self._tensors[root] = len(self._tensors)
            is_input = isinstance(self._graph.nodes[root.node].operator, Input)
            if is_input or root in self._placed:
                held += self._bytes(self._graph.type_of(root))
            if not is_input:
                written[self._when[root.node]].append(self._tensors[root])
        return Program(
            tuple(map(self._operation, self._groups, reads, written)),
            tuple(self._bytes(self._graph.type_of(root)) for root in self._tensors),
            frozenset(self._tensors[root] for root in outputs),
            held,
            frozenset(number for root, number in self._tensors.items() if root in self._placed),
        )

    def _operation(self, group: FusionGroup, reads: dict[Value, None], writes: list[int]) -> Operation:
        read = tuple(self._tensors[root] for root in reads)
        overwritten = read if writes and self._is_elementwise(group) else ()
        return Operation(str(group.head), read, tuple(writes), overwritten)

    def _reads(self, group: FusionGroup) -> dict[Value, None]:
        """The tensors that a group reads and does not compute itself."""
        roots = (self._root(value) for member in group.members for value in self._graph.nodes[member].inputs)
        when = self._when[group.head]
        return {root: None for root in roots if root is not None and self._when.get(root.node) != when}

    def _root(self, value: Value) -> Value | None:
        """The tensor that a value is a view of; None for a constant."""
        node = self._graph.nodes[value.node]
        while node.operator.name in ALIASES and node.id not in self._free:
            value = node.inputs[0]
            node = self._graph.nodes[value.node]
        return None if node.id in self._free else value

    def weights(self) -> int:
        """Bytes of all constants that are read."""
        read = {
            value for node_id in self._when for value in self._constants(self._graph.nodes[node_id].inputs)
        }
        return sum(self._bytes(self._graph.type_of(value)) for value in read)

    def _constants(self, values: tuple[Value, ...]) -> Iterator[Value]:
        """Constant operands that occupy memory; those that repeat one number do not."""
        for operand in values:
            value, node = operand, self._graph.nodes[operand.node]
            while node.operator.name in ALIASES:
                value = node.inputs[0]
                node = self._graph.nodes[value.node]
            if node.id in self._free and not traits(node.operator.name).fills:
                yield value

    def _bytes(self, type_: ValueType) -> int:
        return bytes_of(self._sizes.type(type_)) if isinstance(type_, TensorType) else 0

    def _is_elementwise(self, group: FusionGroup) -> bool:
        operators = (self._graph.nodes[member].operator for member in group.members)
        return all(isinstance(operator, Operator) and operator.element_wise for operator in operators)


def _depth_first(graph: Graph) -> Iterator[NodeId]:
    """Every node after its operands, the first one first: an order that does not depend on ids."""

    def sources(node_id: NodeId) -> Iterator[NodeId]:
        yield from (value.node for value in graph.nodes[node_id].inputs)
        yield from reversed(graph.nodes[node_id].after)

    return postorder((*(value.node for value in graph.outputs), *sorted(graph.nodes)), sources)
