"""Kernels of fusion groups, extracted from their graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator

from superopt.ir.graph import Graph, GraphOperator, NodeId, Value
from superopt.ir.plan import FusionGroup
from superopt.ir.types import ElementType, TensorType
from superopt.ops.base import Operator
from superopt.ops.elementwise.clipping import clip_of
from superopt.ops.opaque import Opaque
from superopt.ops.roles import FusionRole
from superopt.ops.traits import traits
from superopt.optimizer.cost.kernels.kernel import (
    Kernel,
    KernelStep,
    Source,
    can_be_blocked,
    is_written_by_sizes,
)
from superopt.optimizer.cost.kernels.origin import Origin
from superopt.optimizer.cost.kernels.spelling import respelled
from superopt.optimizer.cost.machine import Residence, bytes_of
from superopt.optimizer.cost.sizes import Sizes
from superopt.optimizer.fusion import TRANSPARENT

SMALL_WEIGHTS = 4 * 2**10
"""Bytes of weights up to which their memory location does not affect the cost."""

_LARGE_WEIGHTS = 128 * 2**10
"""Bytes of weights from which on it matters whether they are read from memory."""

_FETCHING = 64
"""A kernel with fewer operations per byte of its weights is memory-bound."""


def kernel_of(
    graph: Graph, group: FusionGroup, free: Container[NodeId], blocked: Container[NodeId], sizes: Sizes
) -> Kernel:
    """The kernel of a group; ``blocked`` are the nodes whose output is in the runtime's layout."""
    return _Extraction(graph, group, free, blocked, sizes).kernel()


def is_read_outside(graph: Graph, group: FusionGroup, member: NodeId) -> bool:
    """Whether a node outside the group reads an output of a member."""
    return any(_is_outside(graph, group, user) for user in graph.users(member))


def _is_outside(graph: Graph, group: FusionGroup, user: NodeId) -> bool:
    """Whether a value leaves the group through this reader, or through one behind it if it vanishes when
    lowered."""
    if user in group.members:
        return False
    if graph.nodes[user].operator.name not in TRANSPARENT or user in graph.output_nodes:
        return True
    return is_read_outside(graph, group, user)


class _Extraction:
    def __init__(
        self,
        graph: Graph,
        group: FusionGroup,
        free: Container[NodeId],
        blocked: Container[NodeId],
        sizes: Sizes,
    ) -> None:
        self._graph = graph
        self._group = group
        self._free = free
        self._blocked = blocked
        self._sizes = sizes
        self._sources: list[Source] = []
        self._nodes: list[NodeId] = []
        self._steps: list[KernelStep] = []
        self._places: dict[Value, tuple[int, int]] = {}
        self._opaque = False
        self._body_bytes: int | None = None
        operators = (graph.nodes[member].operator for member in group.members)
        self._origin = sizes.origin if any(map(_looks_at_numbers, operators)) else None

    def kernel(self) -> Kernel:
        members = self._group.members
        clips = dict(self._clips())
        gates = {self._graph.nodes[factor].inputs[0].node for factor in clips}
        for member in members:
            if member in clips:
                self._add_clip(member, clips[member])
            elif member not in gates:
                self._add(member)
        outputs: list[tuple[int, int]] = []
        graph = self._graph
        for member in members:
            node = graph.nodes[member]
            outside = [user for user in graph.users(member) if _is_outside(graph, self._group, user)]
            read = {v for user in outside for v in graph.nodes[user].inputs}
            for value in node.values:
                place = self._places.get(value)
                if place is not None and (value in read or value in graph.outputs):
                    outputs.append(place)
        if not outputs and self._steps:
            outputs = [(len(self._steps) - 1, 0)]
        origin = self._origin if self._opaque else None
        kernel = Kernel(
            tuple(self._sources),
            tuple(self._steps),
            tuple(outputs),
            self._opaque,
            body_bytes=self._body_bytes,
            open_axes=self._open_axes(),
            origin=origin,
        )
        residence = self._residence(kernel)
        return kernel if residence is kernel.residence else dataclasses.replace(kernel, residence=residence)

    def _open_axes(self) -> tuple[int, ...]:
        nodes = (self._graph.nodes[member] for member in self._group.members)
        images = [self._graph.type_of(node.inputs[0]) for node in nodes if is_written_by_sizes(node.operator)]
        shapes = [image.shape for image in images if isinstance(image, TensorType)]
        return tuple(axis for axis in (2, 3) if any(not isinstance(shape[axis], int) for shape in shapes))

    def _residence(self, kernel: Kernel) -> Residence:
        origin, weights = self._sizes.origin, kernel.weight_bytes
        if weights <= SMALL_WEIGHTS:
            return Residence.CORE
        if origin is None:
            return Residence.SHARED if weights >= _LARGE_WEIGHTS else Residence.CORE
        if origin.residence is Residence.MEMORY and not self._waits_for_memory(kernel, origin):
            return Residence.SHARED
        return origin.residence

    def _waits_for_memory(self, kernel: Kernel, origin: Origin) -> bool:
        """Whether reading the weights from memory determines the kernel's time."""
        if kernel.opaque:
            return False
        weights = sum(
            bytes_of(source.type)
            for source, node in zip(kernel.sources, self._nodes, strict=True)
            if source.is_weight and origin.comes_from_memory(self._graph.nodes[node].operator)
        )
        return weights >= _LARGE_WEIGHTS and kernel.flops < _FETCHING * weights

    def _clips(self) -> Iterator[tuple[NodeId, Operator]]:
        """The clips in the group, by the factors that end them."""
        nodes, members = self._graph.nodes, self._group.members
        for member in members:
            if traits(nodes[member].operator.name).role is not FusionRole.FACTOR:
                continue
            gate, factor = (value.node for value in nodes[member].inputs)
            clip = clip_of(nodes[gate].operator, nodes[factor].operator) if gate in members else None
            if clip is not None:
                yield member, clip

    def _add_clip(self, factor: NodeId, clip: Operator) -> None:
        """A gate and its factor as the one operator that they are when lowered."""
        node = self._graph.nodes[factor]
        (operand,) = self._graph.nodes[node.inputs[0].node].inputs
        place = self._place(operand)
        self._places[node.value] = (len(self._steps), 0)
        self._steps.append(KernelStep(clip, (place,), (self._type(node.value),)))

    def _add(self, node_id: NodeId) -> None:
        node = self._graph.nodes[node_id]
        operator = node.operator
        if not isinstance(operator, Operator) or isinstance(operator, Opaque):
            self._opaque = True
            if isinstance(operator, Opaque) and self._sizes.origin is not None:
                self._body_bytes = self._sizes.origin.body_bytes(operator)
            operator = self._opaque_spelling(operator)
        operands = tuple(self._place(value) for value in node.inputs)
        types = tuple(map(self._type, node.values))
        index = len(self._steps)
        self._steps.append(KernelStep(self._spelled(operator, operands), operands, types))
        for port, value in enumerate(node.values):
            self._places[value] = (index, port)

    def _type(self, value: Value) -> TensorType:
        """The type with numbers for symbols; for values that are not tensors of known rank, one that is not
        measured."""
        type_ = self._graph.type_of(value)
        if isinstance(type_, TensorType):
            return self._sizes.type(type_)
        operator, origin = self._graph[value.node].operator, self._sizes.origin
        if origin is not None and isinstance(operator, Opaque):
            observed = origin.observed(operator, value.port, self._sizes.type)
            if observed is not None:
                return observed
        self._opaque = True
        return TensorType(ElementType.OTHER, ())

    def _opaque_spelling(self, operator: GraphOperator) -> Operator:
        spelled = None
        if isinstance(operator, Opaque) and self._origin is not None:
            spelled = self._origin.spelled(operator)
        if spelled is None:
            self._origin = None
            return Opaque("", operator.name, 0, "")
        return spelled

    def _spelled(self, operator: Operator, operands: tuple[tuple[int, int], ...]) -> Operator:
        if self._opaque:
            return self._sizes.operator(operator)
        types = tuple(
            self._steps[i].types[port] if i >= 0 else self._sources[-i - 1].type for i, port in operands
        )
        return respelled(self._sizes.operator(operator), types)

    def _place(self, value: Value) -> tuple[int, int]:
        found = self._places.get(value)
        if found is not None:
            return found
        node = self._graph.nodes[value.node]
        operator = traits(node.operator.name)
        if operator.repeats or (self._origin is not None and operator.fills):
            self._add(value.node)
            return self._places[value]
        if operator.role is FusionRole.TRANSPARENT and value.node not in self._free:
            place = self._place(node.inputs[0])
        else:
            type_ = self._type(value)
            is_weight = value.node in self._free
            content = (
                self._origin.content(self._graph, value, self._free)
                if is_weight and self._origin is not None
                else None
            )
            blocked = value.node in self._blocked and can_be_blocked(type_)
            self._nodes.append(value.node)
            self._sources.append(Source(type_, is_weight, blocked, content))
            place = (-len(self._sources), 0)
        self._places[value] = place
        return place


def _looks_at_numbers(operator: GraphOperator) -> bool:
    """Whether the runtime inspects constants when it fuses such an operator."""
    return isinstance(operator, Opaque) or bool(traits(operator.name).gate)


__all__ = ["SMALL_WEIGHTS", "is_read_outside", "kernel_of"]
