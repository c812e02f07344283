"""Kernels: fusion groups extracted from their graph, in a canonical form shared by equal groups.

A kernel is the unit of pricing. Its sources are run-time tensors or weights, with concrete shapes; a source
may arrive in the blocked layout that the runtime prefers for images.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from superopt.errors import IllTypedError
from superopt.ir.dimensions import symbol
from superopt.ir.graph import Graph, GraphOperator, Input, NodeId, Value, Weight
from superopt.ir.types import ElementType, TensorType
from superopt.ops.base import Operator
from superopt.ops.opaque import Opaque
from superopt.ops.traits import traits
from superopt.optimizer.cost.kernels.origin import Origin
from superopt.optimizer.cost.machine import Residence, bytes_of, number_of
from superopt.optimizer.fusion import TRANSPARENT

_BLOCKABLE_RANK = 4


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
    body. ``open_axes``: those of an image whose sizes are open in the model, where they decide how a
    convolution of it is written."""

    sources: tuple[Source, ...]
    steps: tuple[KernelStep, ...]
    outputs: tuple[tuple[int, int], ...]
    opaque: bool = False
    residence: Residence = Residence.CORE
    body_bytes: int | None = None
    open_axes: tuple[int, ...] = ()
    origin: Origin | None = dataclasses.field(default=None, compare=False, repr=False)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.sources, self.steps, self.outputs, self.residence, self.open_axes))

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, stable across processes."""
        steps = self.steps if not self.opaque else tuple(map(_without_index, self.steps))
        text = repr((self.sources, steps, self.outputs, self.residence.value))
        if self.open_axes:
            text += f" {self.open_axes}"
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

    def fits(self, step: KernelStep) -> bool:
        """Whether the types of a step follow from those of its operands. At assumed sizes that are smaller
        than windows they do not: each size is taken for 1 at least."""
        try:
            return step.operator.infer(*self._operand_types(step)) == step.types
        except IllTypedError:
            return False

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
        opened = {step.operands[0] for step in self.steps if is_written_by_sizes(step.operator)}
        sources = [
            editor.add(
                Weight(name, source.type)
                if source.is_weight
                else Input(name, self._open(source.type) if (-index, 0) in opened else source.type)
            ).value
            for index, (name, source) in enumerate(self.named_sources.items(), 1)
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

    def _open(self, image: TensorType) -> TensorType:
        sizes = (
            symbol(f"size {axis}") if axis in self.open_axes else size
            for axis, size in enumerate(image.shape)
        )
        return image.with_shape(tuple(sizes))


def is_written_by_sizes(operator: GraphOperator) -> bool:
    """Whether ONNX nodes differ where the height or width of the first operand is open."""
    own = traits(operator.name)
    return own.rounds_more and own.windowed


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
