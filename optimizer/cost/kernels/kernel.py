"""Kernels: fusion groups extracted from their graph, in a canonical form shared by equal groups.

A kernel is the unit of pricing. Its sources are run-time tensors or weights, with concrete shapes; a source
may arrive in the blocked layout that the runtime prefers for images.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from superopt.ir.graph import Graph, GraphOperator, Input, NodeId, Value, Weight
from superopt.ir.plan import FusionGroup
from superopt.ir.types import ElementType, TensorType
from superopt.ops.base import Operator
from superopt.ops.elementwise.clipping import clip_of
from superopt.ops.opaque import Opaque
from superopt.ops.roles import FusionRole
from superopt.ops.traits import traits
from superopt.optimizer.cost.kernels.origin import Origin
from superopt.optimizer.cost.kernels.spelling import respelled
from superopt.optimizer.cost.machine import Residence, bytes_of, number_of
from superopt.optimizer.cost.sizes import Sizes
from superopt.optimizer.fusion import TRANSPARENT

_BLOCKABLE_RANK = 4

SMALL_WEIGHTS = 4 * 2**10
"""Bytes of weights up to which their memory location does not affect the cost."""

LARGE_WEIGHTS = 128 * 2**10
"""Bytes of weights from which on it matters whether they are read from memory."""

_FETCHING = 64
"""A kernel with fewer operations per byte of its weights is memory-bound."""


@dataclass(frozen=True, slots=True)
class Source:
    """An operand from outside the kernel. ``blocked``: it is in the runtime's layout for images; ``content``:
    the bytes of a constant that affects what the runtime executes."""

    type: TensorType
    is_weight: bool = False
    blocked: bool = False
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class KernelStep:
    """One operator of a kernel; operands ``i >= 0`` are (step, port), ``i < 0`` is source ``-i - 1``."""

    operator: Operator
    operands: tuple[tuple[int, int], ...]
    types: tuple[TensorType, ...]


@dataclass(frozen=True)
class Kernel:
    """Operators that are executed together; kernels are equal when the runtime cannot distinguish them.
    ``opaque``: some step has no operator in the algebra; it can be measured where there is an ``origin`` to
    copy it from. ``residence``: the caches, or the memory, that its weights are read from; few weights are in
    the core's own cache. ``body_bytes``: bytes of constants in the bodies of opaque steps, None without a
    body."""

    sources: tuple[Source, ...]
    steps: tuple[KernelStep, ...]
    outputs: tuple[tuple[int, int], ...]
    opaque: bool = False
    residence: Residence = Residence.CORE
    body_bytes: int | None = None
    origin: Origin | None = dataclasses.field(default=None, compare=False, repr=False)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.sources, self.steps, self.outputs, self.residence))

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, stable across processes."""
        steps = self.steps if not self.opaque else tuple(map(_without_index, self.steps))
        text = repr((self.sources, steps, self.outputs, self.residence.value))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """Types of the kernel's outputs."""
        return tuple(self.steps[step].types[port] for step, port in self.outputs)

    @property
    def flops(self) -> int:
        """Arithmetic operations of all steps; one that moves elements counts as one for each."""
        return sum(
            self._flops(step)
            for step in self.steps
            if step.operands and step.operator.name not in TRANSPARENT
        )

    @property
    def arithmetic(self) -> int:
        """Arithmetic operations of the steps that compute; those that only move elements, and those without
        an operator in the algebra, count as none."""
        return sum(
            self._flops(step)
            for step in self.steps
            if step.operands and not step.operator.moves and not isinstance(step.operator, Opaque)
        )

    @property
    def only_renames(self) -> bool:
        """Whether it only reshapes a tensor."""
        return all(step.operator.renames for step in self.steps)

    @property
    def moved_bytes(self) -> int:
        """Bytes of everything that enters or leaves the kernel, each counted once."""
        types = (*(source.type for source in self.sources), *self.output_types)
        return sum(bytes_of(type_) for type_ in types)

    @property
    def operators(self) -> str:
        """The names of its operators, in order; constants left out."""
        steps = (step.operator for step in self.steps if step.operands)
        return " ".join(o.op_type if isinstance(o, Opaque) else o.name for o in steps)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights that it reads."""
        return sum(bytes_of(source.type) for source in self.sources if source.is_weight)

    @cached_property
    def product(self) -> tuple[Operator, tuple[TensorType, ...]] | None:
        """Its product, with the types of the operands; None without one or with several."""
        products = [step for step in self.steps if traits(step.operator.name).product]
        return (products[0].operator, self._operand_types(products[0])) if len(products) == 1 else None

    def _flops(self, step: KernelStep) -> int:
        return number_of(step.operator.work(self._operand_types(step), step.types).flops)

    def _operand_types(self, step: KernelStep) -> tuple[TensorType, ...]:
        return tuple(
            self.steps[index].types[port] if index >= 0 else self.sources[-index - 1].type
            for index, port in step.operands
        )

    @property
    def named_sources(self) -> Mapping[str, Source]:
        """The sources, in order, by their names in a model of the kernel: none that the bodies of its opaque
        nodes are likely to read, which have names of the user's."""
        return {f"superopt/{'w' if s.is_weight else 'x'}{i}": s for i, s in enumerate(self.sources)}

    def to_graph(self) -> Graph:
        """The kernel as a graph: computed sources become inputs, the others weights."""
        editor = Graph.empty().edit()
        sources = [
            editor.add((Weight if source.is_weight else Input)(name, source.type)).value
            for name, source in self.named_sources.items()
        ]
        nodes: list[NodeId] = []
        for step in self.steps:
            inputs = tuple(
                Value(nodes[index], port) if index >= 0 else sources[-index - 1]
                for index, port in step.operands
            )
            nodes.append(editor.add(step.operator, inputs, types=step.types).id)
        editor.set_outputs(Value(nodes[index], port) for index, port in self.outputs)
        return editor.build()


def _without_index(step: KernelStep) -> KernelStep:
    operator = step.operator
    if not isinstance(operator, Opaque):
        return step
    return dataclasses.replace(step, operator=dataclasses.replace(operator, index=0))


def main_operator(names: Sequence[str]) -> str:
    """The kernel's main operator: the first that does not only move elements."""
    products = (name for name in names if traits(name).product)
    working = (name for name in names if not traits(name).moves)
    visible = (name for name in names if name not in TRANSPARENT)
    return next(itertools.chain(products, working, visible, names), "")


def can_be_blocked(type_: object) -> bool:
    """Whether the runtime may keep such a tensor in its blocked layout for images."""
    return (
        isinstance(type_, TensorType)
        and type_.element is ElementType.FLOAT
        and len(type_.shape) == _BLOCKABLE_RANK
    )


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
            origin=origin,
        )
        residence = self._residence(kernel)
        return kernel if residence is kernel.residence else dataclasses.replace(kernel, residence=residence)

    def _residence(self, kernel: Kernel) -> Residence:
        origin, weights = self._sizes.origin, kernel.weight_bytes
        if weights <= SMALL_WEIGHTS:
            return Residence.CORE
        if origin is None:
            return Residence.SHARED if weights >= LARGE_WEIGHTS else Residence.CORE
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
        return weights >= LARGE_WEIGHTS and kernel.flops < _FETCHING * weights

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
